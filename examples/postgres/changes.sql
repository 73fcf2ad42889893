-- What happens to the tables between two runs: inserts, updates (of join keys, too) and deletes.
INSERT INTO orders SELECT i, (i * i) % 397, ((i * 7919) % 10000) / 100.0 FROM generate_series(3001, 4000::bigint) i;
UPDATE orders SET total = total + 1 WHERE id % 10 = 0;
UPDATE visits SET customer = customer + 1 WHERE id % 7 = 0;
DELETE FROM orders WHERE id % 5 = 1;
DELETE FROM visits WHERE seconds < 30;
