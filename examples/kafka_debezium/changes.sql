-- What happens while Debezium follows: updates, of keys among them, deletes, and new rows.
UPDATE orders SET total = total + 0.01 WHERE id % 4 = 0;
UPDATE orders SET id = id + 100000 WHERE id % 7 = 0;
DELETE FROM orders WHERE id % 5 = 0;
DELETE FROM visits WHERE id % 9 = 0;
INSERT INTO visits SELECT n, n % 400, n % 600 FROM generate_series(4001, 5000) n;
