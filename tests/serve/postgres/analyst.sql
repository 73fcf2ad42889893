SELECT region, count(*) FROM orders GROUP BY region ORDER BY count(*) DESC
SELECT region, count(*) AS n, round(avg(total), 2) AS avg_total FROM orders GROUP BY 1 ORDER BY 1
SELECT count(*) AS n, count(DISTINCT customer) AS customers, count(*) / count(DISTINCT customer) AS per_customer FROM orders
SELECT region, 100.0 * count(*) FILTER (WHERE is_paid) / count(*) AS pct_paid FROM orders GROUP BY region ORDER BY region
SELECT region, round(100.0 * sum(total) / sum(sum(total)) OVER (), 1) AS share FROM orders GROUP BY region ORDER BY share DESC, region
WITH r AS (SELECT region, sum(total) AS money FROM orders GROUP BY region) SELECT region, money, rank() OVER (ORDER BY money DESC) AS place FROM r ORDER BY place
SELECT date_trunc('day', at) AS d, count(*) AS n FROM visits GROUP BY 1 ORDER BY 1
SELECT at::date AS d, count(*) AS n FROM visits GROUP BY at::date ORDER BY d
SELECT extract(hour FROM at) AS h, count(*) AS n FROM visits GROUP BY 1 ORDER BY 1
SELECT date_part('hour', at) AS h, count(*) AS n FROM visits GROUP BY 1 ORDER BY 1
SELECT to_char(day, 'YYYY-MM') AS month, count(*) AS n FROM visits GROUP BY 1 ORDER BY 1
SELECT to_char(date_trunc('month', day), 'YYYY-MM-DD') AS month, count(*) AS n FROM visits GROUP BY 1 ORDER BY 1
SELECT day, count(*) AS n, count(*) - lag(count(*)) OVER (ORDER BY day) AS change FROM visits GROUP BY day ORDER BY day
SELECT day, count(*) AS n, sum(count(*)) OVER (ORDER BY day) AS running FROM visits GROUP BY day ORDER BY day
SELECT day, avg(n) OVER (ORDER BY day ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS moving FROM (SELECT day, count(*) AS n FROM visits GROUP BY day) t ORDER BY day
SELECT avg(n) AS mean, max(n) AS most, min(n) AS least, stddev(n) AS spread FROM (SELECT customer, count(*) AS n FROM orders GROUP BY customer) t
SELECT n, count(*) AS customers FROM (SELECT customer, count(*) AS n FROM orders GROUP BY customer) t GROUP BY n ORDER BY n LIMIT 10
SELECT customer, sum(total) AS money FROM orders GROUP BY customer HAVING sum(total) > 5000 ORDER BY money DESC, customer LIMIT 10
SELECT customer, count(*) AS n FROM orders WHERE customer IN (SELECT customer FROM visits GROUP BY customer HAVING count(*) > 20) GROUP BY customer ORDER BY n DESC, customer LIMIT 5
SELECT count(*) AS n FROM orders o WHERE EXISTS (SELECT 1 FROM visits v WHERE v.customer = o.customer AND v.seconds > 250)
SELECT count(*) AS n FROM orders o WHERE NOT EXISTS (SELECT 1 FROM visits v WHERE v.customer = o.customer)
SELECT o.region, count(*) AS n, sum(v.seconds) AS seconds FROM orders o JOIN visits v ON o.customer = v.customer GROUP BY o.region ORDER BY o.region
SELECT o.region, count(*) AS n FROM orders o LEFT JOIN visits v ON o.customer = v.customer WHERE v.customer IS NULL GROUP BY o.region ORDER BY 1
SELECT sum(o.total - v.seconds) AS diff FROM orders o JOIN visits v USING (customer)
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY total) AS median, percentile_cont(0.9) WITHIN GROUP (ORDER BY total) AS p90 FROM orders
SELECT region, percentile_cont(0.5) WITHIN GROUP (ORDER BY total) AS median FROM orders GROUP BY region ORDER BY region
SELECT CASE WHEN total < 50 THEN 'small' WHEN total < 150 THEN 'medium' ELSE 'large' END AS size, count(*) AS n, sum(total) AS money FROM orders GROUP BY 1 ORDER BY 1
SELECT upper(region) AS r, length(region) AS l, count(*) AS n FROM orders GROUP BY region ORDER BY region
SELECT substring(region FROM 1 FOR 2) AS s, count(*) AS n FROM orders GROUP BY 1 ORDER BY 1
SELECT left(region, 1) AS l, count(*) AS n FROM orders GROUP BY 1 ORDER BY 1
SELECT region || '/' || customer AS c, count(*) AS n FROM orders WHERE customer < 5 GROUP BY 1 ORDER BY 1
SELECT count(*) AS n FROM orders WHERE region ILIKE 'NO%' OR region LIKE '%st'
SELECT count(*) AS n FROM visits WHERE at >= timestamp '2024-02-28 12:00' AND at < timestamp '2024-02-28 12:00' + interval '1 day'
SELECT count(*) AS n FROM visits WHERE day > (SELECT max(day) FROM visits) - 2
SELECT count(*) AS n FROM visits WHERE day >= (SELECT max(day) FROM visits) - interval '2 days'
SELECT count(*) AS n FROM visits WHERE day BETWEEN '2024-02-28' AND '2024-03-01'
SELECT a.region, a.n AS paid, b.n AS unpaid, a.n::float / b.n AS ratio FROM (SELECT region, count(*) n FROM orders WHERE is_paid GROUP BY 1) a JOIN (SELECT region, count(*) n FROM orders WHERE NOT is_paid GROUP BY 1) b USING (region) ORDER BY 1
SELECT region, sum(CASE WHEN is_paid THEN total ELSE 0 END) AS paid, sum(CASE WHEN is_paid THEN 1 ELSE 0 END) AS n FROM orders GROUP BY region ORDER BY 1
SELECT 'orders' AS what, count(*) AS n FROM orders UNION ALL SELECT 'visits', count(*) FROM visits ORDER BY what
SELECT region, n, ntile(2) OVER (ORDER BY n) AS half FROM (SELECT region, count(*) AS n FROM orders GROUP BY region) t ORDER BY n
SELECT region, n, n * 100 / sum(n) OVER () AS pct FROM (SELECT region, count(*) AS n FROM orders GROUP BY region) t ORDER BY region
SELECT region FROM orders GROUP BY region ORDER BY count(*) DESC LIMIT 1
SELECT DISTINCT region FROM orders ORDER BY region
SELECT max(total) AS most, min(total) AS least, max(total) - min(total) AS spread FROM orders
SELECT region, max(total) AS most FROM orders GROUP BY region ORDER BY most DESC, region FETCH FIRST 3 ROWS ONLY
SELECT count(*) FROM orders WHERE region IS NOT NULL AND coalesce(region, '') <> ''
SELECT extract(dow FROM day) AS dow, count(*) AS n FROM visits GROUP BY 1 ORDER BY 1
SELECT extract(isodow FROM day) AS dow, count(*) AS n FROM visits GROUP BY 1 ORDER BY 1
SELECT date_trunc('hour', at) AS h, count(*) AS n FROM visits WHERE day = '2024-02-29' GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 3
WITH days AS (SELECT day, count(*) AS n FROM visits GROUP BY day) SELECT max(n) - min(n) AS range FROM days
WITH a AS (SELECT count(*) AS n FROM orders), b AS (SELECT count(*) AS n FROM visits) SELECT a.n, b.n, a.n - b.n AS d FROM a, b
SELECT (SELECT count(*) FROM orders) AS o, (SELECT count(*) FROM visits) AS v
SELECT count(*) FILTER (WHERE total > 100) AS big, count(*) FILTER (WHERE total <= 100) AS small FROM orders
SELECT region, count(*) AS n FROM orders WHERE total > (SELECT avg(total) FROM orders) GROUP BY region ORDER BY 1
SELECT corr(total, customer) AS c FROM orders
SELECT sum(total) / count(*) AS mean, sum(total) / nullif(count(*) FILTER (WHERE is_paid), 0) AS per_paid FROM orders
SELECT is_paid, count(*) AS n FROM orders GROUP BY is_paid ORDER BY is_paid
SELECT region, is_paid, count(*) AS n FROM orders GROUP BY 1, 2 ORDER BY n DESC, 1, 2 LIMIT 5 OFFSET 2
SELECT count(*) FROM (SELECT DISTINCT customer FROM orders) t
SELECT count(*) FROM (SELECT customer FROM orders INTERSECT SELECT customer FROM visits) t
SELECT count(*) FROM (SELECT DISTINCT customer FROM orders EXCEPT SELECT customer FROM visits) t
SELECT mod(customer, 10) AS m, count(*) FROM orders GROUP BY 1 ORDER BY 1
SELECT customer % 10 AS m, count(*) FROM orders GROUP BY 1 ORDER BY 1
SELECT sum(total * 1.19) AS gross FROM orders
SELECT variance(total) AS v, stddev_pop(total) AS s FROM orders
SELECT floor(total::float8 / 50) * 50 AS bucket, count(*) AS n FROM orders GROUP BY 1 ORDER BY 1
SELECT floor(total) AS whole, ceil(total) AS up, count(*) AS n FROM orders WHERE total < 10 GROUP BY 1, 2 ORDER BY 1, 2
SELECT concat(region, '-', customer) AS c, count(*) AS n FROM orders WHERE customer < 4 GROUP BY 1 ORDER BY 1
SELECT count(*) / 7 AS sevenths, count(*) % 7 AS left_over, sum(seconds) / count(*) AS mean FROM visits
SELECT sum(customer) / count(*) AS mean FROM orders
SELECT avg(n) / 2 AS half, sum(n) / 4 AS quarter, max(n) / 2 AS most FROM (SELECT customer, count(*) AS n FROM orders GROUP BY customer) t
SELECT max(count) AS most FROM (SELECT region, count(*) FROM orders GROUP BY region) t
SELECT day, count(*) - first_value(count(*)) OVER (ORDER BY day) AS since_first FROM visits GROUP BY day ORDER BY day
SELECT sum(total::numeric) AS money, round(avg(total)::numeric, 2) AS mean, avg(total)::numeric(10,1) AS short FROM orders
SELECT count(*) FROM visits WHERE day >= '2024-03-01'::date - 2 AND at < '2024-03-02'::timestamp - '12 hours'::interval
SELECT max(day) - min(day) AS days, count(*) / (max(day) - min(day) + 1) AS per_day FROM visits
SELECT day + 1 AS next, day - 7 AS before, day + interval '1 month' AS later, count(*) AS n FROM visits GROUP BY day ORDER BY day
SELECT date_trunc('week', at) AS week, count(*) AS n FROM visits GROUP BY 1 HAVING count(*) > 10 ORDER BY 1
SELECT date_trunc('day', at) AS d, count(*) AS n FROM visits GROUP BY 1 HAVING date_trunc('day', at) >= '2024-02-29' ORDER BY 1
SELECT count(*) FROM visits WHERE date_trunc('month', at) = '2024-02-01'
SELECT lower(region) || ':' || count(*) AS label FROM orders GROUP BY region ORDER BY 1
SELECT replace(region, 'o', '0') AS p, position('o' in region) AS o, lpad(region, 7, '*') AS l, reverse(region) AS r, n FROM (SELECT region, count(*) AS n FROM orders GROUP BY region) t ORDER BY region
SELECT region, percent_rank() OVER (ORDER BY n) AS p, cume_dist() OVER (ORDER BY n) AS c, lag(n, 1, 0) OVER (ORDER BY n) AS before FROM (SELECT region, count(*) AS n FROM orders GROUP BY region) t ORDER BY n
SELECT count(*) FILTER (WHERE extract(dow FROM day) IN (0, 6)) AS weekend, count(*) FILTER (WHERE extract(isodow FROM day) < 6) AS work FROM visits
SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY total) AS middle FROM orders
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY v.seconds - o.customer) AS middle FROM orders o JOIN visits v ON o.customer = v.customer
SELECT covar_samp(total, customer) AS s, covar_pop(total, customer) AS p, regr_slope(total, customer) AS slope FROM orders
SELECT greatest(max(n), 700) AS g, least(min(n), 100) AS l FROM by_region
WITH total AS (SELECT count(*)::numeric AS n FROM orders), paid AS (SELECT region, count(*) AS n FROM orders WHERE is_paid GROUP BY region) SELECT p.region, round(100 * p.n / t.n, 1) AS share FROM paid p, total t ORDER BY 1
SELECT b.region, b.n, o.paid FROM by_region b JOIN (SELECT region, count(*) AS paid FROM orders WHERE is_paid GROUP BY region) o USING (region) ORDER BY 1
SELECT extract(dow FROM day), count(*), max(seconds) FROM visits GROUP BY 1 ORDER BY 1
SELECT to_char(day, 'YYYY-MM'), count(*) FROM visits GROUP BY 1 ORDER BY 1
SELECT upper(region), left(region, 1), sum(total) FROM orders GROUP BY region ORDER BY 1
SELECT corr(customer, seconds), stddev_pop(seconds) FROM visits
SELECT count(DISTINCT region), count(DISTINCT is_paid) FROM orders
SELECT count(DISTINCT region) FROM orders
SELECT count(DISTINCT extract(hour FROM at)) FROM visits WHERE seconds > 100
SELECT count(DISTINCT o.region) FROM orders o JOIN visits v ON o.customer = v.customer WHERE v.seconds > 250
SELECT extract(hour FROM at), count(*) - lag(count(*)) OVER (ORDER BY extract(hour FROM at)) FROM visits GROUP BY 1 ORDER BY 1
SELECT bool_and(n > 5) AS a, bool_or(n > 610) AS b FROM (SELECT region, count(*) AS n FROM orders GROUP BY region) t
SELECT string_agg(region, ', ' ORDER BY region) AS a FROM (SELECT region, count(*) AS n FROM orders GROUP BY region) t
SELECT string_agg(region, ',' ORDER BY n DESC) AS a FROM (SELECT region, count(*) AS n FROM orders GROUP BY region) t
SELECT is_paid, string_agg(DISTINCT region, ',' ORDER BY region) AS a FROM (SELECT region, is_paid, count(*) AS n FROM orders GROUP BY 1, 2) t GROUP BY is_paid ORDER BY is_paid
WITH t AS (SELECT region, count(*) AS n FROM orders GROUP BY region) SELECT region, n FROM t WHERE region ~ '^(n|s)' ORDER BY region
WITH t AS (SELECT region, count(*) AS n FROM orders GROUP BY region) SELECT region ~ '[aeiou]{2}' AS m, sum(n) AS n FROM t GROUP BY 1 ORDER BY 1
WITH t AS (SELECT region, count(*) AS n FROM orders GROUP BY region) SELECT region, (SELECT max(u.n) FROM t u WHERE u.region < t.region) AS m FROM t ORDER BY region
SELECT region, count(*) AS n FROM orders GROUP BY ROLLUP (region) ORDER BY n, region
SELECT region, is_paid, count(*) AS n, sum(total) AS s FROM orders GROUP BY CUBE (region, is_paid) ORDER BY region, is_paid
SELECT region, is_paid, grouping(region, is_paid) AS g, count(*) AS n FROM orders GROUP BY GROUPING SETS ((region, is_paid), (is_paid), ()) ORDER BY g, n, region
SELECT coalesce(region, 'all') AS r, sum(total) FROM orders GROUP BY ROLLUP (region) HAVING count(*) > 100 ORDER BY r
SELECT region, count(*) FROM orders WHERE total > 100000 GROUP BY ROLLUP (region)
SELECT date_trunc('month', at) AS m, day, count(*) FROM visits GROUP BY ROLLUP (1, 2) ORDER BY 1, 2
SELECT region, sum(n) FROM (SELECT region, is_paid, count(*) AS n FROM orders GROUP BY region, is_paid) t GROUP BY ROLLUP (region) ORDER BY 1
SELECT t.region, x.twice FROM (SELECT region, count(*) AS n FROM orders GROUP BY region) t, LATERAL (SELECT t.n * 2 AS twice) x ORDER BY 1
SELECT t.region, x.m FROM (SELECT region, count(*) AS n FROM orders GROUP BY region) t LEFT JOIN LATERAL (SELECT max(u.n) AS m FROM (SELECT region, count(*) AS n FROM orders GROUP BY region) u WHERE u.n < t.n) x ON true ORDER BY 1
