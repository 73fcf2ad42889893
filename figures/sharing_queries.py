"""The workloads of figures/sharing.py: the 29 queries of FIG. 6 of the sharing document, written out in SQL.

FIG. 6 gives each query as a set of numbered join edges; FIG. 7, which says what the numbers mean, cannot be read.
There are five ways to number the ten key edges of TPC-H such that every query but one is connected; this is the
one of them whose first queries look most like TPC-H's own:

    1 lineitem-part       2 lineitem-partsupp   3 lineitem-orders       4 orders-customer    5 customer-nation
    6 lineitem-supplier   7 partsupp-supplier   8 supplier-nation       9 nation-region     10 partsupp-part

The query that is not connected in any of them, Q27, is replaced by one that meets supplier twice: its two links
can never have one hash family, so that not all of its sketches can be shared. A few queries have a predicate.
"""

import re

STREAMS = {
    "lineitem": "l_orderkey BIGINT, l_partkey BIGINT, l_suppkey BIGINT",
    "orders": "o_orderkey BIGINT, o_custkey BIGINT",
    "customer": "c_custkey BIGINT, c_nationkey BIGINT",
    "partsupp": "ps_partkey BIGINT, ps_suppkey BIGINT",
    "part": "p_partkey BIGINT",
    "supplier": "s_suppkey BIGINT, s_nationkey BIGINT",
    "nation": "n_nationkey BIGINT, n_regionkey BIGINT",
    "region": "r_regionkey BIGINT",
}

_JOINS = {
    "Q1": "lineitem, part, partsupp WHERE l_partkey = p_partkey AND l_partkey = ps_partkey AND l_suppkey = ps_suppkey",
    "Q2": "orders, customer, nation WHERE o_custkey = c_custkey AND c_nationkey = n_nationkey",
    "Q3": "lineitem, orders, customer, nation WHERE l_orderkey = o_orderkey AND o_custkey = c_custkey "
    "AND c_nationkey = n_nationkey",
    "Q4": "orders, customer, nation, supplier WHERE o_custkey = c_custkey AND c_nationkey = n_nationkey "
    "AND s_nationkey = n_nationkey",
    "Q5": "orders, customer, nation, supplier, region WHERE o_custkey = c_custkey AND c_nationkey = n_nationkey "
    "AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey",
    "Q6": "lineitem, partsupp WHERE l_partkey = ps_partkey AND l_suppkey = ps_suppkey",
    "Q7": "customer, nation WHERE c_nationkey = n_nationkey AND n_regionkey < 3",
    "Q8": "nation, region WHERE n_regionkey = r_regionkey",
    "Q9": "lineitem, part WHERE l_partkey = p_partkey",
    "Q10": "lineitem, supplier, partsupp WHERE l_suppkey = s_suppkey AND ps_suppkey = s_suppkey",
    "Q11": "customer, nation, supplier WHERE c_nationkey = n_nationkey AND s_nationkey = n_nationkey",
    "Q12": "partsupp, part WHERE ps_partkey = p_partkey",
    "Q13": "orders, customer WHERE o_custkey = c_custkey",
    "Q14": "lineitem, orders WHERE l_orderkey = o_orderkey",
    "Q15": "lineitem, orders, customer WHERE l_orderkey = o_orderkey AND o_custkey = c_custkey",
    "Q16": "customer, nation, supplier WHERE c_nationkey = n_nationkey AND s_nationkey = n_nationkey "
    "AND n_regionkey < 3",
    "Q17": "supplier, nation, region WHERE s_nationkey = n_nationkey AND n_regionkey = r_regionkey",
    "Q18": "customer, nation, region WHERE c_nationkey = n_nationkey AND n_regionkey = r_regionkey "
    "AND c_nationkey < 12",
    "Q19": "lineitem, supplier, nation WHERE l_suppkey = s_suppkey AND s_nationkey = n_nationkey",
    "Q20": "partsupp, supplier, nation WHERE ps_suppkey = s_suppkey AND s_nationkey = n_nationkey",
    "Q21": "supplier, nation WHERE s_nationkey = n_nationkey AND n_regionkey < 3",
    "Q22": "lineitem, supplier WHERE l_suppkey = s_suppkey",
    "Q23": "partsupp, supplier WHERE ps_suppkey = s_suppkey",
    "Q24": "lineitem, partsupp, orders WHERE l_partkey = ps_partkey AND l_suppkey = ps_suppkey "
    "AND l_orderkey = o_orderkey",
    "Q25": "lineitem, partsupp, supplier WHERE l_partkey = ps_partkey AND l_suppkey = ps_suppkey "
    "AND ps_suppkey = s_suppkey",
    "Q26": "part, lineitem, supplier WHERE l_partkey = p_partkey AND l_suppkey = s_suppkey",
    "Q27": "supplier s1, lineitem, partsupp, supplier s2 WHERE s1.s_suppkey = l_suppkey AND l_partkey = ps_partkey "
    "AND ps_suppkey = s2.s_suppkey",
    "Q28": "part, lineitem, partsupp, orders WHERE l_partkey = p_partkey AND l_partkey = ps_partkey "
    "AND l_suppkey = ps_suppkey AND l_orderkey = o_orderkey",
    "Q29": "partsupp, lineitem, orders, customer WHERE l_partkey = ps_partkey AND l_suppkey = ps_suppkey "
    "AND l_orderkey = o_orderkey AND o_custkey = c_custkey",
}

QUERIES = {name: f"SELECT COUNT(*) FROM {join}" for name, join in _JOINS.items()}

HEAVY = ("Q6", "Q9")
WORKLOADS: dict[str, dict[str, float]] = {
    "1": dict.fromkeys(list(QUERIES)[:12], 1.0),
    "2": dict.fromkeys(QUERIES, 1.0),
    "3": {
        name: 16.0 if name in HEAVY else 1.0 for name in ("Q6", "Q7", "Q8", "Q9", "Q10", "Q11", "Q12", "Q28")
    },
}
"""The queries of each workload and how much their squared errors count."""

_STREAM = re.compile(rf"\b({'|'.join(STREAMS)})\b")


def streams_of(query: str) -> list[str]:
    """Return the streams that a query reads."""
    return sorted(set(_STREAM.findall(QUERIES[query])))


def relations_of(query: str) -> list[str]:
    """Return the names under which a query reads its streams."""
    listed = _JOINS[query].split(" WHERE ")[0]
    return [each.split()[-1] for each in listed.split(", ")]


def with_own_streams(text: str, query: str) -> str:
    """Return a text in which every stream is replaced by the copy that belongs to one query alone."""
    return _STREAM.sub(rf"\1_{query}", text)
