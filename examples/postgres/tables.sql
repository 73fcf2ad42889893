-- Two tables that are not empty when the run starts for the first time.
CREATE TABLE orders (id bigint PRIMARY KEY, customer bigint, total numeric(12,2));
CREATE TABLE visits (id bigint PRIMARY KEY, customer bigint, seconds int);
ALTER TABLE orders REPLICA IDENTITY FULL;
ALTER TABLE visits REPLICA IDENTITY FULL;
INSERT INTO orders SELECT i, (i * i) % 397, ((i * 7919) % 10000) / 100.0 FROM generate_series(1, 3000::bigint) i;
INSERT INTO visits SELECT i, (i * i * i) % 401, i % 600 FROM generate_series(1, 3000::bigint) i;
