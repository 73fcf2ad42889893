"""SQL texts around aggregates: written by hand, by subject, and generated from a grammar."""

import random

HAND = """
SELECT COUNT(*) AS n FROM orders
SELECT region, COUNT(*) AS n FROM orders GROUP BY region ORDER BY n DESC, region LIMIT 2
SELECT region, COUNT(*) AS n FROM orders GROUP BY region HAVING COUNT(*) > 50 ORDER BY region
SELECT region, COUNT(*) AS n FROM orders GROUP BY region HAVING COUNT(*) > 50 OR region IS NULL ORDER BY region
SELECT region, COUNT(*) AS n FROM orders GROUP BY region HAVING COUNT(*) BETWEEN 10 AND 90 AND SUM(amount) > 3 * COUNT(*) ORDER BY n
SELECT region, COUNT(*) AS n FROM orders GROUP BY region HAVING region LIKE 'n%' ORDER BY 1
SELECT region, COUNT(*) AS n FROM orders GROUP BY region HAVING n % 2 = 0 ORDER BY 1
SELECT region, COUNT(*) AS n FROM orders GROUP BY region HAVING NOT (n < 60) ORDER BY 1
SELECT region, COUNT(*) AS n FROM orders GROUP BY region HAVING n IN (1, 2, 3) ORDER BY 1
SELECT region, SUM(amount) AS s FROM orders GROUP BY region HAVING s / COUNT(*) > 48 ORDER BY s
WITH t AS (SELECT region, COUNT(*) AS n FROM orders GROUP BY region) SELECT AVG(n) AS a, MAX(n) AS m, MIN(n) AS i, SUM(n) AS s, COUNT(*) AS c FROM t
WITH t AS (SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer) SELECT n, COUNT(*) AS customers FROM t GROUP BY n ORDER BY n
WITH t AS (SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer) SELECT MEDIAN(n) AS m, STDDEV(n) AS d, VARIANCE(n) AS v, STDDEV_POP(n) AS dp, VAR_POP(n) AS vp FROM t
SELECT AVG(n) AS per_customer FROM (SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer) q
SELECT AVG(s) AS a FROM (SELECT customer, SUM(amount) AS s FROM orders WHERE status = 1 GROUP BY customer)
SELECT COUNT(*) AS many FROM (SELECT customer FROM orders GROUP BY customer HAVING COUNT(*) >= 3)
SELECT COUNT(*) AS regions FROM (SELECT DISTINCT region FROM orders)
SELECT DISTINCT region FROM orders ORDER BY region
SELECT DISTINCT status, region FROM orders WHERE amount > 90 ORDER BY status, region
SELECT DISTINCT COUNT(*) > 60 AS big FROM orders GROUP BY region ORDER BY big
SELECT region, COUNT(*) AS n, COUNT(*) / SUM(COUNT(*)) OVER () AS share FROM orders GROUP BY region ORDER BY region
SELECT region, status, COUNT(*) AS n, SUM(COUNT(*)) OVER (PARTITION BY region) AS t FROM orders GROUP BY region, status ORDER BY region, status
SELECT region, COUNT(*) AS n, RANK() OVER (ORDER BY COUNT(*) DESC) AS r FROM orders GROUP BY region ORDER BY r, region
SELECT region, ROW_NUMBER() OVER (ORDER BY SUM(amount) DESC, region) AS r FROM orders GROUP BY region ORDER BY r
SELECT day, COUNT(*) AS n, SUM(COUNT(*)) OVER (ORDER BY day) AS running FROM orders GROUP BY day ORDER BY day
SELECT day, COUNT(*) AS n, LAG(COUNT(*)) OVER (ORDER BY day) AS before FROM orders GROUP BY day ORDER BY day
SELECT day, COUNT(*) AS n, COUNT(*) - LAG(COUNT(*), 1) OVER (ORDER BY day) AS change FROM orders GROUP BY day ORDER BY day
SELECT day, AVG(COUNT(*)) OVER (ORDER BY day ROWS BETWEEN 6 PRECEDING AND CURRENT ROW) AS week FROM orders GROUP BY day ORDER BY day
SELECT region, status, COUNT(*) AS n, DENSE_RANK() OVER (PARTITION BY region ORDER BY COUNT(*) DESC) AS r FROM orders GROUP BY region, status ORDER BY region, r, status
SELECT region, status, n FROM (SELECT region, status, COUNT(*) AS n, ROW_NUMBER() OVER (PARTITION BY region ORDER BY COUNT(*) DESC, status) AS r FROM orders GROUP BY region, status) WHERE r = 1 ORDER BY region
SELECT region, status, COUNT(*) AS n FROM orders GROUP BY region, status QUALIFY ROW_NUMBER() OVER (PARTITION BY region ORDER BY COUNT(*) DESC, status) = 1 ORDER BY region
SELECT region, NTILE(2) OVER (ORDER BY COUNT(*), region) AS half FROM orders GROUP BY region ORDER BY region
SELECT region, FIRST_VALUE(region) OVER (ORDER BY COUNT(*) DESC, region) AS top FROM orders GROUP BY region ORDER BY region
SELECT region, PERCENT_RANK() OVER (ORDER BY COUNT(*)) AS p, CUME_DIST() OVER (ORDER BY COUNT(*)) AS c FROM orders GROUP BY region ORDER BY region
SELECT CAST(p AS DECIMAL(15,4)) / CAST(t AS DECIMAL(15,4)) AS r, CAST(p AS DECIMAL(15,4)) / CAST(t AS DECIMAL(15,4)) * 100 AS percent FROM (SELECT SUM(amount) AS p FROM orders WHERE status = 1) x, (SELECT SUM(amount) AS t FROM orders) y
SELECT region, CAST(SUM(amount) AS DECIMAL(10,2)) / 7 AS weekly, CAST(COUNT(*) AS DECIMAL(10,2)) * 1.5 AS half FROM orders GROUP BY region ORDER BY region
WITH t AS (SELECT region, CAST(SUM(amount) AS DECIMAL(12,3)) AS s FROM orders GROUP BY region) SELECT region, s / (SELECT MAX(s) FROM t) AS share, s * s AS squared, -s / 3 AS third FROM t ORDER BY region
SELECT a.region, a.n, b.n AS open FROM (SELECT region, COUNT(*) AS n FROM orders GROUP BY region) a JOIN (SELECT region, COUNT(*) AS n FROM orders WHERE status = 0 GROUP BY region) b ON a.region = b.region ORDER BY a.region
SELECT a.region, a.n, COALESCE(b.n, 0) AS big FROM (SELECT region, COUNT(*) AS n FROM orders GROUP BY region) a LEFT JOIN (SELECT region, COUNT(*) AS n FROM orders WHERE amount > 99 GROUP BY region) b ON a.region = b.region ORDER BY a.region
WITH a AS (SELECT region, COUNT(*) AS n FROM orders GROUP BY region), b AS (SELECT region, SUM(amount) AS s FROM orders GROUP BY region) SELECT region, n, s, s / n AS mean FROM a JOIN b USING (region) ORDER BY region
WITH a AS (SELECT city, COUNT(*) AS n FROM customers GROUP BY city), b AS (SELECT c.city, SUM(o.amount) AS s FROM orders o JOIN customers c ON o.customer = c.id GROUP BY c.city) SELECT a.city, b.s / a.n AS per_head FROM a JOIN b ON a.city = b.city ORDER BY a.city
SELECT a.day, a.n - b.n AS change FROM (SELECT day, COUNT(*) AS n FROM orders GROUP BY day) a JOIN (SELECT day, COUNT(*) AS n FROM orders GROUP BY day) b ON a.day = date_add(b.day, 7) ORDER BY a.day
SELECT x.region FROM (SELECT region, COUNT(*) AS n FROM orders GROUP BY region) x LEFT SEMI JOIN (SELECT region FROM orders WHERE amount > 99.5 GROUP BY region) y ON x.region = y.region ORDER BY 1
SELECT x.region FROM (SELECT region, COUNT(*) AS n FROM orders GROUP BY region) x LEFT ANTI JOIN (SELECT region FROM orders WHERE amount > 99.5 GROUP BY region) y ON x.region = y.region ORDER BY 1
SELECT 'all' AS k, COUNT(*) AS n FROM orders UNION ALL SELECT region, COUNT(*) FROM orders GROUP BY region ORDER BY n, k
SELECT region AS k FROM orders GROUP BY region UNION SELECT city FROM customers GROUP BY city ORDER BY k
SELECT region AS k FROM orders GROUP BY region EXCEPT SELECT city FROM customers GROUP BY city ORDER BY k
SELECT region AS k FROM orders GROUP BY region INTERSECT SELECT region FROM orders WHERE amount > 50 GROUP BY region ORDER BY k
SELECT (SELECT COUNT(*) FROM orders) AS n, (SELECT COUNT(*) FROM customers) AS c
SELECT (SELECT COUNT(*) FROM orders) / (SELECT COUNT(*) FROM customers) AS per_customer
SELECT region, COUNT(*) AS n, COUNT(*) / (SELECT COUNT(*) FROM orders) AS share FROM orders GROUP BY region ORDER BY region
SELECT region, COUNT(*) AS n FROM orders GROUP BY region HAVING COUNT(*) > (SELECT AVG(n) FROM (SELECT COUNT(*) AS n FROM orders GROUP BY region)) ORDER BY region
WITH t AS (SELECT region, COUNT(*) AS n FROM orders GROUP BY region) SELECT region, n FROM t WHERE n = (SELECT MAX(n) FROM t)
WITH t AS (SELECT region, COUNT(*) AS n FROM orders GROUP BY region) SELECT region FROM t WHERE n >= ALL_N.m ORDER BY 1
SELECT COUNT(*) AS n FROM orders WHERE amount > (SELECT AVG(amount) FROM orders)
SELECT region, COUNT(*) AS n FROM orders WHERE amount > (SELECT MEDIAN(amount) FROM orders) GROUP BY region ORDER BY region
SELECT COUNT(*) AS n FROM orders WHERE customer IN (SELECT customer FROM orders GROUP BY customer HAVING COUNT(*) > 4)
SELECT COUNT(*) AS n FROM orders WHERE customer NOT IN (SELECT customer FROM orders WHERE customer IS NOT NULL GROUP BY customer HAVING COUNT(*) > 4)
SELECT SUM(amount) AS s FROM orders WHERE customer IN (SELECT customer FROM orders GROUP BY customer ORDER BY SUM(amount) DESC, customer LIMIT 5)
SELECT COUNT(*) AS n FROM orders WHERE day = (SELECT MAX(day) FROM orders)
SELECT COUNT(*) AS n FROM orders WHERE day > (SELECT MAX(day) FROM orders) - INTERVAL 7 DAYS
WITH recent AS (SELECT * FROM orders WHERE day >= DATE '2024-02-01') SELECT region, COUNT(*) AS n FROM recent GROUP BY region ORDER BY region
WITH recent AS (SELECT region, amount * 2 AS twice FROM orders WHERE status <> 2) SELECT region, SUM(twice) AS s, MAX(twice) AS m FROM recent WHERE twice > 10 GROUP BY region ORDER BY region
SELECT r.region, COUNT(*) AS n FROM (SELECT customer, region FROM orders WHERE status = 1) r JOIN customers c ON r.customer = c.id WHERE c.city = 'Bonn' GROUP BY r.region ORDER BY r.region
WITH big AS (SELECT customer, amount FROM orders WHERE amount > 50) SELECT (SELECT COUNT(*) FROM big) AS n, (SELECT SUM(amount) FROM big) AS s
SELECT CASE WHEN COUNT(*) > 60 THEN 'many' ELSE 'few' END AS k, region FROM orders GROUP BY region ORDER BY region
SELECT k, COUNT(*) AS c, SUM(n) AS s FROM (SELECT region, COUNT(*) AS n, CASE WHEN COUNT(*) > 60 THEN 'many' ELSE 'few' END AS k FROM orders GROUP BY region) GROUP BY k ORDER BY k
SELECT region, IF(COUNT(*) > 60, COUNT(*), 0) AS n FROM orders GROUP BY region ORDER BY region
SELECT UPPER(region) AS r, COUNT(*) AS n FROM orders GROUP BY UPPER(region) ORDER BY r
SELECT UPPER(region) AS u, CONCAT(region, '-', status) AS c, COUNT(*) AS n FROM orders GROUP BY region, status ORDER BY region, status
SELECT region || '!' AS c, LENGTH(region) AS l, COUNT(*) AS n FROM orders GROUP BY region ORDER BY region
SELECT SUBSTRING(region, 1, 2) AS s, SUBSTRING(region, 2) AS t, SUBSTRING(region, 0, 2) AS z, SUBSTRING(region, -2, 2) AS e, COUNT(*) AS n FROM orders GROUP BY region ORDER BY region
SELECT LEFT(region, 2) AS l, RIGHT(region, 2) AS r, REVERSE(region) AS v, REPLACE(region, 'o', '0') AS p, COUNT(*) AS n FROM orders GROUP BY region ORDER BY region
SELECT LPAD(region, 7, '*') AS l, RPAD(region, 3, '*') AS r, TRIM(CONCAT(' ', region, ' ')) AS t, INITCAP(region) AS i, COUNT(*) AS n FROM orders GROUP BY region ORDER BY region
SELECT INSTR(region, 'o') AS i, LOCATE('t', region) AS l, REPEAT(region, 2) AS d, COUNT(*) AS n FROM orders GROUP BY region ORDER BY region
SELECT CONCAT_WS('/', region, 'x') AS c, COUNT(*) AS n FROM orders GROUP BY region ORDER BY region
SELECT region LIKE '%th' AS l, STARTSWITH(region, 'n') AS s, ENDSWITH(region, 'h') AS e, CONTAINS(region, 'u') AS c, COUNT(*) AS n FROM orders GROUP BY region ORDER BY region
SELECT date_format(day, 'yyyy-MM') AS m, COUNT(*) AS n FROM orders GROUP BY date_format(day, 'yyyy-MM') ORDER BY m
SELECT date_format(day, 'yyyy-MM-dd') AS m, COUNT(*) AS n FROM orders GROUP BY day ORDER BY m
SELECT date_format(day, 'EEE') AS w, day, COUNT(*) AS n FROM orders GROUP BY day ORDER BY day
SELECT date_format(day, 'MMM yyyy') AS w, date_format(day, 'd.M.yy') AS x, COUNT(*) AS n FROM orders GROUP BY day ORDER BY day
SELECT date_format(at, 'yyyy-MM-dd HH') AS h, COUNT(*) AS n FROM orders GROUP BY date_format(at, 'yyyy-MM-dd HH') ORDER BY h LIMIT 5
SELECT year(day) AS y, month(day) AS m, COUNT(*) AS n FROM orders GROUP BY year(day), month(day) ORDER BY y, m
SELECT day, year(day) AS y, quarter(day) AS q, month(day) AS m, day(day) AS d, dayofweek(day) AS w, weekofyear(day) AS k, dayofyear(day) AS j, COUNT(*) AS n FROM orders GROUP BY day ORDER BY day
SELECT date_trunc('month', day) AS m, COUNT(*) AS n FROM orders GROUP BY date_trunc('month', day) ORDER BY m
SELECT trunc(day, 'MM') AS m, COUNT(*) AS n FROM orders GROUP BY trunc(day, 'MM') ORDER BY m
SELECT last_day(day) AS l, date_add(day, 3) AS a, date_sub(day, 3) AS s, add_months(day, 1) AS m, COUNT(*) AS n FROM orders GROUP BY day ORDER BY day
SELECT datediff(MAX(day), MIN(day)) AS days, COUNT(*) AS n FROM orders
SELECT COUNT(*) / (datediff(MAX(day), MIN(day)) + 1) AS per_day FROM orders
SELECT region, ROUND(SUM(amount), 1) AS r, FLOOR(SUM(amount)) AS f, CEIL(SUM(amount)) AS c FROM orders GROUP BY region ORDER BY region
SELECT region, ROUND(AVG(amount), 2) AS a, ROUND(100.0 * COUNT_IF(status = 1) / COUNT(*), 1) AS p FROM orders GROUP BY region ORDER BY region
SELECT region, ABS(SUM(amount) - 3000) AS a, SQRT(COUNT(*)) AS s, LN(COUNT(*)) AS l, POWER(COUNT(*), 2) AS p, EXP(COUNT(*) / 100) AS e, SIGN(COUNT(*) - 60) AS g FROM orders GROUP BY region ORDER BY region
SELECT region, COUNT(*) DIV 7 AS d, COUNT(*) % 7 AS m, -COUNT(*) AS neg, COUNT(*) / 7 AS q FROM orders GROUP BY region ORDER BY region
SELECT region, CAST(AVG(amount) AS INT) AS i, CAST(COUNT(*) AS DOUBLE) AS d, CAST(COUNT(*) AS STRING) AS s, CAST(AVG(amount) AS DECIMAL(10,2)) AS c FROM orders GROUP BY region ORDER BY region
SELECT region, GREATEST(COUNT(*), 60) AS g, LEAST(COUNT(*), 60) AS l, COALESCE(SUM(amount), 0) AS c, NULLIF(COUNT(*), 60) AS z FROM orders GROUP BY region ORDER BY region
SELECT region, MAX(amount) - MIN(amount) AS spread, MAX(day) AS last FROM orders GROUP BY region ORDER BY region
SELECT MAX(n) / MIN(n) AS skew FROM (SELECT region, COUNT(*) AS n FROM orders WHERE region IS NOT NULL GROUP BY region)
SELECT region, SUM(price) AS p, AVG(price) AS a, SUM(price) / SUM(amount) AS q FROM orders GROUP BY region ORDER BY region
SELECT region, COUNT(DISTINCT customer) AS c, COUNT(*) / COUNT(DISTINCT customer) AS per FROM orders GROUP BY region ORDER BY region
SELECT n, COUNT(*) AS days FROM (SELECT day, COUNT(*) AS n FROM orders GROUP BY day) GROUP BY n HAVING COUNT(*) > 1 ORDER BY n
SELECT * FROM (SELECT region, COUNT(*) AS n FROM orders GROUP BY region) WHERE n > 40 ORDER BY n DESC, region LIMIT 2
SELECT t.* FROM (SELECT region, COUNT(*) AS n FROM orders GROUP BY region) t ORDER BY t.n OFFSET 1
SELECT * FROM by_region ORDER BY region
SELECT region, n FROM by_region WHERE n > 50 ORDER BY n
SELECT SUM(n) AS s FROM by_region
SELECT volume FROM volume
SELECT b.region, b.n / v.volume AS share FROM by_region b CROSS JOIN volume v ORDER BY b.region
SELECT region, COUNT(*) AS n FROM orders GROUP BY ALL ORDER BY region
SELECT region, n, rank() OVER (ORDER BY n DESC) AS r FROM (SELECT region, COUNT(*) AS n FROM orders GROUP BY region) ORDER BY n
SELECT SUM(CASE WHEN n > 60 THEN 1 ELSE 0 END) AS big, COUNT_IF(n <= 60) AS small FROM (SELECT region, COUNT(*) AS n FROM orders GROUP BY region)
SELECT SUM(n) FILTER (WHERE region IS NOT NULL) AS s FROM (SELECT region, COUNT(*) AS n FROM orders GROUP BY region)
SELECT COUNT(DISTINCT n) AS d FROM (SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer)
SELECT region, COUNT(*) AS n FROM orders GROUP BY region ORDER BY region DESC NULLS LAST
SELECT region, COUNT(*) AS n FROM orders GROUP BY region ORDER BY LENGTH(region), region
SELECT region, COUNT(*) AS n FROM orders GROUP BY region ORDER BY COUNT(*) % 10, region
SELECT region AS r, region IS NULL AS missing, n FROM by_region ORDER BY missing DESC, r
SELECT region, EXISTS (SELECT 1 FROM by_region b WHERE b.n > 1000) AS huge, COUNT(*) AS n FROM orders GROUP BY region ORDER BY region
SELECT region FROM by_region WHERE region IN (SELECT region FROM orders WHERE amount > 95 GROUP BY region) ORDER BY region
SELECT region FROM by_region WHERE n > 10 AND region NOT IN (SELECT city FROM customers WHERE city IS NOT NULL GROUP BY city) ORDER BY region
SELECT city, AVG(n) AS mean FROM (SELECT c.city, c.id, COUNT(*) AS n FROM orders o JOIN customers c ON o.customer = c.id GROUP BY c.city, c.id) GROUP BY city ORDER BY city
SELECT c.city, COUNT(*) AS n, SUM(o.amount) / SUM(SUM(o.amount)) OVER () AS share FROM orders o JOIN customers c ON o.customer = c.id GROUP BY c.city ORDER BY c.city
SELECT SUM(o.amount - c.credit) AS d FROM orders o JOIN customers c ON o.customer = c.id
SELECT c.city, SUM(o.amount + 2 * c.credit) AS d, AVG(o.amount - c.credit) AS a FROM orders o JOIN customers c ON o.customer = c.id GROUP BY c.city ORDER BY c.city
SELECT SUBSTRING(region, 2, 3) AS s, COUNT(*) AS n FROM orders GROUP BY SUBSTRING(region, 2, 3) ORDER BY s
SELECT SUBSTRING(region, -2) AS s, SUBSTRING(region, 0, 2) AS z, SUBSTRING(region, -9, 6) AS f, COUNT(*) AS n FROM orders GROUP BY SUBSTRING(region, -2), SUBSTRING(region, 0, 2), SUBSTRING(region, -9, 6) ORDER BY s, z, f
SELECT LEFT(region, 1) AS l, RIGHT(region, 2) AS r, LENGTH(region) AS k, COUNT(*) AS n FROM orders GROUP BY LEFT(region, 1), RIGHT(region, 2), LENGTH(region) ORDER BY l, r, k
SELECT CONCAT(region, '/', status, '/', day) AS c, COUNT(*) AS n FROM orders GROUP BY CONCAT(region, '/', status, '/', day) ORDER BY c
SELECT region || '-' || status AS c, COUNT(*) AS n FROM orders WHERE STARTSWITH(region, 'n') OR ENDSWITH(region, 't') GROUP BY region || '-' || status ORDER BY c
SELECT COUNT(*) AS n FROM orders WHERE CONTAINS(region, 'or') AND LENGTH(TRIM(region)) = 5
SELECT 1 AS one, 'x' AS x
WITH t AS (SELECT region, COUNT(*) AS n FROM orders GROUP BY region) SELECT BOOL_AND(n > 5) AS a, BOOL_OR(n > 5000) AS b, BOOL_AND(n < 0) AS c FROM t
WITH t AS (SELECT region, COUNT(*) AS n FROM orders GROUP BY region) SELECT LISTAGG(region, ', ') WITHIN GROUP (ORDER BY n DESC, region) AS a FROM t
WITH t AS (SELECT region, COUNT(*) AS n FROM orders GROUP BY region) SELECT region, region RLIKE '^[no]' AS a, region RLIKE 't+h|st' AS b FROM t ORDER BY region
SELECT region, COUNT(*) AS n FROM orders GROUP BY ROLLUP (region)
SELECT region, status, COUNT(*) AS n, SUM(amount) AS s FROM orders GROUP BY ROLLUP (region, status)
SELECT region, status, COUNT(*) AS n, SUM(amount) AS s FROM orders GROUP BY CUBE (region, status)
SELECT region, status, COUNT(*) AS n, SUM(amount) AS s FROM orders GROUP BY region, ROLLUP (status)
SELECT region, status, COUNT(*) AS n, SUM(amount) AS s FROM orders GROUP BY GROUPING SETS ((region), (status), ())
SELECT region, status, COUNT(*) AS n, SUM(amount) AS s FROM orders GROUP BY GROUPING SETS ((region, status), region, ())
SELECT region, status, GROUPING(region) AS a, GROUPING(status) AS b, COUNT(*) AS n FROM orders GROUP BY CUBE (region, status) ORDER BY a, b, region, status
SELECT COALESCE(region, 'all') AS r, COUNT(*) AS n FROM orders WHERE region IS NOT NULL GROUP BY ROLLUP (region) ORDER BY n DESC, r
SELECT CASE WHEN GROUPING(region) = 1 THEN 'all' ELSE region END AS r, COUNT(*) AS n FROM orders GROUP BY ROLLUP (region) HAVING COUNT(*) > 20 ORDER BY n DESC, r
SELECT region, COUNT(*) AS n FROM orders WHERE amount > 1000 GROUP BY ROLLUP (region)
SELECT region, COUNT(*) AS n FROM orders WHERE amount > 1000 GROUP BY GROUPING SETS ((region), ())
SELECT UPPER(region) AS r, MAX(amount) AS m, COUNT(DISTINCT customer) AS d FROM orders GROUP BY ROLLUP (UPPER(region))
SELECT year(day) AS y, month(day) AS m, SUM(price) AS p FROM orders GROUP BY ROLLUP (year(day), month(day)) ORDER BY y, m
SELECT o.region, c.city, COUNT(*) AS n FROM orders o JOIN customers c ON o.customer = c.id GROUP BY ROLLUP (o.region, c.city)
SELECT region, SUM(n) AS n FROM (SELECT region, status, COUNT(*) AS n FROM orders GROUP BY region, status) GROUP BY ROLLUP (region)
SELECT region, status, SUM(n) AS n, GROUPING(region) AS g FROM (SELECT region, status, COUNT(*) AS n FROM orders GROUP BY region, status) GROUP BY CUBE (region, status)
SELECT n % 2 AS odd, COUNT(*) AS c FROM (SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer) GROUP BY ROLLUP (n % 2)
SELECT day, n FROM (SELECT day, COUNT(*) AS n FROM orders GROUP BY day) t WHERE n > 100 GROUP BY ROLLUP (day, n)
SELECT status, COUNT(*) AS n FROM orders GROUP BY GROUPING SETS ((status), (status))
SELECT status AS k, region, COUNT(*) AS n FROM orders GROUP BY GROUPING SETS ((k, region), (k))
SELECT region, status, COUNT(*) AS n FROM orders GROUP BY GROUPING SETS (ROLLUP (region, status), CUBE (status))
WITH t AS (SELECT region, status, COUNT(*) AS n FROM orders GROUP BY CUBE (region, status)) SELECT a.region, a.n, b.n AS total FROM t a CROSS JOIN t b WHERE a.status IS NULL AND b.region IS NULL AND b.status IS NULL
SELECT region, SUM(COUNT(*)) OVER () AS w FROM orders GROUP BY ROLLUP (region)
SELECT t.region, x.y FROM (SELECT region, COUNT(*) AS n FROM orders GROUP BY region) t, LATERAL (SELECT t.n * 2 AS y) x
SELECT t.region, x.m FROM (SELECT region, COUNT(*) AS n FROM orders GROUP BY region) t LEFT JOIN LATERAL (SELECT MAX(u.n) AS m FROM (SELECT region, COUNT(*) AS n FROM orders GROUP BY region) u WHERE u.n < t.n) x ON TRUE
SELECT t.region, x.status, x.n FROM (SELECT region, COUNT(*) AS n FROM orders GROUP BY region) t JOIN LATERAL (SELECT u.status, u.n FROM (SELECT region, status, COUNT(*) AS n FROM orders GROUP BY region, status) u WHERE u.region = t.region ORDER BY u.n DESC, u.status LIMIT 1) x ON TRUE
SELECT t.region, x.y, z.w FROM (SELECT region, COUNT(*) AS n FROM orders GROUP BY region) t, LATERAL (SELECT t.n * 2 AS y) x, LATERAL (SELECT x.y + t.n AS w) z
""".strip().splitlines()
HAND = [text for text in HAND if "ALL_N" not in text]

ADVERSARY = r"""
SELECT COUNT(*) FROM orders WHERE region = NULL
SELECT COUNT(*) AS n FROM orders WHERE NOT (region = 'north')
SELECT COUNT(*) AS n FROM orders WHERE customer IN (1, 2, NULL)
SELECT COUNT(*) AS n FROM orders WHERE customer NOT IN (1, 2, NULL)
SELECT COUNT(*) AS n FROM orders WHERE status BETWEEN 2 AND 1
SELECT COUNT(*) AS n FROM orders WHERE amount BETWEEN SYMMETRIC 20 AND 10
SELECT SUM(status) / COUNT(*) AS a, SUM(status) DIV COUNT(*) AS b, SUM(status) % 7 AS c, -7 % 3 AS d, 7 % -3 AS e, -7 DIV 2 AS f FROM orders
SELECT COUNT(*) / 0 AS x FROM orders
SELECT 0.1D + 0.2D AS x, COUNT(*) AS n FROM orders
SELECT 1/3 AS x, COUNT(*) AS n FROM orders
SELECT 5/2 AS a, 5 DIV 2 AS b, COUNT(*) AS n FROM orders
SELECT SUM(price) AS s, AVG(price) AS a, SUM(price) * 1.1 AS m, SUM(price) / 3 AS d, SUM(price) - AVG(price) AS x FROM orders
SELECT region, SUM(price) AS s FROM orders GROUP BY region HAVING SUM(price) > 1000.50 ORDER BY region
SELECT region, SUM(price) AS s FROM orders GROUP BY region HAVING s BETWEEN 1000.5 AND 99999.99 ORDER BY region
SELECT FLOOR(-COUNT(*) / 7) AS f, CEIL(-COUNT(*) / 7) AS c, ROUND(-COUNT(*) / 8) AS r FROM orders
SELECT region, COUNT(*) AS n FROM orders GROUP BY region ORDER BY region NULLS LAST, n LIMIT 3
SELECT region, COUNT(*) AS n FROM orders GROUP BY region ORDER BY region DESC NULLS FIRST LIMIT 2 OFFSET 1
SELECT region, COUNT(*) AS n FROM orders GROUP BY region ORDER BY region ASC NULLS FIRST OFFSET 3
SELECT region, COUNT(*) AS n FROM orders GROUP BY region ORDER BY region LIMIT 0
SELECT region, COUNT(*) AS n FROM orders GROUP BY region ORDER BY 2 DESC, 1 LIMIT 100 OFFSET 100
SELECT region, COUNT(*) AS n FROM orders GROUP BY region ORDER BY n DESC, region LIMIT 1 + 1
SELECT status, COUNT(*) AS n FROM orders GROUP BY status ORDER BY -status
SELECT status, COUNT(*) AS n FROM orders GROUP BY status ORDER BY CASE status WHEN 1 THEN 0 ELSE 1 END, status
SELECT DISTINCT status FROM orders ORDER BY status DESC
SELECT COUNT(DISTINCT region) AS d, COUNT(DISTINCT status) AS e, COUNT(region) AS f, COUNT(1) AS g, COUNT(NULL) AS h FROM orders
SELECT COUNT(DISTINCT region, status) AS d FROM orders
SELECT COUNT(*) FILTER (WHERE status = 1) AS a, SUM(amount) FILTER (WHERE region = 'north') AS b, COUNT(*) FILTER (WHERE FALSE) AS c, SUM(amount) FILTER (WHERE FALSE) AS d FROM orders
SELECT region, COUNT(*) FILTER (WHERE amount > 50) * 100.0 / COUNT(*) AS pct FROM orders GROUP BY region ORDER BY region
SELECT AVG(n) FILTER (WHERE region <> 'north') AS a, MAX(n) FILTER (WHERE region IS NULL) AS m FROM (SELECT region, COUNT(*) AS n FROM orders GROUP BY region)
SELECT a.*, b.n AS m FROM by_region a JOIN by_region b USING (region) ORDER BY a.region
SELECT * FROM by_region a NATURAL JOIN by_region b ORDER BY region
SELECT `region` AS `my region`, COUNT(*) AS `how many` FROM orders GROUP BY `region` ORDER BY `how many`, `my region`
SELECT `my region`, `how many` * 2 AS `twice ` FROM (SELECT region AS `my region`, COUNT(*) AS `how many` FROM orders GROUP BY region) ORDER BY `my region`
SELECT region AS `a``b`, COUNT(*) AS `c"d` FROM orders GROUP BY region ORDER BY 1
SELECT Region AS R, Count(*) AS N FROM Orders GROUP BY REGION ORDER BY r
SELECT o.Region, COUNT(*) AS n FROM ORDERS AS o GROUP BY O.region ORDER BY o.REGION
SELECT region, COUNT(*) AS n FROM orders WHERE region = 'it''s' GROUP BY region
SELECT COUNT(*) AS n FROM orders WHERE region LIKE 'n_rt%'
SELECT COUNT(*) AS n FROM orders WHERE region LIKE '%'
SELECT COUNT(*) AS n FROM orders WHERE region NOT LIKE 'n%'
SELECT region, CASE WHEN region IS NULL THEN 'none' WHEN COUNT(*) > 80 THEN 'big' ELSE region END AS k FROM orders GROUP BY region ORDER BY region
SELECT CASE WHEN amount > 50 THEN 'hi' WHEN amount <= 50 THEN 'lo' END AS k, COUNT(*) AS n, MIN(amount) AS lo FROM orders GROUP BY k ORDER BY k
SELECT NVL(region, '?') AS r, COUNT(*) AS n FROM orders GROUP BY NVL(region, '?') ORDER BY 1
SELECT COALESCE(region, CAST(status AS STRING)) AS r, COUNT(*) AS n FROM orders GROUP BY 1 ORDER BY 1
SELECT NULLIF(region, 'north') AS r, COUNT(*) AS n FROM orders GROUP BY 1 ORDER BY 1, 2
SELECT day + INTERVAL 1 DAY AS d, COUNT(*) AS n FROM orders GROUP BY 1 ORDER BY 1 LIMIT 3
SELECT day, day + INTERVAL 1 MONTH AS m, day - INTERVAL 1 YEAR AS y, COUNT(*) AS n FROM orders GROUP BY day ORDER BY day LIMIT 40
SELECT day, day + INTERVAL '1' WEEK AS m, COUNT(*) AS n FROM orders GROUP BY day ORDER BY day LIMIT 4
SELECT COUNT(*) AS n FROM orders WHERE at >= TIMESTAMP '2024-01-15 12:00:00' AND at < TIMESTAMP '2024-01-15 12:00:00' + INTERVAL 36 HOURS
SELECT COUNT(*) AS n FROM orders WHERE CAST(at AS DATE) = DATE '2024-01-20'
SELECT COUNT(*) AS n FROM orders WHERE at BETWEEN day AND day + INTERVAL 30 DAYS
SELECT COUNT(*) AS n FROM orders WHERE at > TIMESTAMP '2024-01-15 12:00:00+02:00'
SELECT COUNT(*) AS n FROM orders WHERE at > TIMESTAMP '2024-01-15T12:00:00Z'
SELECT date_trunc('week', at) AS w, COUNT(*) AS n FROM orders GROUP BY 1 ORDER BY 1
SELECT date_trunc('hour', at) AS w, COUNT(*) AS n FROM orders GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 4
SELECT date_trunc('quarter', day) AS w, COUNT(*) AS n FROM orders GROUP BY 1 ORDER BY 1
SELECT to_date(at) AS d, COUNT(*) AS n FROM orders GROUP BY 1 ORDER BY 1 LIMIT 4
SELECT hour(at) AS h, COUNT(*) AS n FROM orders GROUP BY hour(at) HAVING COUNT(*) > 10 ORDER BY h
SELECT extract(YEAR FROM day) AS y, extract(WEEK FROM at) AS w, COUNT(*) AS n FROM orders GROUP BY 1, 2 ORDER BY 1, 2
SELECT MAX(at) AS a, MIN(at) AS b, MAX(day) AS c, datediff(MAX(day), MIN(day)) AS d FROM orders
SELECT date_format(MAX(at), 'yyyy-MM-dd HH:mm:ss') AS f FROM orders
SELECT upper(region) || lower(region) AS u, COUNT(*) AS n FROM orders GROUP BY region ORDER BY region
SELECT length(region) AS l, COUNT(*) AS n FROM orders GROUP BY length(region) ORDER BY l
SELECT substr(region, 2) AS s, substring(region, -1) AS t, COUNT(*) AS n FROM orders GROUP BY 1, 2 ORDER BY 1, 2
SELECT trim(BOTH 'n' FROM region) AS t, ltrim('n', region) AS l, rtrim(region) AS r, COUNT(*) AS n FROM orders GROUP BY region ORDER BY region
SELECT CAST(status AS STRING) AS s, COUNT(*) AS n FROM orders GROUP BY 1 ORDER BY 1
SELECT CAST(COUNT(*) AS SMALLINT) AS s, CAST(COUNT(*) AS BOOLEAN) AS b FROM orders
SELECT CAST(n AS STRING) || '!' AS s FROM by_region ORDER BY 1
SELECT CAST('2024-01-05' AS DATE) AS d, COUNT(*) AS n FROM orders WHERE day < CAST('2024-01-05' AS DATE)
SELECT ROW_NUMBER() OVER (ORDER BY n DESC, region) AS k, region FROM by_region ORDER BY k
SELECT region, SUM(n) OVER (ORDER BY n ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS k FROM by_region ORDER BY n
SELECT region, LAST_VALUE(n) OVER (ORDER BY n) AS k, LAST_VALUE(n) OVER (ORDER BY n ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS l FROM by_region ORDER BY n
SELECT region, LAG(n, 2, -1) OVER (ORDER BY n) AS k, LEAD(region) OVER (ORDER BY n) AS l FROM by_region ORDER BY n
SELECT region, n, SUM(n) OVER w AS s, AVG(n) OVER w AS a FROM by_region WINDOW w AS (ORDER BY region) ORDER BY region
SELECT region, NTH_VALUE(n, 2) OVER (ORDER BY n) AS k FROM by_region ORDER BY n
SELECT region, COUNT(*) OVER () AS k FROM orders GROUP BY region ORDER BY region
SELECT region, SUM(SUM(amount)) OVER (PARTITION BY region IS NULL ORDER BY region) AS k FROM orders GROUP BY region ORDER BY region
SELECT COUNT(*) AS n FROM orders HAVING COUNT(*) > 1
SELECT COUNT(*) AS n FROM orders HAVING COUNT(*) > 1000
SELECT region FROM orders GROUP BY region HAVING MIN(amount) IS NOT NULL AND region NOT IN ('north') ORDER BY 1
SELECT region FROM orders GROUP BY region HAVING EXISTS (SELECT 1 FROM by_region b WHERE b.n > 80) ORDER BY 1
SELECT region, n FROM by_region b WHERE n > (SELECT AVG(n) FROM by_region c WHERE c.region <> b.region) ORDER BY 1
SELECT region, n, (SELECT COUNT(*) FROM by_region c WHERE c.n > b.n) AS above FROM by_region b ORDER BY above
SELECT region FROM by_region b WHERE EXISTS (SELECT 1 FROM by_region c WHERE c.n = b.n AND c.region <> b.region)
SELECT (SELECT n FROM by_region WHERE region = 'nowhere') AS r
SELECT COUNT(*) AS n FROM orders WHERE amount > (SELECT AVG(amount) FROM orders WHERE status = 99)
SELECT SUM(s) AS t FROM (SELECT SUM(amount) AS s FROM orders UNION ALL SELECT SUM(credit) FROM customers)
SELECT region AS k, COUNT(*) AS n FROM orders GROUP BY region UNION ALL SELECT NULL, COUNT(*) FROM orders ORDER BY n, k
SELECT status AS k FROM orders GROUP BY status UNION SELECT credit FROM customers WHERE credit < 5 GROUP BY credit ORDER BY k
SELECT 'a' AS k, COUNT(*) AS n FROM orders UNION ALL SELECT 1, COUNT(*) FROM customers
(SELECT COUNT(*) AS n FROM orders) UNION ALL (SELECT COUNT(*) FROM customers) ORDER BY n
SELECT n FROM by_region INTERSECT ALL SELECT n FROM by_region
SELECT region FROM by_region EXCEPT ALL SELECT 'north'
WITH orders AS (SELECT 1 AS x) SELECT * FROM orders
WITH t AS (SELECT region r, COUNT(*) n FROM orders GROUP BY region), u AS (SELECT r, n FROM t WHERE n > 50), v AS (SELECT COUNT(*) AS c FROM u) SELECT t.r, t.n, v.c FROM t, v ORDER BY t.n
WITH t(a, b) AS (SELECT region, COUNT(*) FROM orders GROUP BY region) SELECT a, b FROM t ORDER BY b
SELECT * FROM (SELECT region, COUNT(*) FROM orders GROUP BY region) AS t(a, b) ORDER BY b
SELECT x.n + y.n AS s FROM (SELECT COUNT(*) AS n FROM orders) x, (SELECT COUNT(*) AS n FROM customers) y
SELECT x.region, y.city FROM (SELECT region, COUNT(*) AS n FROM orders GROUP BY region) x FULL JOIN (SELECT city, COUNT(*) AS n FROM customers GROUP BY city) y ON x.region = y.city ORDER BY 1, 2
SELECT x.region, y.city FROM (SELECT region FROM orders GROUP BY region) x LEFT JOIN (SELECT city FROM customers GROUP BY city) y ON x.region = y.city AND y.city <> 'north' ORDER BY 1, 2
SELECT x.region FROM by_region x JOIN by_region y ON x.n < y.n GROUP BY x.region ORDER BY 1
SELECT x.region, COUNT(*) AS c FROM by_region x CROSS JOIN by_region y GROUP BY x.region ORDER BY 1
SELECT o.region, COUNT(*) AS n FROM orders o LEFT JOIN customers c ON o.customer = c.id AND c.city = 'Bonn' GROUP BY o.region ORDER BY 1
SELECT c.city, COUNT(o.customer) AS n, COUNT(*) AS m FROM customers c LEFT JOIN orders o ON o.customer = c.id GROUP BY c.city ORDER BY 1
SELECT COUNT(*) AS n FROM orders o JOIN orders p ON o.customer = p.customer
SELECT APPROX_COUNT_DISTINCT(region) AS f FROM orders
SELECT MIN(region) AS a, MAX(region) AS b FROM orders
SELECT SUM(amount * price) AS a, SUM(amount + status) AS b, SUM(-amount) AS c, SUM(2) AS d, SUM(amount) * 2 AS e FROM orders
SELECT AVG(status) AS a, AVG(price * 2) AS b, SUM(price * status) AS c, SUM(price * price) AS d FROM orders
SELECT region, AVG(price) - (SELECT AVG(price) FROM orders) AS d FROM orders GROUP BY region ORDER BY region
SELECT COUNT(*) AS n FROM orders WHERE price = 12.5 OR price = 12.50 OR price IN (1, 2.00)
SELECT price, COUNT(*) AS n FROM orders GROUP BY price ORDER BY n DESC, price LIMIT 3
SELECT price * 2 AS p, COUNT(*) AS n FROM orders GROUP BY price * 2 ORDER BY n DESC, p LIMIT 3
SELECT COUNT(*) AS n FROM orders WHERE status / 2 = 0.5
SELECT COUNT(*) AS n FROM orders WHERE amount = amount
SELECT COUNT(*) AS n FROM orders WHERE TRUE
SELECT COUNT(*) AS n FROM orders WHERE NULL
SELECT COUNT(*) AS n FROM orders WHERE 1 = 1 AND NOT FALSE
SELECT COUNT(*) AS n FROM orders -- a comment
SELECT /* hint */ COUNT(*) AS n FROM orders /* end */
SELECT COUNT(*) AS n FROM orders;
SELECT COUNT(*)n FROM orders
select count ( * ) as n from orders
SELECT ALL region, COUNT(*) AS n FROM orders GROUP BY region ORDER BY 1
SELECT region, COUNT(*) AS n FROM orders GROUP BY region, region ORDER BY 1
SELECT 1 AS k, COUNT(*) AS n FROM orders GROUP BY 1
SELECT 'x' AS k, COUNT(*) AS n FROM orders WHERE status = 99 GROUP BY 'x'
SELECT region, COUNT(*) AS n FROM orders WHERE status = 99 GROUP BY region
SELECT SUM(amount) AS s, COUNT(*) AS n, AVG(amount) AS a, MAX(amount) AS m FROM orders WHERE status = 99
SELECT SUM(amount) + 1 AS s, COALESCE(SUM(amount), 0) AS c FROM orders WHERE status = 99
SELECT region, COUNT(*) AS n, COUNT(*) + 1 AS n1, n1 * 2 AS n2 FROM orders GROUP BY region
SELECT region, COUNT(*) AS n FROM (SELECT UPPER(region) AS region, amount FROM orders) WHERE amount > 10 GROUP BY region ORDER BY 1
SELECT r, SUM(a) AS s FROM (SELECT region AS r, amount * status AS a FROM orders WHERE status > 0) t WHERE a > 5 GROUP BY r ORDER BY r
SELECT n::string AS s FROM by_region ORDER BY 1
SELECT COUNT(*) AS n FROM orders WHERE region > 'm'
SELECT COUNT(*) AS n FROM orders WHERE amount > 1e400
SELECT COUNT(*) AS n FROM orders WHERE customer > 9223372036854775808
SELECT GREATEST(COUNT(*), NULL, 5) AS g, LEAST(NULL, COUNT(*)) AS l FROM orders
SELECT NOT COUNT(*) > 5 AS x, COUNT(*) > 5 AND NULL AS y, COUNT(*) > 5 OR NULL AS z FROM orders
SELECT SUM(amount) IS NULL AS x, SUM(amount) IS NOT NULL AS y, (COUNT(*) > 5) IS TRUE AS z FROM orders
""".strip().splitlines()
"""Texts that look for faults: NULLs, ties, quotes, empty results, names that are used twice, types, frames."""

_GROUPS = ["region", "status", "day", "customer", "month(day)", "UPPER(region)", "amount > 50"]
_MEASURES = [
    "COUNT(*)",
    "SUM(amount)",
    "AVG(amount)",
    "SUM(status)",
    "COUNT(DISTINCT customer)",
    "MAX(amount)",
    "MIN(day)",
    "SUM(price)",
    "COUNT(region)",
    "MEDIAN(amount)",
]
_NUMBERS = [*_MEASURES[:6], "COUNT(region)", "MEDIAN(amount)"]
_WHERE = [
    "",
    " WHERE status = 1",
    " WHERE amount > 20 AND region IS NOT NULL",
    " WHERE day >= DATE '2024-01-20'",
    " WHERE region IN ('north', 'east')",
]
_OUTER = ["AVG", "SUM", "MAX", "MIN", "COUNT"]


def generated(seed: int) -> str:
    """Return a text of the grammar; its rows are ordered by all its columns, so that results can be compared."""
    draw = random.Random(seed)
    group, where = draw.choice(_GROUPS), draw.choice(_WHERE)
    first, second = draw.sample(_NUMBERS, 2)
    inner = f"SELECT {group} AS g, {first} AS x, {second} AS y FROM orders{where} GROUP BY {group}"
    kind = draw.randrange(9)
    if kind == 0:
        outer = draw.choice(_OUTER)
        return f"SELECT {outer}(x) AS a, {draw.choice(_OUTER)}(y) AS b, COUNT(*) AS c FROM ({inner}) q"
    if kind == 1:
        return f"WITH t AS ({inner}) SELECT g, x, y, x * 2 + 1 AS z, x - y AS d FROM t WHERE x > {draw.randrange(60)} ORDER BY g"
    if kind == 2:
        function = draw.choice(["SUM", "MAX", "MIN", "AVG"])
        return f"SELECT {group} AS g, {first} AS x, {function}({second}) OVER (ORDER BY {group}) AS w FROM orders{where} GROUP BY {group} ORDER BY g"
    if kind == 3:
        other = draw.choice(_MEASURES)
        return f"SELECT a.g, a.x, b.x AS x2 FROM ({inner}) a {draw.choice(['', 'LEFT ', 'RIGHT ', 'FULL '])}JOIN (SELECT {group} AS g, {other} AS x FROM orders WHERE status <> 0 GROUP BY {group}) b ON a.g = b.g ORDER BY a.g, b.x, a.x"
    if kind == 4:
        return f"SELECT {group} AS g, {first} AS x FROM orders{where} GROUP BY {group} HAVING {second} > {draw.randrange(40)} OR {first} < {draw.randrange(40)} ORDER BY g"
    if kind == 5:
        return f"SELECT g, x FROM ({inner}) WHERE x >= (SELECT {draw.choice(['AVG', 'MAX', 'MIN'])}(x) FROM ({inner}) z) ORDER BY g, x"
    if kind == 6:
        return f"SELECT g, x FROM ({inner}) a UNION ALL SELECT g, y FROM ({inner}) b ORDER BY g, x"
    if kind == 7:
        return f"SELECT {group} AS g, CASE WHEN {first} > {draw.randrange(80)} THEN {second} ELSE -1 END AS x, ROUND({second} / 7, 2) AS r, COALESCE({first}, 0) + {draw.randrange(9)} AS c FROM orders{where} GROUP BY {group} ORDER BY g"
    return f"SELECT COUNT(*) AS n, {first} AS x FROM orders WHERE amount {draw.choice(['<', '>'])} (SELECT {draw.choice(['AVG', 'MEDIAN', 'MIN'])}(amount) FROM orders{where})"


GENERATED = [generated(seed) for seed in range(260)]
