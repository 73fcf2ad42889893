"""Inserts and deletes in states of their own, and what is left of the rows."""

import numpy as np
import pyarrow as pa

from tests.oracles.duckdb_sql import net_rows


def inserted_and_deleted(rng, plan, tables, share=0.3):
    """(a state of all rows, a state of the deletes of some of them, the net rows by stream)."""
    inserts, deletes, net = plan.empty(), plan.empty(), {}
    for name, table in tables.items():
        gone = table.filter(pa.array(rng.random(table.num_rows) < share))
        deletes.update(name, gone, weights=np.full(gone.num_rows, -1))
        inserts.update(name, table)
        weights = [1] * table.num_rows + [-1] * gone.num_rows
        net[name] = net_rows(pa.concat_tables([table, gone]), weights)
    return inserts, deletes, net
