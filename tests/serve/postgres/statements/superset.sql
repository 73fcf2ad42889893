-- captured from Apache Superset 6.1.0 by tests/serve/postgres/capture.py: a database, schemas, tables, columns, SQL Lab, charts over a view and over a stream
SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'public' AND c.relkind in ('r', 'p');
SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'public' AND c.relkind = 'f';
SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'public' AND c.relkind IN ('v', 'm');
set search_path = "public";
SELECT pg_backend_pid();
SELECT
  region,
  n,
  n_low,
  n_high
FROM by_region
ORDER BY
  n DESC
LIMIT 101;
SELECT
  region,
  COUNT(*) AS n
FROM orders
WHERE
  total > 100
GROUP BY
  region
LIMIT 101;
SELECT
  *
FROM orders
LIMIT 101;
select relname from pg_class c join pg_namespace n on n.oid=c.relnamespace where n.nspname='public' and relname='by_day';
select relname from pg_class c join pg_namespace n on n.oid=c.relnamespace where n.nspname='public' and relname='by_region';
select relname from pg_class c join pg_namespace n on n.oid=c.relnamespace where n.nspname='public' and relname='orders';
SELECT
  DATE_TRUNC('DAY', day) AS day,
  SUM(n) AS n,
  SUM(n_low) AS n__yhat_lower,
  SUM(n_high) AS n__yhat_upper
FROM public.by_day
GROUP BY
  DATE_TRUNC('DAY', day)
LIMIT 1000;
SELECT
  region AS region,
  SUM(n) AS n
FROM public.by_region
GROUP BY
  region
ORDER BY
  n DESC
LIMIT 100;
SELECT
  region AS region,
  SUM(total) AS money
FROM public.orders
WHERE
  is_paid IS TRUE
GROUP BY
  region
LIMIT 100;
SELECT
  region AS region,
  total AS total
FROM public.orders
LIMIT 10;
-- same: time ranges, as superset/db_engine_specs/postgres.py writes them (convert_dttm)
SELECT DATE_TRUNC('hour', at) AS at, COUNT(*) AS count FROM public.visits WHERE at >= TO_TIMESTAMP('2024-02-28 12:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US') AND at < TO_TIMESTAMP('2024-02-29 12:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US') GROUP BY DATE_TRUNC('hour', at) ORDER BY at LIMIT 1000;
SELECT DATE_TRUNC('month', day) AS day, COUNT(*) AS count FROM public.visits WHERE day >= TO_DATE('2024-02-28', 'YYYY-MM-DD') AND day < TO_DATE('2024-03-01', 'YYYY-MM-DD') GROUP BY DATE_TRUNC('month', day) ORDER BY count DESC LIMIT 1000;
