"""The question of the set-expression document: distinct sources that R1 and R2 saw and R3 did not, net of deletes.

Flow records come with a signed weight: +1 when a flow is seen, -1 when it is withdrawn. All three streams are
read by one Spark pass each. The exact answer of the same SQL by Spark is printed next to the estimate.
"""

import eddyline as el
from eddyline.spark.session import local_session

FLOWS = "source BIGINT, destination BIGINT, weight INT"
QUESTION = """
SELECT COUNT(*) FROM (
  (SELECT source FROM r1 INTERSECT SELECT source FROM r2) EXCEPT SELECT source FROM r3)
"""
PAIRS = "SELECT COUNT(DISTINCT source, destination) FROM r1"

spark = local_session()
w = el.Workload(budget="1 MB", seed=1)
for router in ("r1", "r2", "r3"):
    w.stream(router, FLOWS, changes="weight")
plan = w.query("seen_not_there", QUESTION).query("pairs", PAIRS).plan()

frames = {}
for salt, router in enumerate(("r1", "r2", "r3")):
    source = f"pmod(xxhash64(id, {salt}), 60000) AS source"
    destination = f"pmod(xxhash64(id, {salt + 10}), 40) AS destination"
    flows = spark.range(80_000).selectExpr(source, destination, "1 AS weight")
    withdrawn = flows.where("source % 7 = 0").selectExpr("source", "destination", "-1 AS weight")
    frames[router] = flows.unionAll(withdrawn)
    net = frames[router].groupBy("source", "destination").sum("weight").where("`sum(weight)` > 0")
    net.createOrReplaceTempView(router)

state = plan.sketch(spark, frames)
for name, text in (("seen_not_there", QUESTION), ("pairs", PAIRS)):
    print(f"{name}: {state.answer(name)} | exact: {spark.sql(text).collect()[0][0]:,}")
print(f"{state.nbytes:,} bytes for three routers")
spark.stop()
