-- equal
WITH orders AS (SELECT * FROM orders WHERE is_paid) SELECT count(*) AS n FROM orders
WITH orders AS (SELECT region, count(*) AS n FROM orders GROUP BY region) SELECT sum(n) AS n FROM orders
WITH by_region AS (SELECT region, 0 AS n FROM by_region) SELECT sum(n) AS s FROM by_region
WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 3) SELECT * FROM t
SELECT region, count(*) FROM orders WHERE customer = '5' OR customer IN ('6', '7') GROUP BY 1 ORDER BY 1
SELECT count(*) FROM orders WHERE is_paid = 't'
SELECT count(*) FROM orders WHERE total > '100.5'
SELECT count(*) FROM visits WHERE at >= timestamptz '2024-02-29 12:00+00'
SELECT count(*) FROM visits WHERE at >= timestamptz '2024-02-29 12:00+02'
SELECT count(*) FROM visits WHERE day >= timestamptz '2024-02-29 01:00+01'
SELECT count(*) FROM visits WHERE day >= timestamptz '2024-02-29 01:00+02'
SELECT count(*) FROM visits WHERE date_trunc('day', at) >= timestamptz '2024-02-29 00:00+02'
SELECT count(*) FROM orders WHERE customer > '-5' AND customer BETWEEN '1' AND '50'
SELECT count(*) FROM orders WHERE is_paid <> 'off'
SELECT count(*) FROM orders WHERE total IN ('100.5', '1e2') OR total < '12'
SELECT count(*) FROM orders WHERE '5' = customer
SELECT region FROM orders GROUP BY region HAVING count(*) > '600' ORDER BY 1
SELECT count(*) FROM visits WHERE at >= '2024-02-29 12:00+02'::timestamptz
SELECT count(*) FROM visits WHERE at >= '2024-02-29 12:00+02'
SELECT count(*) FROM visits WHERE at >= timestamp '2024-02-29 12:00+02'
SELECT count(*) FROM visits WHERE at >= date '2024-02-29'
SELECT count(*) FROM visits WHERE at >= '2024-02-29 13:00'::date
SELECT count(*) FROM visits WHERE day >= timestamp '2024-02-29 12:00'
SELECT count(*) FROM visits WHERE day >= timestamp '2024-02-29 00:00'
SELECT count(*) FROM visits WHERE day >= timestamptz '2024-02-29 12:00'
SELECT count(*) FROM visits WHERE day >= timestamptz '2024-02-29 00:00+00'
SELECT count(*) FROM visits WHERE day >= '2024-02-29 12:00'
SELECT count(*) FROM visits WHERE day = '2024-02-29 12:00'::date
SELECT count(*) FROM visits WHERE day BETWEEN timestamp '2024-02-28 12:00' AND '2024-02-29'
SELECT count(*) FROM visits WHERE at BETWEEN '2024-02-28' AND timestamp '2024-02-29 12:00'
SELECT count(*) FROM visits WHERE at IN ('2024-02-28', timestamp '2024-02-29 12:00')
SELECT count(*) FROM visits WHERE at::date >= timestamp '2024-02-29 12:00'
SELECT count(*) FROM visits WHERE date_trunc('day', at) >= date '2024-02-29'
SELECT region::varchar AS a, count(*) FROM orders GROUP BY region ORDER BY 1
SELECT region::text AS a, count(*) FROM orders GROUP BY 1 ORDER BY 1
SELECT region, lag(count(*), 1, 0) OVER w AS k, lead(region) OVER w AS l FROM orders GROUP BY region WINDOW w AS (ORDER BY region) ORDER BY 1
SELECT region, sum(count(*)) OVER (w ROWS UNBOUNDED PRECEDING) AS k, rank() OVER v AS r FROM orders GROUP BY region WINDOW w AS (ORDER BY region), v AS (PARTITION BY region ORDER BY count(*)) ORDER BY 1
SELECT region, n, first_value(n) OVER (ORDER BY n ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING EXCLUDE CURRENT ROW) AS k FROM by_region ORDER BY 1
SELECT REGION, COUNT(*) FROM ORDERS GROUP BY Region ORDER BY 1
SELECT REGION, N FROM by_region ORDER BY 1
SELECT 0.1 + 0.2 = 0.3 AS x
SELECT 5 / 2 AS a, -5 / 2 AS b, 5 % -3 AS c, -5 % 3 AS d
SELECT 5 / 2 AS a, -5 / 2 AS b, 5 % -3 AS c, -5 % 3 AS d, count(*) FROM orders
SELECT count(*) / 7 AS a, -count(*) / 7 AS b, count(*) / 7.0 AS c, -count(*) % 7 AS d FROM orders
SELECT sum(seconds) / count(*) AS a, avg(seconds) AS b FROM visits
SELECT sum(total) / count(*) AS a, avg(total) AS b, sum(total) * 1.1 AS c, sum(total) / 3 AS d FROM orders
SELECT round(sum(total), 1) AS r, round(avg(total), 3) AS a, round(sum(total)) AS b, round(-2.5) AS c, round(2.5) AS d FROM orders
SELECT floor(-avg(total)) AS a, ceil(-avg(total)) AS b FROM orders
SELECT region, sum(total) FROM orders GROUP BY region HAVING sum(total) > 60000.5 ORDER BY 1
SELECT region, count(*) FROM orders GROUP BY 1 ORDER BY 1 DESC NULLS LAST LIMIT 2 OFFSET 1
SELECT region, count(*) FROM orders GROUP BY 1 ORDER BY 1 FETCH FIRST 2 ROWS ONLY
SELECT region, count(*) FROM orders GROUP BY 1 ORDER BY 1 OFFSET 3 ROWS
SELECT region, count(*) FROM orders GROUP BY 1 ORDER BY 1 LIMIT ALL
SELECT region, count(*) FROM orders GROUP BY 1 ORDER BY 1 LIMIT NULL
SELECT region, count(*) FROM orders GROUP BY 1 ORDER BY 1 LIMIT 1 + 1
SELECT nullif(region, 'north') AS r, count(*) FROM orders GROUP BY 1 ORDER BY 1
SELECT nullif(region, 'north') AS r, count(*) FROM orders GROUP BY 1 ORDER BY 1 DESC
SELECT count(*) FROM orders WHERE region = NULL
SELECT count(*) FROM orders WHERE customer IN (1, 2, NULL)
SELECT count(*) FROM orders WHERE customer NOT IN (1, 2, NULL)
SELECT count(*) FROM orders WHERE customer BETWEEN SYMMETRIC 20 AND 10
SELECT count(*) FROM orders WHERE NOT is_paid
SELECT count(*) FROM orders WHERE is_paid IS NOT TRUE
SELECT count(*) FROM orders WHERE region LIKE 'n_rt%' OR region ILIKE 'SOUTH'
SELECT count(*) FROM orders WHERE region LIKE '%\\%'
SELECT count(*) FROM orders WHERE region = ANY (ARRAY['north', 'south'])
SELECT count(*) FROM orders WHERE region > 'm'
SELECT count(*) FROM orders WHERE customer = 5.0
SELECT count(*) FROM orders WHERE customer > 9223372036854775808
SELECT count(*) FROM orders WHERE total = 12.5 OR total IN (1, 2.00)
SELECT count(*) FROM orders WHERE customer / 2 = 3
SELECT count(*) FROM orders WHERE customer % 2 = 1
SELECT customer / 100 AS c, count(*) FROM orders GROUP BY 1 ORDER BY 1 LIMIT 3
SELECT customer % 3 AS c, count(*), sum(total) FROM orders GROUP BY 1 ORDER BY 1
SELECT count(*) FROM visits WHERE day = '2024-02-29'
SELECT count(*) FROM visits WHERE day >= date '2024-02-29' AND day < date '2024-02-29' + 2
SELECT count(*) FROM visits WHERE day >= date '2024-02-29' AND day < date '2024-02-29' + interval '1 day'
SELECT count(*) FROM visits WHERE at >= '2024-02-29 12:00' AND at < timestamp '2024-02-29 12:00' + interval '36 hours'
SELECT count(*) FROM visits WHERE at - interval '1 day' > day
SELECT count(*) FROM visits WHERE at::date = day
SELECT date_trunc('week', at) AS w, count(*) FROM visits GROUP BY 1 ORDER BY 1
SELECT date_trunc('week', day) AS w, count(*) FROM visits GROUP BY 1 ORDER BY 1
SELECT date_trunc('month', day)::date AS w, count(*) FROM visits GROUP BY 1 ORDER BY 1
SELECT extract(dow FROM day) AS w, extract(isodow FROM day) AS i, extract(week FROM day) AS k, count(*) FROM visits GROUP BY 1, 2, 3 ORDER BY 1
SELECT max(day) + 1 AS a, max(day) + interval '1 month' AS b, min(day) - 1 AS c FROM visits
SELECT to_char(max(at), 'YYYY-MM-DD HH24:MI:SS') AS a, to_char(max(day), 'Mon YYYY') AS b FROM visits
SELECT day + 1 AS d, count(*) FROM visits GROUP BY 1 ORDER BY 1
SELECT day - date '2024-02-01' AS d, count(*) FROM visits GROUP BY 1 ORDER BY 1
SELECT count(*) FILTER (WHERE is_paid) AS a, sum(total) FILTER (WHERE region = 'x') AS b, count(*) FILTER (WHERE false) AS c FROM orders
SELECT min(total) AS a, max(total) AS b, max(total) - min(total) AS c FROM orders
SELECT stddev(total) AS a, variance(total) AS b, stddev_pop(total) AS c, var_pop(total) AS d FROM orders
SELECT corr(total, customer) AS a, regr_slope(total, customer) AS b, covar_pop(total, customer) AS c FROM orders
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY total) AS a, percentile_disc(0.5) WITHIN GROUP (ORDER BY total) AS b FROM orders
SELECT sum(CASE WHEN is_paid THEN total ELSE 0 END) AS a, sum(CASE WHEN is_paid THEN 1 END) AS b FROM orders
SELECT coalesce(nullif(region, 'north'), 'none') AS r, count(*) FROM orders GROUP BY 1 ORDER BY 1
SELECT greatest(count(*), 5, NULL) AS g, least(NULL, count(*)) AS l FROM orders
SELECT count(*) AS n, count(*) AS n FROM orders
SELECT region, region, count(*) FROM orders GROUP BY region ORDER BY 1
SELECT a.region, b.region FROM by_region a JOIN by_region b ON a.region = b.region ORDER BY 1
SELECT a.region, b.region FROM (SELECT region, count(*) AS n FROM orders GROUP BY region) a JOIN (SELECT region, count(*) AS n FROM orders GROUP BY region) b ON a.region = b.region ORDER BY 1
SELECT "region" AS "My Region", count(*) AS "How Many" FROM "orders" GROUP BY "region" ORDER BY "How Many", "My Region"
SELECT region AS "a""b", count(*) AS "c'd" FROM orders GROUP BY region ORDER BY 1
SELECT o."region" AS "Group", count(*) AS "select" FROM public.orders AS o GROUP BY o.region ORDER BY "select", "Group"
SELECT "My Region" FROM (SELECT region AS "My Region", count(*) AS n FROM orders GROUP BY region) AS "My Table" ORDER BY "My Table".n, 1
SELECT 'it''s' AS a, 'back\slash' AS c, count(*) FROM orders
SELECT count(*) FROM orders WHERE region = 'O''Hare \ "x"'
SELECT upper(left(region, 1)) || substr(region, 2) AS k, count(*) FROM orders GROUP BY 1 ORDER BY 1
SELECT (count(*) > 5)::int AS a, (count(*) > 5)::text AS b FROM orders
SELECT row_number() OVER (ORDER BY count(*) DESC, region) AS k, region FROM orders GROUP BY region ORDER BY k
SELECT region, sum(count(*)) OVER (ORDER BY region ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS k FROM orders GROUP BY region ORDER BY 1
SELECT region, last_value(region) OVER (ORDER BY count(*)) AS k FROM orders GROUP BY region ORDER BY 1
SELECT region, n, sum(n) OVER (ORDER BY n RANGE BETWEEN 10 PRECEDING AND CURRENT ROW) AS k FROM (SELECT region, count(*) AS n FROM orders GROUP BY region) t ORDER BY 1
SELECT region, n, sum(n) OVER (ORDER BY n GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW) AS k FROM (SELECT region, count(*) AS n FROM orders GROUP BY region) t ORDER BY 1
SELECT region, ntile(2) OVER (ORDER BY n, region) AS k, percent_rank() OVER (ORDER BY n) AS p, cume_dist() OVER (ORDER BY n) AS c FROM (SELECT region, count(*) AS n FROM orders GROUP BY region) t ORDER BY 1
SELECT count(*) FROM orders HAVING count(*) > 5
SELECT count(*) FROM orders HAVING count(*) > 500000
SELECT region, n FROM by_region b WHERE n > (SELECT avg(n) FROM by_region c WHERE c.region <> b.region) ORDER BY 1
SELECT region FROM by_region b WHERE n >= ALL (SELECT n FROM by_region)
SELECT (SELECT count(*) FROM orders WHERE region = 'nowhere') AS r, (SELECT sum(total) FROM orders WHERE region = 'nowhere') AS s
SELECT count(*) FROM orders WHERE total > (SELECT avg(total) FROM orders WHERE region = 'nowhere')
SELECT count(*) FROM orders WHERE total > (SELECT avg(total) FROM orders)
SELECT count(*) FROM orders WHERE customer IN (SELECT customer FROM visits WHERE seconds > 200)
SELECT count(*) FROM orders WHERE customer NOT IN (SELECT customer FROM visits WHERE seconds > 200)
SELECT count(*) FROM orders o WHERE NOT EXISTS (SELECT 1 FROM visits v WHERE v.customer = o.customer AND v.seconds > 200)
SELECT region AS k, count(*) AS n FROM orders GROUP BY region UNION ALL SELECT NULL, count(*) FROM orders ORDER BY n, k
SELECT count(*) AS n FROM orders UNION SELECT count(*) FROM visits
SELECT region FROM orders GROUP BY region EXCEPT SELECT 'north' ORDER BY 1
SELECT 'a' AS k, count(*) AS n FROM orders UNION ALL SELECT 'b', sum(seconds) FROM visits ORDER BY 1
SELECT 1 AS k, count(*) AS n FROM orders UNION ALL SELECT 2.5, count(*) FROM visits ORDER BY 1
WITH orders AS (SELECT 1 AS x) SELECT * FROM orders
WITH t(a, b) AS (SELECT region, count(*) FROM orders GROUP BY region) SELECT a, b FROM t ORDER BY a
SELECT * FROM (SELECT region, count(*) FROM orders GROUP BY region) AS t(a, b) ORDER BY a
WITH t AS MATERIALIZED (SELECT region, count(*) AS n FROM orders GROUP BY region) SELECT sum(n) FROM t
WITH t AS (SELECT region, count(*) AS n FROM orders GROUP BY region), u AS (SELECT * FROM t WHERE n > 500) SELECT t.region, u.n FROM t LEFT JOIN u USING (region) ORDER BY 1
SELECT x.region, y.region FROM (SELECT region FROM orders WHERE is_paid GROUP BY region) x FULL JOIN (SELECT region FROM orders WHERE total > 190 GROUP BY region) y ON x.region = y.region ORDER BY 1, 2
SELECT o.region, count(v.customer) AS n, count(*) AS m FROM orders o LEFT JOIN visits v ON o.customer = v.customer AND v.seconds > 290 GROUP BY o.region ORDER BY 1
SELECT count(*) FROM orders NATURAL JOIN visits
SELECT DISTINCT region FROM orders ORDER BY 1
SELECT DISTINCT ON (region) region, count(*) FROM orders GROUP BY region
SELECT DISTINCT region, is_paid FROM orders ORDER BY 1, 2
SELECT 1 AS k, count(*) FROM orders GROUP BY k
SELECT region, count(*) FROM orders WHERE total < 0 GROUP BY region
SELECT sum(total) AS s, count(*) AS n, avg(total) AS a, max(total) AS m FROM orders WHERE total < 0
SELECT sum(total) + 1 AS s, coalesce(sum(total), 0) AS c FROM orders WHERE total < 0
SELECT count(*) / nullif(count(*) FILTER (WHERE false), 0) AS x FROM orders
SELECT power(count(*), 2) AS a, sqrt(count(*)) AS b, abs(-count(*)) AS c, sign(-count(*)) AS d, exp(1) AS e, mod(count(*), 7) AS f FROM orders
SELECT sum(total * customer) AS a, sum(total + customer) AS b, sum(-total) AS c, sum(total) - sum(customer) AS d FROM orders
SELECT sum(seconds * seconds) AS a, sum(seconds) * sum(seconds) AS b FROM visits
SELECT avg(n) AS a, sum(n) AS b, min(n) AS c, count(n) AS d, stddev(n) AS e FROM (SELECT customer, count(*) AS n FROM orders GROUP BY customer) t
SELECT avg(money) AS a, sum(money) AS b, max(money) AS c FROM (SELECT region, sum(total) AS money FROM orders GROUP BY region) t
SELECT sum(n) / 7 AS a, sum(n) / count(*) AS b, avg(n) / 2 AS c, 100 * n / (SELECT count(*) FROM orders) AS d FROM (SELECT region, count(*) AS n FROM orders GROUP BY region) t GROUP BY n ORDER BY 4
SELECT region, 100 * n / sum(n) OVER () AS pct FROM (SELECT region, count(*) AS n FROM orders GROUP BY region) t ORDER BY 1
SELECT region, n / 7 AS a, n % 7 AS b, n / 7.0 AS c, n * 1.5 AS d FROM (SELECT region, count(*) AS n FROM orders GROUP BY region) t ORDER BY 1
SELECT region, money / 7 AS a, round(money, 0) AS b, money::int AS c, money * 1.075 AS d FROM (SELECT region, sum(total) AS money FROM orders GROUP BY region) t ORDER BY 1
SELECT generate_series(1, 3) AS g
SELECT x, y FROM (VALUES (1, 2), (3, 4)) AS t(x, y) ORDER BY x
SELECT unnest(ARRAY[1, 2]) AS u
SELECT r, sum(a) FROM (SELECT upper(region) AS r, total * 2 AS a FROM orders WHERE is_paid) t WHERE a > 100 GROUP BY r ORDER BY r
SELECT count(*) orders FROM orders
SELECT count(*) FROM orders AS "Orders" WHERE "Orders".total > 5
SELECT region r, count(*) c FROM orders GROUP BY r HAVING count(*) > 500 ORDER BY c
SELECT region, count(*) FILTER (WHERE is_paid)::numeric / count(*) AS share FROM orders GROUP BY region ORDER BY 1
SELECT region, (count(*) FILTER (WHERE is_paid))::float / count(*) AS share FROM orders GROUP BY region ORDER BY 1
SELECT region, round(100.0 * count(*) FILTER (WHERE is_paid) / count(*), 1) AS share FROM orders GROUP BY region ORDER BY 1
SELECT floor(total / 50) * 50 AS b, count(*) FROM orders GROUP BY 1 ORDER BY 1
SELECT total > 100 AS b, count(*) FROM orders GROUP BY 1 ORDER BY 1
SELECT NOT is_paid AS b, count(*) FROM orders GROUP BY 1 ORDER BY 1
SELECT total * 2 AS b, count(*) FROM orders GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 3
SELECT -seconds AS b, count(*) FROM visits GROUP BY 1 ORDER BY 1 LIMIT 3
SELECT seconds / 60 AS b, count(*) FROM visits GROUP BY 1 ORDER BY 1
SELECT date '2024-01-01' + count(*)::int AS d FROM orders
SELECT '2024-01-31'::date + interval '1 month' AS m, '2024-01-31'::timestamp - '2023-12-31'::timestamp AS d, date '2024-03-01' - date '2024-02-01' AS e
SELECT region, sum(n) FILTER (WHERE n > 600) OVER (ORDER BY region) AS s FROM (SELECT region, count(*) AS n FROM orders GROUP BY region) t ORDER BY 1
SELECT region, count(*) FROM orders GROUP BY ROLLUP (region), ROLLUP (region) ORDER BY 1, 2
SELECT count(*) FROM orders o JOIN visits v USING (customer) WHERE customer < 50
SELECT customer, count(*) FROM orders o JOIN visits v USING (customer) GROUP BY customer ORDER BY 2 DESC, 1 LIMIT 3
SELECT 1 AS k UNION SELECT count(*) - 2999 FROM orders INTERSECT SELECT 1 ORDER BY 1
SELECT count(*) AS k FROM orders UNION ALL SELECT 1 EXCEPT SELECT 1
SELECT nullif(region, 'north') AS r, row_number() OVER (ORDER BY nullif(region, 'north')) AS k FROM (SELECT region, count(*) AS n FROM orders GROUP BY region) t ORDER BY k
SELECT r, rank() OVER (ORDER BY r DESC) AS k FROM (SELECT nullif(region, 'north') AS r, count(*) AS n FROM orders GROUP BY 1) t ORDER BY k
SELECT r, lag(r) OVER (ORDER BY r) AS k, first_value(r) OVER (ORDER BY r DESC) AS f FROM (SELECT nullif(region, 'north') AS r, count(*) AS n FROM orders GROUP BY 1) t ORDER BY r
SELECT string_agg(r, ',' ORDER BY r DESC) AS s, max(r) AS m, count(r) AS c FROM (SELECT nullif(region, 'north') AS r, count(*) AS n FROM orders GROUP BY 1) t
SELECT avg(seconds)::int AS a, round(avg(seconds), 1) AS b, avg(seconds)::numeric(10,2) AS c FROM visits
SELECT (sum(seconds) / 2)::int AS a, (sum(seconds)::numeric / 2)::int AS b, sum(seconds) / 2.0 AS c FROM visits
SELECT extract(minute FROM at) AS s, extract(doy FROM day) AS d, count(*) FROM visits GROUP BY 1, 2 ORDER BY 1, 2 LIMIT 2
SELECT count(v.customer) FROM orders o LEFT JOIN visits v ON v.customer = o.customer
SELECT sum(total) FILTER (WHERE customer IN (SELECT customer FROM visits WHERE seconds > 290)) AS s FROM orders
SELECT t.* FROM (SELECT region, count(*) AS n FROM orders GROUP BY region) t ORDER BY n DESC LIMIT 1
SELECT *, n * 2 AS m FROM (SELECT region, count(*) AS n FROM orders GROUP BY region) t ORDER BY region
SELECT region, count(*) FROM orders GROUP BY region ORDER BY 1 + 0, 2
SELECT region, count(*) FROM orders GROUP BY region ORDER BY region LIMIT '2'
SELECT region, count(*) FROM orders GROUP BY region ORDER BY region LIMIT 2 OFFSET '1'
SELECT count(*) FROM visits WHERE date '2024-02-29' = at
SELECT count(*) FROM visits WHERE day + 1 > '2024-02-29'
SELECT count(*) FROM visits WHERE day - 1 = at::date - 1
SELECT count(*) FROM visits WHERE extract(hour FROM at) BETWEEN 8 AND 17 AND extract(dow FROM day) IN (0, 6)
SELECT count(*) FROM visits WHERE date_part('month', day) = 2
SELECT count(*) FROM orders WHERE region IN ('north', 'south') IS TRUE
SELECT count(*) FROM orders WHERE (region = 'north') = is_paid
SELECT count(*) FROM orders WHERE CASE WHEN is_paid THEN total > 100 ELSE total < 10 END
SELECT count(*) FROM orders WHERE coalesce(is_paid, false)
SELECT count(*) FROM orders WHERE floor(total) = 100
SELECT count(*) FROM orders WHERE total::float8 > 100.5
SELECT count(*) FROM orders WHERE abs(customer - 5) < 2
SELECT count(*) FROM orders WHERE mod(customer, 5) = 0
SELECT count(*) FROM orders WHERE customer / 10 = 2
SELECT count(*) FROM orders WHERE customer * 1.5 = 3
SELECT count(*) FROM orders WHERE -customer < -10
SELECT count(*) FROM orders WHERE NOT customer = 1 AND NOT (customer = 2 OR customer = 3)
SELECT count(*) FROM orders WHERE length(region) = 4 OR upper(region) = 'NORTH' OR left(region, 2) = 'so'
SELECT count(*) FROM orders WHERE region || 'x' = 'northx'
SELECT count(*) FROM orders WHERE region LIKE 'n%h' AND region NOT LIKE '%z%'
SELECT count(*) FROM orders WHERE region LIKE 'O''H%'
SELECT count(*) FROM orders WHERE region LIKE '%"%'
SELECT count(*) FROM orders WHERE region LIKE '%\%'
SELECT count(*) FROM orders WHERE region < 'b' OR region >= 'w'
SELECT count(*) FROM orders WHERE region = 'north '
SELECT count(*) FROM orders WHERE region = 'NORTH'
SELECT count(*) FROM orders WHERE trim(region) = 'north'
SELECT sum(total)::numeric AS a, sum(total)::numeric(10,1) AS b, sum(total)::bigint AS c, sum(total)::int AS d FROM orders
SELECT sum(total) / NULL AS a, NULL::int AS b, count(*) FROM orders
SELECT true AS t, false AS f, NULL AS n, count(*) FROM orders
SELECT 9223372036854775807 AS a, -9223372036854775808 AS b, 1e3 AS c, 1.50 AS d, count(*) FROM orders
SELECT round(1.005, 2) AS a, round(2.345, 2) AS b, round(-1.5) AS c, round(0.5) AS d, count(*) FROM orders
SELECT count(*) % 7 AS a, mod(count(*), 7) AS b, count(*) - count(*) / 7 * 7 AS c FROM orders
SELECT ceil(count(*) / 7.0) AS a, floor(count(*) / 7.0) AS b, ceiling(-0.5) AS c FROM orders
SELECT greatest(sum(total), 5) AS a, least(count(*), 5) AS b, coalesce(sum(total), 0) AS c, nullif(count(*), 3000) AS d FROM orders
SELECT CASE WHEN count(*) > 2000 THEN sum(total) ELSE avg(total) END AS a, CASE WHEN count(*) > 5000 THEN 'big' END AS b FROM orders
SELECT region, CASE WHEN count(*) > 600 THEN 'big' WHEN count(*) > 590 THEN 'mid' ELSE 'small' END AS b FROM orders GROUP BY region ORDER BY region
SELECT b, count(*) FROM (SELECT region, CASE WHEN count(*) > 600 THEN 'big' ELSE 'small' END AS b FROM orders GROUP BY region) t GROUP BY b ORDER BY b
SELECT region, n, n > avg(n) OVER () AS above FROM (SELECT region, count(*) AS n FROM orders GROUP BY region) t ORDER BY region
SELECT region, n, n - avg(n) OVER () AS above, n::float / max(n) OVER () AS share FROM (SELECT region, count(*) AS n FROM orders GROUP BY region) t ORDER BY region
SELECT a.day, a.n, b.n AS before FROM (SELECT day, count(*) AS n FROM visits GROUP BY day) a LEFT JOIN (SELECT day, count(*) AS n FROM visits GROUP BY day) b ON b.day = a.day - 1 ORDER BY 1
SELECT a.day, a.n, b.n AS before FROM (SELECT day, count(*) AS n FROM visits GROUP BY day) a LEFT JOIN (SELECT day, count(*) AS n FROM visits GROUP BY day) b ON b.day = a.day - interval '1 day' ORDER BY 1
SELECT o.region, v.n FROM (SELECT region, min(customer) AS c FROM orders GROUP BY region) o JOIN (SELECT customer, count(*) AS n FROM visits GROUP BY customer) v ON v.customer = o.c ORDER BY 1
SELECT count(*) FROM (SELECT customer FROM orders EXCEPT SELECT customer FROM visits) t
SELECT count(*) FROM (SELECT customer FROM orders UNION SELECT customer FROM visits) t
SELECT region FROM orders WHERE customer = 1 GROUP BY region HAVING count(*) = (SELECT max(n) FROM (SELECT count(*) AS n FROM orders WHERE customer = 1 GROUP BY region) t) ORDER BY 1
SELECT (SELECT count(*) FROM orders) AS a, (SELECT count(*) FROM visits) AS b, (SELECT count(*) FROM orders) - (SELECT count(*) FROM visits) AS c
SELECT (SELECT n FROM by_region WHERE region = 'north') - count(*) AS d FROM orders WHERE region = 'north'
SELECT EXISTS (SELECT region FROM orders GROUP BY region HAVING count(*) > 5000) AS e, count(*) FROM orders
SELECT ARRAY(SELECT region FROM by_region ORDER BY 1) AS a
SELECT count(*) FROM orders WHERE customer = (SELECT customer FROM visits GROUP BY customer ORDER BY count(*) DESC, customer LIMIT 1)
SELECT "N" FROM (SELECT count(*) AS "N" FROM orders) t
SELECT t."N n" FROM (SELECT count(*) AS "N n" FROM orders) AS t
SELECT count(*) AS "a.b" FROM orders
SELECT count(*) AS "naïve ☕" FROM orders
SELECT '☕' AS c, length('☕é') AS l, upper('é') AS u, count(*) FROM orders
SELECT count(*)::text AS c, region::text || count(*)::text AS d FROM orders GROUP BY region ORDER BY 2
SELECT max(n) - min(n) AS spread, max(n) / min(n) AS ratio, max(n)::numeric / min(n) AS exact FROM by_region
SELECT exact FROM (SELECT 1 AS exact, count(*) FROM orders) t
SELECT region AS n_low, count(*) AS n FROM orders GROUP BY region ORDER BY 1
SELECT sum(n) AS exact FROM (SELECT count(*) AS n FROM orders) t
-- refused here
SELECT count(*) FROM orders WHERE region IS DISTINCT FROM 'north'
SELECT count(*) FROM orders WHERE region SIMILAR TO '(n|s)%'
SELECT region FROM (SELECT region, count(*) AS n FROM orders GROUP BY region) b WHERE n >= ALL (SELECT count(*) FROM orders GROUP BY region)
SELECT region, count(*) FROM orders GROUP BY 1 ORDER BY 2 DESC FETCH FIRST 2 ROWS WITH TIES
SELECT region, count(*) FROM orders GROUP BY 1 ORDER BY region COLLATE "C"
SELECT sum(total ORDER BY customer) FROM orders
SELECT count(*), sum(c) FROM orders AS o(a, b, c, d)
SELECT b, count(*) FROM orders AS o(a, b) GROUP BY b ORDER BY b
SELECT to_char(max(at), 'HH12:MI AM') AS a, to_char(max(at), 'Day') AS b FROM visits
SELECT region::varchar(2) AS a, count(*) FROM orders GROUP BY region ORDER BY 1
SELECT region::char(8) AS a, count(*) FROM orders GROUP BY region ORDER BY 1
SELECT region::char AS a, count(*) FROM orders GROUP BY region ORDER BY 1
SELECT 'abc'::varchar(2) AS a, 'abc'::char(5) AS b, count(*) FROM orders
SELECT count(*) FROM orders WHERE region::varchar(2) = 'no'
SELECT count(*)::varchar(2) AS a FROM orders
SELECT region, n, first_value(n) OVER (ORDER BY n ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING EXCLUDE CURRENT ROW) AS k FROM (SELECT region, count(*) AS n FROM orders GROUP BY region) t ORDER BY 1
SELECT DISTINCT ON (k) k, region FROM (SELECT region, count(*) % 2 AS k FROM orders GROUP BY region) t ORDER BY k, region
SELECT region, count(*) FROM orders GROUP BY DISTINCT ROLLUP (region), ROLLUP (region) ORDER BY 1, 2
