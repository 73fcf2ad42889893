SELECT (SELECT COUNT(*) FROM orders) AS orders_kept,
       (SELECT COUNT(*) FROM orders WHERE placed >= '2024-06-01' AND placed < '2024-07-01') AS orders_in_june,
       (SELECT SUM(o.total) FROM orders o JOIN visits v ON o.customer = v.customer) AS money_in_view,
       (SELECT COUNT(DISTINCT customer) FROM orders) AS buyers;
