-- depth of one symbol
SELECT price, COUNT(*) AS n, SUM(quantity) AS quantity FROM orders WHERE symbol = 0 AND side = 0 GROUP BY price ORDER BY quantity DESC LIMIT 10

-- depth of the first symbols
SELECT symbol, side, COUNT(*) AS n, SUM(quantity) AS quantity, AVG(price) AS price FROM orders WHERE symbol < 10 GROUP BY symbol, side

-- best prices (MIN, MAX)
SELECT MAX(CASE WHEN side = 0 THEN price END) AS bid, MIN(CASE WHEN side = 1 THEN price END) AS ask FROM orders WHERE symbol = 0

-- prices near the best
SELECT side, PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY price) AS middle, COUNT(*) AS n FROM orders WHERE symbol = 0 GROUP BY side

-- mean bid and ask of one symbol
SELECT AVG(price) FILTER (WHERE side = 0) AS bid, AVG(price) FILTER (WHERE side = 1) AS ask FROM orders WHERE symbol = 0

-- orders of each country
SELECT t.country, COUNT(*) AS n, SUM(o.quantity) AS quantity FROM orders o JOIN traders t ON o.trader = t.trader GROUP BY t.country

-- distinct traders
SELECT COUNT(DISTINCT trader) AS n FROM orders

-- distinct traders of a symbol
SELECT COUNT(DISTINCT trader) AS n FROM orders WHERE symbol = 0

-- distinct traders of one kind
SELECT COUNT(DISTINCT o.trader) AS n FROM orders o JOIN traders t ON o.trader = t.trader WHERE t.kind = 1

-- traders on both sides
SELECT COUNT(*) AS n FROM (SELECT trader FROM orders WHERE side = 0 INTERSECT SELECT trader FROM orders WHERE side = 1)

-- traders with trades and no order
SELECT COUNT(*) AS n FROM (SELECT taker FROM trades EXCEPT SELECT trader FROM orders)

-- orders with trades
SELECT COUNT(*) AS n FROM orders o WHERE EXISTS (SELECT 1 FROM trades t WHERE t.order_id = o.id)

-- traded of open orders
SELECT o.side, COUNT(*) AS n, SUM(t.quantity) AS traded FROM trades t JOIN orders o ON t.order_id = o.id GROUP BY o.side

-- traded of one symbol
SELECT SUM(t.quantity) AS traded, SUM(t.price * t.quantity) AS value FROM trades t JOIN orders o ON t.order_id = o.id WHERE o.symbol = 0

-- traded by the maker's country
SELECT m.country, SUM(t.quantity) AS traded FROM trades t JOIN orders o ON t.order_id = o.id JOIN traders m ON o.trader = m.trader GROUP BY m.country

-- trades between two countries
SELECT COUNT(*) AS n FROM trades t JOIN orders o ON t.order_id = o.id JOIN traders m ON o.trader = m.trader JOIN traders k ON t.taker = k.trader WHERE m.country = 'US' AND k.country = 'GB'

-- trades with oneself
SELECT COUNT(*) AS n FROM trades t JOIN orders o ON t.order_id = o.id AND t.taker = o.trader

-- pairs that cross within ten ticks
SELECT COUNT(*) AS n FROM orders b JOIN orders s ON b.symbol = s.symbol AND b.trader = s.trader WHERE b.side = 0 AND s.side = 1 AND s.price - b.price <= 10

-- largest orders first (rows)
SELECT id, trader, quantity FROM orders ORDER BY quantity DESC LIMIT 10
