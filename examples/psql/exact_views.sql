-- What the planned queries are in the database itself, so that it can be asked the same questions.
CREATE VIEW by_region AS SELECT region, count(*) AS n, sum(total) AS money FROM orders GROUP BY region;
