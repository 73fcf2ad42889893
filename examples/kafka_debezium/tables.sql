-- What the database holds before Debezium starts. Whole old rows in the log: without them no delete can be undone.
CREATE TABLE orders (id BIGINT PRIMARY KEY, customer BIGINT, total NUMERIC(12,2), placed TIMESTAMP);
CREATE TABLE visits (id BIGINT PRIMARY KEY, customer BIGINT, seconds INT);
ALTER TABLE orders REPLICA IDENTITY FULL;
ALTER TABLE visits REPLICA IDENTITY FULL;
INSERT INTO orders
  SELECT n, 400 * ((n * 7919) % 1000 / 1000.0) ^ 3, (n * 31 % 9900 + 100) / 100.0,
         timestamp '2024-01-01' + interval '97 minutes' * n
  FROM generate_series(1, 4000) n;
INSERT INTO visits SELECT n, 400 * ((n * 104729) % 1000 / 1000.0) ^ 3, n % 600 FROM generate_series(1, 4000) n;
