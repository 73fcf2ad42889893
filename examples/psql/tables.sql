-- Two tables of a shop.
CREATE TABLE orders (id bigint PRIMARY KEY, customer bigint, region text, total numeric(12,2));
CREATE TABLE visits (id bigint PRIMARY KEY, customer bigint, seconds int);
ALTER TABLE orders REPLICA IDENTITY FULL;
ALTER TABLE visits REPLICA IDENTITY FULL;
INSERT INTO orders SELECT i, (i * i) % 39979, 'region ' || (i % 7), ((i * 7919) % 10000) / 100.0 FROM generate_series(1, 40000::bigint) i;
INSERT INTO visits SELECT i, (i * i * i) % 40009, i % 600 FROM generate_series(1, 40000::bigint) i;
