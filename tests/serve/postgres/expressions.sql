-- equal
SELECT region, to_char(DATE '2024-02-29', 'Mon YYYY') AS m FROM by_region ORDER BY 1
SELECT to_char(day, 'Mon YYYY') AS m, sum(n) AS n FROM by_day GROUP BY 1 ORDER BY 1
SELECT to_char(day, 'Dy DD Mon') AS m, n FROM by_day ORDER BY day
SELECT to_char(day, 'YYYY-MM-DD') AS m, n FROM by_day ORDER BY day
SELECT to_char(hour, 'YYYY-MM-DD HH24:MI:SS.US') AS m, n FROM by_hour ORDER BY hour
SELECT to_char(hour, 'YY/MM/DD HH12:MI') AS m, n FROM by_hour ORDER BY hour
SELECT region FROM by_region WHERE region ~ '^n' ORDER BY 1
SELECT region FROM by_region WHERE region ~ '^(n|s).*th$' ORDER BY 1
SELECT region FROM by_region WHERE region ~* '^N' ORDER BY 1
SELECT region FROM by_region WHERE region !~ 'th' ORDER BY 1
SELECT region FROM by_region WHERE region ~ '[aeiou]{2}' ORDER BY 1
SELECT region FROM by_region WHERE region LIKE 'n%' OR region ILIKE 'S%' ORDER BY 1
SELECT region FROM by_region WHERE region LIKE '%\\%' ORDER BY 1
SELECT region FROM by_region WHERE region NOT LIKE '_o%' ORDER BY 1
SELECT region FROM by_region WHERE region LIKE 'n!%' ESCAPE '!' ORDER BY 1
SELECT regexp_replace(region, '[aeiou]', '*') AS r FROM by_region ORDER BY 1
SELECT regexp_replace(region, '[aeiou]+', '*', 'g') AS r FROM by_region ORDER BY 1
SELECT round(140.5::float8) AS a, round(141.5::float8) AS b, round(-0.5::float8) AS c
SELECT round(140.5) AS a, round(-140.5) AS b, round(2.345, 2) AS c, round(1234.5, -2) AS d
SELECT round((money / n)::numeric, 2) AS r FROM by_region ORDER BY region
SELECT round(n / 7.0, 3) AS r FROM by_region ORDER BY region
SELECT round(100.0 * n / sum(n) OVER (), 1) AS r FROM by_region ORDER BY region
SELECT round(4.035 / 3, 2) AS a, round(2.01 / 2, 2) AS b, 0.3 / 0.1 = 3 AS c, floor(0.3 / 0.1) AS d
SELECT round(n) AS r, round(n, 1) AS s, round(n, -2) AS t FROM by_region ORDER BY region
SELECT round(mean) AS r FROM by_kind ORDER BY 1
SELECT round(mean::numeric, 1) AS r FROM by_kind ORDER BY 1
SELECT trunc(mean) AS r, ceil(mean) AS c, floor(mean) AS f FROM by_kind ORDER BY 1
SELECT trunc(2.567, 1) AS a, trunc(-2.567) AS b, trunc(5) AS c
SELECT mean::int AS r, mean::bigint AS s FROM by_kind ORDER BY 1
SELECT 2.5::int AS a, 3.5::int AS b, 2.5::float8::int AS c, 3.5::float8::int AS d, (-2.5)::int AS e
SELECT (n / 2.0)::int AS a FROM by_day ORDER BY day
SELECT n / 2 AS a, -n / 2 AS b, n % 7 AS c, -n % 7 AS d FROM by_day ORDER BY day
SELECT n / 2.0 AS a, n * 1.5 AS b, n::float8 / 3 AS c, n::numeric / 3 AS d FROM by_day ORDER BY day
SELECT sum(n) / 2 AS a, sum(n) % 5 AS b FROM by_day
SELECT avg(n) AS a, avg(n) / 2 AS b, round(avg(n), 2) AS c FROM by_day
SELECT sum(seconds) / count(*) AS a, sum(seconds) / 7 AS b FROM by_hour
SELECT div(n, 7) AS d FROM by_day ORDER BY day
SELECT div(7, 2), mod(7, 2) AS m
SELECT mod(n, 7) AS d FROM by_day ORDER BY day
SELECT power(2, 10) AS a, 2 ^ 3 AS b, power(n, 2) AS c FROM by_day ORDER BY day
SELECT sqrt(n) AS s FROM by_day ORDER BY day
SELECT ln(n) AS s, log(n) AS t, exp(1) AS e FROM by_day ORDER BY day
SELECT abs(-n) AS a, sign(-n) AS b FROM by_day ORDER BY day
SELECT greatest(n, 500, NULL) AS a, least(n, 500) AS b FROM by_day ORDER BY day
SELECT nullif(n, 600) AS a, coalesce(nullif(n, n), 0) AS b FROM by_day ORDER BY day
SELECT CASE WHEN n > 600 THEN 'many' ELSE 'few' END AS a FROM by_day ORDER BY day
SELECT CASE WHEN n > 600 THEN 1 ELSE 0.5 END AS a FROM by_day ORDER BY day
SELECT CASE region WHEN 'north' THEN 'N' ELSE region END AS a FROM by_region ORDER BY 1
SELECT substring('hello', -1, 4) AS s
SELECT substring('hello', 0, 3) AS s
SELECT substring('hello', 2) AS s
SELECT substring(region, 2, 3) AS s FROM by_region ORDER BY 1
SELECT substring(region FROM 1 FOR 2) AS s FROM by_region ORDER BY 1
SELECT substr(region, 2) AS s FROM by_region ORDER BY 1
SELECT left(region, 2) AS a, left(region, -1) AS b, right(region, 2) AS c, right(region, -1) AS d FROM by_region ORDER BY region
SELECT region::varchar(2) AS s FROM by_region ORDER BY 1
SELECT n::varchar(2) AS s FROM by_region ORDER BY region
SELECT n::text AS s, day::text AS d FROM by_day ORDER BY day
SELECT is_paid::text AS s FROM by_kind ORDER BY 1
SELECT round(100.0 * n / 3000, 1)::text || '%' AS s FROM by_region ORDER BY region
SELECT (n / 7.0)::numeric(10,2)::text AS s FROM by_region ORDER BY region
SELECT cast(n AS numeric(10,2)) AS s FROM by_region ORDER BY region
SELECT cast(mean AS numeric(10,1)) AS s FROM by_kind ORDER BY 1
SELECT concat(region, ' ', n) AS s FROM by_region ORDER BY 1
SELECT concat(region, NULL, 'x') AS s FROM by_region ORDER BY 1
SELECT concat_ws('-', region, NULL, n) AS s FROM by_region ORDER BY 1
SELECT region || '/' || n AS s FROM by_region ORDER BY 1
SELECT region || NULL AS s FROM by_region ORDER BY 1
SELECT region || is_paid AS s FROM by_kind ORDER BY 1
SELECT lpad(region, 8) AS a, rpad(region, 8, '.') AS b, lpad(region, 2, 'x') AS c FROM by_region ORDER BY region
SELECT lpad(n::text, 6, '0') AS a FROM by_region ORDER BY region
SELECT repeat('ab', 3) AS r, repeat(region, 2) AS s FROM by_region ORDER BY region
SELECT repeat('ab', 3)
SELECT lpad('ab', 3)
SELECT rpad('ab', 3)
SELECT trim(region) AS a, ltrim(region, 'n') AS b, rtrim(region, 'h') AS c, btrim(region, 'nh') AS d FROM by_region ORDER BY region
SELECT trim('  ab '), ltrim('  ab'), rtrim('ab  '), trim(both 'x' from 'xax')
SELECT btrim('xax', 'x')
SELECT strpos(region, 'o') AS a, position('t' in region) AS b FROM by_region ORDER BY region
SELECT strpos('abc', 'b')
SELECT split_part(region, 'o', 1) AS a, split_part(region, 'o', 2) AS b FROM by_region ORDER BY region
SELECT upper(region) AS a, lower(region) AS b, length(region) AS c, char_length(region) AS d FROM by_region ORDER BY region
SELECT reverse(region) AS a, replace(region, 'o', '0') AS b FROM by_region ORDER BY region
SELECT translate(region, 'ns', 'NS') AS a, md5(region) AS b FROM by_region ORDER BY region
SELECT starts_with(region, 'n') AS a FROM by_region ORDER BY region
SELECT region > 'north' AS a, region = 'north' AS b FROM by_region ORDER BY region
SELECT region FROM by_region WHERE n = '600'
SELECT day FROM by_day WHERE n > '600' ORDER BY 1
SELECT region FROM by_region WHERE n IN (1, 2, 600) ORDER BY 1
SELECT region FROM by_region WHERE n NOT IN (1, NULL) ORDER BY 1
SELECT region FROM by_region WHERE n IN ('600', '601') ORDER BY 1
SELECT region FROM by_region WHERE region IN ('north', 'south') ORDER BY 1
SELECT region FROM by_region WHERE region = ANY(ARRAY['north', 'south']) ORDER BY 1
SELECT region FROM by_region WHERE (region, n) IN (SELECT region, n FROM by_region) ORDER BY 1
SELECT region FROM by_region WHERE n BETWEEN 500 AND 600 ORDER BY 1
SELECT region, is_paid IS TRUE AS a, is_paid IS NOT FALSE AS b, NOT is_paid AS c FROM by_kind ORDER BY 1, 2
SELECT region FROM by_kind WHERE is_paid = 'true' ORDER BY 1
SELECT region FROM by_kind WHERE is_paid ORDER BY 1
SELECT region FROM by_kind WHERE is_paid IS DISTINCT FROM true ORDER BY 1
SELECT n FROM by_day WHERE day = '2024-02-28'
SELECT n FROM by_day WHERE day >= '2024-02-28' AND day < DATE '2024-03-01' ORDER BY 1
SELECT n FROM by_day WHERE day = '2024-02-28 13:00:00' ORDER BY 1
SELECT n FROM by_hour WHERE hour >= '2024-02-28T12:00:00Z' AND hour < '2024-02-28T15:00:00+02' ORDER BY 1
SELECT n FROM by_hour WHERE hour BETWEEN '2024-02-28 12:00' AND TIMESTAMP '2024-02-28 15:00' ORDER BY 1
SELECT n FROM by_hour WHERE hour >= TO_TIMESTAMP('2024-02-28 12:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US') AND hour < TO_TIMESTAMP('2024-02-28 15', 'YYYY-MM-DD HH24') ORDER BY 1
SELECT n FROM by_day WHERE day >= TO_DATE('2024-02-28', 'YYYY-MM-DD') ORDER BY 1
SELECT to_date('2024-02-28', 'YYYY-MM-DD')
SELECT to_timestamp('2024-02-28 01:02:03', 'YYYY-MM-DD HH24:MI:SS')
SELECT to_timestamp(1700000000.5) AS t
SELECT date_trunc('month', day) AS m, sum(n) AS n FROM by_day GROUP BY 1 ORDER BY 1
SELECT date_trunc('week', hour) AS m, sum(n) AS n FROM by_hour GROUP BY 1 ORDER BY 1
SELECT DATE_TRUNC('DAY', hour) AS d, avg(n) AS n FROM by_hour GROUP BY DATE_TRUNC('DAY', hour) ORDER BY 1
SELECT date_trunc('quarter', hour)::date AS d, max(n) AS n FROM by_hour GROUP BY 1 ORDER BY 1
SELECT extract(dow FROM day) AS a, extract(isodow FROM day) AS b, extract(week FROM day) AS c, extract(doy FROM day) AS d FROM by_day ORDER BY day
SELECT extract(year FROM day) AS a, extract(quarter FROM day) AS b, extract(month FROM day) AS c, extract(day FROM day) AS d FROM by_day ORDER BY day
SELECT extract(epoch FROM hour) AS a, extract(hour FROM hour) AS b FROM by_hour ORDER BY hour
SELECT extract(epoch FROM day) AS a FROM by_day ORDER BY day
SELECT date_part('hour', hour) AS a FROM by_hour ORDER BY hour
SELECT floor(extract(epoch FROM hour) / 7200) * 7200 AS "time", sum(n) AS n FROM by_hour GROUP BY 1 ORDER BY 1
SELECT day + 1 AS a, day - 1 AS b, day - DATE '2024-01-01' AS c FROM by_day ORDER BY day
SELECT day + INTERVAL '1 day' AS a, day - INTERVAL '2 months' AS b FROM by_day ORDER BY day
SELECT day + INTERVAL '1 month 2 days' AS a, hour + INTERVAL '90' MINUTE AS b FROM by_day, by_hour ORDER BY 1, 2
SELECT hour + '1 day'::interval AS a, hour - TIMESTAMP '2024-02-27' AS b FROM by_hour ORDER BY hour
SELECT hour::date AS a, hour::timestamptz AS b, day::timestamp AS c FROM by_hour, by_day ORDER BY 1, 2, 3
SELECT day FROM by_day WHERE day < now() ORDER BY 1
SELECT day FROM by_day WHERE day > current_date - 7
SELECT count(*) AS a, count(DISTINCT n) AS b, min(n) AS c, max(n) AS d, sum(n) AS e, avg(n) AS f FROM by_region
SELECT stddev(n) AS a, variance(n) AS b, stddev_pop(n) AS c, var_pop(n) AS d, var_samp(n) AS e FROM by_region
SELECT bool_and(is_paid) AS a, bool_or(is_paid) AS b, every(is_paid) AS c FROM by_kind
SELECT every(n > 0) FROM by_region
SELECT string_agg(region, ',' ORDER BY region) AS a FROM by_region
SELECT string_agg(region, ', ' ORDER BY n DESC) AS a FROM by_region
SELECT string_agg(DISTINCT region, ',' ORDER BY region) AS a FROM by_kind
SELECT array_agg(n ORDER BY n) AS a FROM by_region
SELECT array_agg(region ORDER BY region DESC) AS a FROM by_region
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY n) AS a FROM by_hour
SELECT percentile_disc(0.9) WITHIN GROUP (ORDER BY n) AS a FROM by_hour
SELECT sum(n) FILTER (WHERE is_paid) AS a, avg(n) FILTER (WHERE NOT is_paid) AS b FROM by_kind
SELECT region, sum(n) AS n FROM by_kind GROUP BY ROLLUP (region) ORDER BY 1, 2
SELECT region, is_paid, sum(n) AS n FROM by_kind GROUP BY GROUPING SETS ((region), (is_paid), ()) ORDER BY 1, 2, 3
SELECT region, grouping(region) AS g, sum(n) AS n FROM by_kind GROUP BY CUBE (region) ORDER BY 1, 2
SELECT region, sum(n) AS n FROM by_kind GROUP BY region HAVING sum(n) > 590 ORDER BY 1
SELECT upper(region) AS region, count(*) AS c FROM by_kind GROUP BY region ORDER BY 1
SELECT n * 2 AS n FROM by_region WHERE n > 600 ORDER BY n
SELECT DISTINCT region FROM by_kind ORDER BY region
SELECT DISTINCT ON (region) region, is_paid, n FROM by_kind ORDER BY region, n DESC
SELECT region, n, rank() OVER (ORDER BY n DESC) AS a, row_number() OVER (ORDER BY region) AS b FROM by_region ORDER BY 1
SELECT day, n - lag(n) OVER (ORDER BY day) AS a, lead(n, 2, 0) OVER (ORDER BY day) AS b FROM by_day ORDER BY 1
SELECT day, avg(n) OVER (ORDER BY day ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS a FROM by_day ORDER BY 1
SELECT day, sum(n) OVER w AS a FROM by_day WINDOW w AS (ORDER BY day) ORDER BY 1
SELECT hour, sum(n) OVER (ORDER BY hour RANGE BETWEEN INTERVAL '2 hours' PRECEDING AND CURRENT ROW) AS a FROM by_hour ORDER BY 1
SELECT day, ntile(2) OVER (ORDER BY day) AS a, percent_rank() OVER (ORDER BY n) AS b, cume_dist() OVER (ORDER BY n) AS c FROM by_day ORDER BY 1
SELECT day, first_value(n) OVER (ORDER BY day) AS a, nth_value(n, 2) OVER (ORDER BY day) AS b FROM by_day ORDER BY 1
SELECT a.region, a.n, b.n AS m FROM by_region a JOIN by_kind b ON a.region = b.region AND b.is_paid ORDER BY 1
SELECT region, k.n FROM by_region r LEFT JOIN by_kind k USING (region) WHERE k.is_paid ORDER BY 1, 2
SELECT r.region FROM by_region r WHERE n > (SELECT avg(n) FROM by_region) ORDER BY 1
SELECT r.region, (SELECT max(k.n) FROM by_kind k WHERE k.region = r.region) AS m FROM by_region r ORDER BY 1
SELECT r.region FROM by_region r WHERE EXISTS (SELECT 1 FROM by_kind k WHERE k.region = r.region AND k.n > 300) ORDER BY 1
SELECT region, l.n FROM by_region r, LATERAL (SELECT k.n FROM by_kind k WHERE k.region = r.region ORDER BY k.n LIMIT 1) AS l ORDER BY 1
SELECT s.x, count(n) AS c FROM generate_series(1, 5) AS s(x) LEFT JOIN by_region ON n > s.x * 100 GROUP BY 1 ORDER BY 1
SELECT d::date AS d, n FROM generate_series('2024-02-25'::timestamp, '2024-03-03'::timestamp, '1 day'::interval) AS d LEFT JOIN by_day ON day = d ORDER BY 1
SELECT generate_series(1, 3)
SELECT generate_series(1, n) FROM by_region LIMIT 3
SELECT unnest(ARRAY[1, 2]) AS u
SELECT region FROM by_region UNION SELECT 'all' ORDER BY 1
SELECT region FROM by_region EXCEPT SELECT 'north' ORDER BY 1
SELECT region FROM by_region INTERSECT SELECT 'north' ORDER BY 1
WITH t AS (SELECT region, n FROM by_region) SELECT sum(n) AS s FROM t
WITH RECURSIVE t(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM t WHERE i < 5) SELECT sum(i) AS s FROM t
SELECT x + 1 AS y FROM (VALUES (1), (2)) AS t(x) ORDER BY 1
SELECT region FROM by_region ORDER BY n DESC NULLS LAST, region OFFSET 1 LIMIT 2
SELECT region FROM by_region ORDER BY region FETCH FIRST 2 ROWS ONLY
SELECT nullif(region, 'east') AS r FROM by_region ORDER BY 1 DESC
SELECT NULL AS a, true AS b, 1.50 AS c, 'x' AS d, 12345678901 AS e
SELECT 9007199254740993::numeric + 0.13 AS a
SELECT 1e3 / 7 AS a, 1.5e-3 AS b, round(1.5e1) AS c
SELECT 0.1 + 0.2 AS a, 0.1::float8 + 0.2 AS b, 1e3 AS c, 3 * 1.10 AS d
SELECT '12'::int AS a, ' 12 '::int AS b, '1.5'::numeric AS c, '1e3'::float8 AS d, 't'::boolean AS e
SELECT '2024-02-28'::date AS a, '2024-02-28 12:00'::timestamp AS b, '2024-02-28T12:00:00Z'::timestamptz AS c, '3 days'::interval AS d
SELECT 1::boolean AS a, true::int AS b, 0::boolean AS c
SELECT n::real AS a FROM by_region ORDER BY region
SELECT n::smallint AS a, n::int AS b FROM by_region ORDER BY region
SELECT n AS "N", region AS "Region Name" FROM by_region ORDER BY 2
SELECT count(*), sum(n), max(n), round(avg(n), 2), coalesce(max(n), 0), upper(max(region)) FROM by_region
SELECT n::text, n::bigint, lower(region), left(region, 1), date_trunc('day', now()) = now(), CASE WHEN n > 0 THEN 1 END FROM by_region WHERE region = 'north'
SELECT (SELECT n FROM by_region WHERE region = 'north') + 1 AS a
SELECT region, n FROM by_region WHERE n > ALL (SELECT n FROM by_kind) ORDER BY 1
SELECT hour - DATE '2024-02-27' AS a FROM by_hour ORDER BY 1
SELECT max(day) - min(day) AS a FROM by_day
SELECT x.region, x.share FROM (SELECT region, n * 100.0 / sum(n) OVER () AS share FROM by_region) AS x WHERE x.share > 20 ORDER BY 1
SELECT (a.n / 3.0) * (a.n / 7.0) AS p, (a.n / 3.0) + (a.n / 7.0) AS s FROM by_region a ORDER BY region
SELECT avg(n / 3.0) AS a, sum(n / 3.0) AS b, max(n / 3.0) AS c FROM by_region
SELECT avg(n) * avg(n) AS a, sum(n) * sum(n) AS b FROM by_region
SELECT stddev(n) / avg(n) AS cv FROM by_region
SELECT n FROM by_region WHERE n / 3.0 > 200 ORDER BY 1
SELECT CASE WHEN sum(n) = 0 THEN NULL ELSE sum(n) / count(*) END AS a FROM by_region
SELECT region, sum(n) FILTER (WHERE is_paid) * 100.0 / nullif(sum(n), 0) AS p FROM by_kind GROUP BY region ORDER BY 1
SELECT region, round(sum(n) FILTER (WHERE is_paid) * 100.0 / nullif(sum(n), 0), 2) AS p FROM by_kind GROUP BY region ORDER BY 1
SELECT width, count(*) AS n FROM (SELECT floor(n / 25.0) * 25.0 AS width FROM by_region) t GROUP BY width ORDER BY 1
SELECT round(money::numeric / n, 2) AS a, money / n AS b FROM by_region ORDER BY region
SELECT sum(round(n / 3.0, 1)) AS a FROM by_region
SELECT -round(n / 3.0) AS a, round(-n / 3.0, 1) AS b FROM by_region ORDER BY region
SELECT ceil(n / 3.0) AS a, ceiling(n / 3.0) AS b, floor(-n / 3.0) AS c FROM by_region ORDER BY region
SELECT n % 2 = 0 AS even, count(*) AS c FROM by_region GROUP BY 1 ORDER BY 1
SELECT count(*) FILTER (WHERE n > 600) AS a FROM by_region
SELECT max(region) AS a, min(region) AS b FROM by_region
SELECT max(day) AS a, min(hour) AS b FROM by_day, by_hour
SELECT region, n, sum(n) OVER (PARTITION BY region ORDER BY is_paid) AS s FROM by_kind ORDER BY 1, 2
SELECT region, dense_rank() OVER (ORDER BY n) AS d FROM by_region ORDER BY 1
SELECT * FROM (SELECT region, row_number() OVER (ORDER BY n DESC) AS r FROM by_region) t WHERE r <= 2 ORDER BY r
SELECT region, n FROM by_region ORDER BY length(region), region
SELECT lower(region) AS r FROM by_region ORDER BY r DESC
SELECT n AS m FROM by_region ORDER BY m
SELECT sum(n) AS n FROM by_region HAVING sum(n) > 0
SELECT region AS r, max(n) FROM by_kind GROUP BY r ORDER BY 2
SELECT t.* FROM (SELECT region, is_paid FROM by_kind) AS t WHERE t.is_paid ORDER BY 1
SELECT (SELECT count(*) FROM by_region) AS a, (SELECT max(n) FROM by_day) AS b
SELECT region FROM by_region WHERE n = (SELECT max(n) FROM by_region)
SELECT a.day, b.day FROM by_day a LEFT JOIN by_day b ON b.day = a.day + 1 ORDER BY 1
SELECT a.day, a.n - b.n AS change FROM by_day a JOIN by_day b ON b.day = a.day - INTERVAL '1 day' ORDER BY 1
SELECT to_char(date_trunc('month', day), 'YYYY-MM') AS m, sum(n) AS n FROM by_day GROUP BY date_trunc('month', day) ORDER BY 1
SELECT to_char(hour, 'HH24') AS h, to_char(hour, 'Dy') AS d, n FROM by_hour ORDER BY hour
SELECT coalesce(to_char(day, 'Dy'), '-') || ': ' || n AS s FROM by_day ORDER BY day
SELECT greatest(day, DATE '2024-02-28') AS a FROM by_day ORDER BY day
SELECT coalesce(day, '2024-01-01') AS a FROM by_day ORDER BY day
SELECT n FROM by_region WHERE region = 'it''s \n' ORDER BY 1
SELECT 'A' < 'a' AS a, 'a' = 'A' AS b, 'é' > 'z' AS c
SELECT upper('tschüss') AS a, length('héllo') AS b
SELECT replace(region, '', 'x') AS a, strpos(region, '') AS b FROM by_region ORDER BY region
SELECT left('abc', 0) AS a, right('abc', 0) AS b, left('abc', -5) AS c, right('abc', -5) AS d
SELECT lpad('abc', 0) AS a, rpad('abc', 5, 'xy') AS b
SELECT translate('abc', 'abc', 'x') AS a
SELECT concat_ws(',', NULL, NULL) AS a, concat(NULL, NULL) AS b
SELECT 7 / -2 AS a, -7 % 2 AS b, 7 % -2 AS c, 7.5 % 2 AS d, -7.5 / 2 AS e
SELECT 0.5::float8::int AS a, 1.5::float8::int AS b, -1.5::float8::int AS c
SELECT round(0.5) AS a, round(1.5) AS b, round(2.5) AS c, round(-2.5) AS d, round(0.05, 1) AS e
SELECT round(1.005::numeric, 2) AS a, round(1.005::float8::numeric, 2) AS b
SELECT 5::numeric / 3 AS a, 5 / 3::numeric AS b, 5::float8 / 3 AS c, 5::real / 3 AS d
SELECT 100 * n / 3000 AS a, 100 * (n / 3000) AS b FROM by_region ORDER BY region
SELECT extract(year FROM day)::int AS a, extract(month FROM day) + 0.5 AS b FROM by_day ORDER BY day
SELECT extract(dow FROM day) = 0 AS a FROM by_day ORDER BY day
SELECT date_part('epoch', hour) AS a FROM by_hour ORDER BY hour
SELECT date_trunc('second', hour) AS a, date_trunc('minute', hour) AS b FROM by_hour ORDER BY hour
SELECT day::text || 'x' AS a, day || '' AS b FROM by_day ORDER BY day
SELECT DATE '2024-01-31' + INTERVAL '1 month' AS a, TIMESTAMP '2024-02-29' - INTERVAL '1 year' AS b
SELECT INTERVAL '1 day' AS a, INTERVAL '90 minutes' AS b, INTERVAL '1 month' = INTERVAL '30 days' AS c
SELECT '2024-02-28'::timestamp > '2024-02-28 00:00:01' AS a
SELECT is_paid AND n > 300 AS a, is_paid OR n > 300 AS b, NOT is_paid AS c FROM by_kind ORDER BY region, is_paid
SELECT NULL = 1 AS a, NULL IS NULL AS b, NULL AND false AS c, 1 IS DISTINCT FROM NULL AS d
SELECT count(is_paid) AS a, count(*) AS b, count(DISTINCT is_paid) AS c FROM by_kind
SELECT sum(n) AS s, avg(n) AS a, max(n) AS m FROM by_region WHERE false
SELECT string_agg(region, ',') AS s, array_agg(n) AS a, bool_and(n > 0) AS b FROM by_region WHERE false
SELECT region, n FROM by_region UNION ALL SELECT 'total', sum(n) FROM by_region ORDER BY n, region
SELECT region FROM by_region WHERE region IN (SELECT region FROM by_kind WHERE n > 300) ORDER BY 1
SELECT region, n FROM by_region WHERE n NOT BETWEEN 560 AND 600 ORDER BY 2
SELECT array_agg(DISTINCT is_paid ORDER BY is_paid) AS a FROM by_kind
SELECT sum(DISTINCT n) AS a, avg(DISTINCT n) AS b FROM by_kind
SELECT current_date = now()::date AS a
SELECT round(money / n, 2) AS r FROM by_region ORDER BY region
SELECT money FROM by_region ORDER BY 1
SELECT sum(money) AS s, max(money) AS m, avg(money) AS a FROM by_region
SELECT money * 1.19 AS a, money + 0.5 AS b, money - n AS c, -money AS d, money * n AS e FROM by_region ORDER BY region
SELECT money / n AS a, round(money / n, 2) AS b, money::numeric(12,1) AS c, money::int AS d FROM by_region ORDER BY region
SELECT floor(money / 1000) * 1000 AS b, count(*) FROM by_region GROUP BY 1 ORDER BY 1
SELECT region FROM by_region WHERE money > 60000.5 ORDER BY 1
SELECT money * money AS a, money % 7 AS b, abs(money) AS c, round(money) AS d, money::float8 AS e FROM by_region ORDER BY region
SELECT sum(money) OVER (ORDER BY region) AS a, 100 * money / sum(money) OVER () AS b FROM by_region ORDER BY region
-- an error in both
SELECT power(-1, 0.5) AS a
SELECT sqrt(-1)
SELECT sqrt(0 - n) FROM by_day
SELECT ln(0)
SELECT ln(n - n) FROM by_day
SELECT log(-1)
SELECT exp(1000)
SELECT 1 / 0
SELECT n / (n - n) FROM by_day
SELECT 1.0 / 0
SELECT mod(n, 0) FROM by_day
SELECT coalesce(region, n) FROM by_region
SELECT CASE WHEN n > 600 THEN 1 ELSE 'x' END AS a FROM by_day ORDER BY day
SELECT CASE n WHEN 'north' THEN 'N' END AS a FROM by_region ORDER BY 1
SELECT substring(region, 2, -1) AS s FROM by_region ORDER BY 1
SELECT n || n AS s FROM by_region ORDER BY 1
SELECT repeat('ab', 1000000000)
SELECT encode(region::bytea, 'hex') AS a FROM by_region ORDER BY region
SELECT length(n) FROM by_region
SELECT upper(n) FROM by_region
SELECT region FROM by_region WHERE region = n
SELECT region FROM by_region WHERE n = '600.5'
SELECT region FROM by_region WHERE n = 'x'
SELECT region FROM by_kind WHERE is_paid = 1 ORDER BY 1
SELECT n FROM by_hour WHERE hour > day ORDER BY 1
SELECT day + '1 day' AS a FROM by_day ORDER BY day
SELECT day + n AS a FROM by_day ORDER BY day
SELECT min(is_paid) FROM by_kind
SELECT sum(region) FROM by_region
SELECT n FROM by_region UNION ALL SELECT region FROM by_region
SELECT region FROM by_region TABLESAMPLE SYSTEM (50)
SELECT region FROM by_region FOR UPDATE
SELECT * EXCLUDE (n) FROM by_region
SELECT region FROM by_region QUALIFY row_number() OVER (ORDER BY n) = 1
SELECT region, n FROM by_region GROUP BY ALL
SELECT '1.5'::int
SELECT 'abc'::int
SELECT region::int FROM by_region
SELECT 2147483647 + 1
SELECT 70000::smallint
SELECT split_part('a,b', ',', 3) AS a, split_part('a,b', ',', 0) AS b
SELECT 1e400::float8
SELECT DATE '2024-02-30'
SELECT n::numeric(5,1) AS a, (n / 7.0)::numeric(8,3) AS b, n::numeric(2,0) AS c FROM by_region ORDER BY region
-- refused here
SELECT to_char(day, 'Day') AS m, n FROM by_day ORDER BY day
SELECT to_char(hour, 'HH12 AM') AS m, n FROM by_hour ORDER BY hour
SELECT to_char(day, 'Month') AS m, n FROM by_day ORDER BY day
SELECT to_char(day, 'IYYY-IW') AS m, n FROM by_day ORDER BY day
SELECT to_char(day, 'Q') AS m, n FROM by_day ORDER BY day
SELECT to_char(day, 'DDD D ID') AS m, n FROM by_day ORDER BY day
SELECT to_char(day, 'FMMonth') AS m, n FROM by_day ORDER BY day
SELECT to_char(n, '999,999') AS m, n FROM by_day ORDER BY day
SELECT to_char(day, 'YYYY "year"') AS m FROM by_day ORDER BY day
SELECT region FROM by_region WHERE region SIMILAR TO 'n%' ORDER BY 1
SELECT region FROM by_region WHERE region ~ '\mnorth' ORDER BY 1
SELECT regexp_replace(region, '(a|ab)(c|bcd)', '*') AS r FROM by_region ORDER BY 1
SELECT regexp_replace(region, 'x*', '-', 'g') AS r FROM by_region ORDER BY 1
SELECT regexp_replace(region, '(.)o', '\1O') AS r FROM by_region ORDER BY 1
SELECT regexp_match(region, 'o') AS r FROM by_region ORDER BY 1
SELECT log(2, 8)
SELECT cbrt(n) FROM by_day
SELECT degrees(n) FROM by_day
SELECT width_bucket(n, 0, 1000, 5) FROM by_day
SELECT random() FROM by_day
SELECT 5 & 3
SELECT substring(region FROM 'o.') AS s FROM by_region ORDER BY 1
SELECT region::char(3) AS s FROM by_region ORDER BY 1
SELECT hour::text AS s FROM by_hour ORDER BY hour
SELECT mean::text AS s FROM by_kind ORDER BY 1
SELECT money::text AS s FROM by_region ORDER BY 1
SELECT (n / 7.0)::text AS s FROM by_region ORDER BY 1
SELECT format('%s-%s', 'a', 1) AS f
SELECT format('%s is %s', region, n) AS f FROM by_region ORDER BY 1
SELECT concat(is_paid, 'x') AS s FROM by_kind ORDER BY 1
SELECT region || mean AS s FROM by_kind ORDER BY 1
SELECT lpad(region, 100000000) FROM by_region
SELECT split_part(region, 'o', -1) AS a FROM by_region ORDER BY region
SELECT initcap(region) AS a FROM by_region ORDER BY region
SELECT ascii(region) AS a FROM by_region ORDER BY region
SELECT chr(65) AS a
SELECT overlay(region placing 'x' from 1) AS a FROM by_region ORDER BY region
SELECT quote_literal(region) AS a FROM by_region ORDER BY region
SELECT n FROM by_day WHERE day = '2024-2-8'
SELECT n FROM by_day WHERE day = 'yesterday'
SELECT to_date('28 Feb 2024', 'DD Mon YYYY') AS d
SELECT date_trunc('decade', day) AS m FROM by_day ORDER BY 1
SELECT extract(second FROM TIMESTAMP '2024-02-28 12:00:01.5') AS a
SELECT extract(century FROM day) AS a FROM by_day ORDER BY day
SELECT extract(epoch FROM hour - TIMESTAMP '2024-02-28') AS a FROM by_hour ORDER BY hour
SELECT hour + INTERVAL '1 day' * 2 AS a FROM by_hour ORDER BY hour
SELECT age(hour, TIMESTAMP '2024-01-01') AS a FROM by_hour ORDER BY hour
SELECT age(day) AS a FROM by_day ORDER BY day
SELECT hour AT TIME ZONE 'UTC' AS a FROM by_hour ORDER BY hour
SELECT hour::time AS a FROM by_hour ORDER BY hour
SELECT make_date(2024, 1, 1) AS a
SELECT date_bin('2 hours', hour, TIMESTAMP '2024-01-01') AS a FROM by_hour ORDER BY hour
SELECT corr(n, n) AS a FROM by_region
SELECT percentile_cont(0.9) WITHIN GROUP (ORDER BY n DESC) AS a FROM by_hour
SELECT mode() WITHIN GROUP (ORDER BY n) AS a FROM by_hour
SELECT pg_typeof(n) FROM by_region
SELECT json_agg(region) FROM by_region
SELECT row_to_json(by_region) FROM by_region
SELECT region, n FROM by_region WHERE region <> ALL (ARRAY['north']) ORDER BY 1
SELECT E'a\tb' AS a
SELECT covar_pop(n, n) AS a FROM by_region
SELECT bit_and(n) AS a FROM by_region
SELECT pg_sleep(1)
SELECT money::text AS s, sum(money)::text AS t FROM by_region GROUP BY money ORDER BY 1
SELECT r FROM by_region r
