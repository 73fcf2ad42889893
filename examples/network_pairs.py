"""The question of the join-distinct document: distinct (source, destination) pairs that survive a join.

Two monitors log flows as (source, gateway) and (gateway, destination); flows that ended are withdrawn. How many
distinct pairs are connected through some gateway, and how many sources reach any destination?
"""

import numpy as np
import pyarrow as pa

import eddyline as el

w = el.Workload(budget="6 MB", seed=5, max_distinct=2_000_000)
w.stream("ingress", "source BIGINT, gateway BIGINT").stream("egress", "gateway BIGINT, destination BIGINT")
w.query(
    "pairs",
    "SELECT COUNT(DISTINCT i.source, e.destination) FROM ingress i JOIN egress e ON i.gateway = e.gateway",
)
w.query("sources", "SELECT COUNT(DISTINCT source) FROM ingress WHERE gateway IN (SELECT gateway FROM egress)")
plan = w.plan()

rng = np.random.default_rng(1)
n = 60_000
ingress = {"source": rng.integers(0, 10_000, n), "gateway": rng.integers(0, 20_000, n)}
egress = {"gateway": rng.integers(0, 20_000, n), "destination": rng.integers(0, 10_000, n)}
state = plan.empty().update("ingress", ingress).update("egress", egress)
ended = {name: values[: n // 2] for name, values in ingress.items()}
state.update("ingress", ended, np.full(n // 2, -1))

# the exact answer, by Arrow on the net rows
left = pa.table({name: values[n // 2 :] for name, values in ingress.items()})
joined = left.join(pa.table(egress), "gateway", join_type="inner")
exact = {
    "pairs": joined.group_by(["source", "destination"]).aggregate([]).num_rows,
    "sources": joined.group_by("source").aggregate([]).num_rows,
}
for name, truth in exact.items():
    print(f"{name}: {state.answer(name)} | exact: {truth:,}")
print(f"{state.nbytes:,} bytes for both monitors and both questions")
