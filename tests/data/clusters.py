"""The plan of the jobs that run on clusters."""

import eddyline as el


def plan():
    return (
        el.Workload(budget="100 KB", seed=1, samples=False)
        .stream("t", "k BIGINT, s STRING, n INT")
        .query("pairs", "SELECT COUNT(*) FROM t a JOIN t b USING (k)")
        .query("texts", "SELECT SUM(a.n) FROM t a JOIN t b ON a.s = b.s WHERE b.s LIKE '1%'")
        .plan()
    )
