"""Write the changes of two tables to Kafka, as Debezium does, and print the exact answers of the rows that are left."""

import json
import random
import sys
from collections import Counter

from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic

CHANGES = 5_000


def row(rng: random.Random, table: str, number: int) -> dict[str, object]:
    """Return a row with a customer of whom few come often."""
    customer = int(400 * rng.random() ** 3)
    if table == "orders":
        return {"id": number, "customer": customer, "total": f"{rng.randrange(100, 10_000) / 100:.2f}"}
    return {"id": number, "customer": customer, "seconds": rng.randrange(600)}


def main(servers: str) -> None:
    """Write the changes: four of five insert, one deletes and is followed by a tombstone."""
    rng = random.Random(7)  # noqa: S311 - data, not secrets
    admin = KafkaAdminClient(bootstrap_servers=servers)
    admin.create_topics([NewTopic(table, 3, 1) for table in ("orders", "visits")])
    admin.close()
    tables: dict[str, list[dict[str, object]]] = {"orders": [], "visits": []}
    producer = KafkaProducer(bootstrap_servers=servers)
    for number in range(CHANGES):
        for table, rows in tables.items():
            delete = bool(rows) and rng.random() < 0.2
            changed = rows.pop(rng.randrange(len(rows))) if delete else row(rng, table, number)
            envelope = {"op": "d" if delete else "c", "before": None, "after": None}
            envelope["before" if delete else "after"] = changed
            key = json.dumps({"id": changed["id"]}).encode()
            producer.send(table, key=key, value=json.dumps(envelope).encode())
            if delete:
                producer.send(table, key=key, value=None)
            else:
                rows.append(changed)
    producer.close()
    visits = Counter(visit["customer"] for visit in tables["visits"])
    cents = sum(round(float(str(o["total"])) * 100) * visits[o["customer"]] for o in tables["orders"])
    buyers = len({order["customer"] for order in tables["orders"]})
    print(f"exact: orders_kept {len(tables['orders'])}, money_in_view {cents / 100:.2f}, buyers {buyers}")


if __name__ == "__main__":
    main(sys.argv[1])
