"""Checks the bank (figures/bank) on small drawings, and prints the size of each data set.

Exact answers along the tree of a join must be those of the texts themselves; all orders must hold the same changes;
no prefix of an order may have deleted more than was inserted.

    python figures/bank_check.py [--datasets zipf,shop]
"""

import argparse
from math import isclose

import numpy as np
from bank import DATASETS
from bank.dataset import ORDERS, Data
from bank.exact import checked_answers, exact_answers, exact_bytes

SMALL = 3000


def check_answers(data: Data) -> None:
    """Compare the two ways to an exact answer."""
    texts = checked_answers(data)
    for query, found in exact_answers(data).items():
        assert isclose(found, texts[query], rel_tol=1e-9, abs_tol=1e-9), (query, found, texts[query])


def check_orders(data: Data) -> None:
    """Check that each row is inserted once, and deleted only after that."""
    for order in ORDERS:
        streams, rows, weights = data.ordered(order)
        assert len(rows) == data.changes
        for index, table in enumerate(data.tables.values()):
            own = streams == index
            inserted = np.full(len(table.born), len(rows))
            inserted[rows[own & (weights > 0)]] = np.flatnonzero(own & (weights > 0))
            deleted = own & (weights < 0)
            assert inserted.max() < len(rows)
            assert (inserted[rows[deleted]] < np.flatnonzero(deleted)).all()


def main() -> None:
    """Check every data set that is asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--datasets", default="", help="only those whose names hold one of these texts")
    named = parser.parse_args().datasets.split(",")
    for name, dataset in DATASETS.items():
        if not any(text in name for text in named):
            continue
        small = dataset.drawn(3, SMALL)
        check_answers(small)
        check_orders(small)
        data = dataset.drawn(0)
        kept = sum(len(next(iter(table.net.values()))) for table in data.tables.values())
        print(
            f"{dataset.part} {name:28} {data.changes:8,} changes {kept:8,} rows {exact_bytes(data):10,} bytes "
            f"{len(data.queries)} queries",
            flush=True,
        )


if __name__ == "__main__":
    main()
