"""Make the table of orders, or change it: python change.py FOLDER make|change; prints what it holds then."""

import sys
from pathlib import Path

from eddyline.spark.session import local_session

folder, what = Path(sys.argv[1]), sys.argv[2]
spark = local_session(jars=[str(folder / "jars")], formats=["delta"])
table = f"delta.`{folder / 'orders'}`"
if what == "make":
    spark.sql(
        f"CREATE TABLE {table} (id BIGINT, customer BIGINT, total DECIMAL(12,2)) USING delta "
        "TBLPROPERTIES (delta.enableChangeDataFeed = true)"
    )
    spark.sql(f"INSERT INTO {table} SELECT id, id * id % 397, id % 1000 + 0.5 FROM range(5000)")
else:
    spark.sql(f"UPDATE {table} SET total = total * 2 WHERE customer < 10")
    spark.sql(f"DELETE FROM {table} WHERE id % 5 = 0")
    spark.sql(
        f"MERGE INTO {table} t USING (SELECT id + 4900 AS id, 7 AS customer, 20 AS total FROM range(200)) s "
        "ON t.id = s.id WHEN MATCHED THEN UPDATE SET total = s.total WHEN NOT MATCHED THEN INSERT *"
    )
kept, revenue, buyers = spark.sql(
    f"SELECT COUNT(*), SUM(total), COUNT(DISTINCT customer) FROM {table}"
).collect()[0]
print(f"exact: orders_kept {kept}, revenue {revenue}, buyers {buyers}")
spark.stop()
