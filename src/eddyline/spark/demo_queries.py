"""The queries of the demo, and the streams that they read; this module needs no Spark."""

ORDERS = "order_id BIGINT, customer BIGINT, region STRING, total DECIMAL(12,2)"
VISITS = "visit_id BIGINT, customer BIGINT, page STRING, seconds INT"
QUERIES = {
    "orders_kept": "SELECT COUNT(*) FROM orders",
    "revenue": "SELECT SUM(total) FROM orders WHERE region = 'north'",
    "visits_by_buyers": "SELECT COUNT(*) FROM orders o JOIN visits v ON o.customer = v.customer",
    "northern_long_visits": (
        "SELECT COUNT(*) FROM orders o JOIN visits v ON o.customer = v.customer "
        "WHERE o.region = 'north' AND v.seconds >= 60"
    ),
    "money_in_view": "SELECT SUM(o.total) FROM orders o JOIN visits v ON o.customer = v.customer",
    "mean_basket_in_view": "SELECT AVG(o.total) FROM orders o, visits v WHERE o.customer = v.customer",
    "orders_of_one_customer": "SELECT COUNT(*) FROM orders a JOIN orders b ON a.customer = b.customer",
    "buyers": "SELECT COUNT(DISTINCT customer) FROM orders",
    "never_seen_for_long": (
        "SELECT COUNT(*) FROM (SELECT customer FROM orders EXCEPT SELECT customer FROM visits WHERE seconds >= 240)"
    ),
}
