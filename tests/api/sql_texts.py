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
