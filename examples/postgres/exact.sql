SELECT 'exact: orders_kept ' || (SELECT COUNT(*) FROM orders)
  || ', money_in_view ' || (SELECT SUM(o.total) FROM orders o JOIN visits v ON o.customer = v.customer)
  || ', buyers ' || (SELECT COUNT(DISTINCT customer) FROM orders);
