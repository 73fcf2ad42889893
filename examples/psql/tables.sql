-- Three tables of a shop, with :rows orders and as many visits. Few customers have most of both.
SELECT setseed(0.5);
CREATE TABLE customers (id bigint PRIMARY KEY, city text, segment text);
CREATE TABLE orders (id bigint, customer bigint, region text, total numeric(12,2), placed timestamp);
CREATE TABLE visits (id bigint, customer bigint, seconds int, page text);
INSERT INTO customers
SELECT i, 'city ' || i % 40, (ARRAY['consumer', 'business', 'public'])[1 + i % 3] FROM generate_series(0, :rows / 20) i;
INSERT INTO orders
SELECT i, floor(power(random(), 3) * (:rows / 20)), 'region ' || i % 7, round((5 + 1000 * power(random(), 4))::numeric, 2),
       timestamp '2026-01-01' + random() * interval '180 days'
FROM generate_series(1, :rows) i;
INSERT INTO visits
SELECT i, floor(power(random(), 3) * (:rows / 20)), floor(600 * random()), (ARRAY['home', 'search', 'cart'])[1 + i % 3]
FROM generate_series(1, :rows) i;
ALTER TABLE orders ADD PRIMARY KEY (id), ADD FOREIGN KEY (customer) REFERENCES customers;
ALTER TABLE visits ADD PRIMARY KEY (id), ADD FOREIGN KEY (customer) REFERENCES customers;
ALTER TABLE customers REPLICA IDENTITY FULL;
ALTER TABLE orders REPLICA IDENTITY FULL;
ALTER TABLE visits REPLICA IDENTITY FULL;
ANALYZE;
