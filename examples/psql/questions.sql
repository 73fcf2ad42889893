SELECT count(*) AS orders FROM orders;
SELECT region, n FROM by_region ORDER BY region LIMIT 3;
SELECT count(*) AS expensive FROM orders WHERE total > 90;
SELECT count(DISTINCT customer) AS buyers FROM orders;
SELECT count(*) AS visits_by_buyers FROM orders o JOIN visits v ON o.customer = v.customer;
