"""A theta sketch of Apache DataSketches on the only query of the workload that it can take: distinct customers.

    python benchmarks/peers/theta.py [--changes 1000000]

It has no deletes, so there are two ways to use it: one sketch of all inserts, which counts customers whose orders were
all deleted, too; or a sketch that is built again from the net rows, which must be kept elsewhere. Prints, for sketches
of several sizes, their bytes, estimates, ends of the interval at two standard deviations, and relative errors.
"""

import argparse

import numpy as np
from changes import batches, exact
from datasketches import update_theta_sketch


def net(changes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the customers of all orders that were ever inserted, and of those that are left."""
    inserted, orders = [], {}
    for batch in batches(changes):
        for name, gone, new in batch:
            if name == "orders":
                inserted.append(new["c"].to_numpy())
                for each in gone["o"].to_pylist():
                    del orders[each]
                orders.update(zip(new["o"].to_pylist(), new["c"].to_pylist(), strict=True))
    return np.concatenate(inserted), np.fromiter(orders.values(), np.int64)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--changes", type=int, default=1_000_000)
    options = parser.parse_args()
    truth = exact(options.changes)[-1]["buyers"][0][0]
    inserted, left = net(options.changes)
    assert len(np.unique(left)) == truth
    print("| rows | size | bytes | estimate | low | high | exact | error |\n" + "| --- " * 8 + "|")
    for name, customers in (("all inserts", inserted), ("net rows again", left)):
        for size in (10, 12, 14):
            sketch = update_theta_sketch(size)
            for customer in customers.tolist():
                sketch.update(customer)
            value, taken = sketch.get_estimate(), len(sketch.compact().serialize())
            ends = f"{sketch.get_lower_bound(2):,.0f} | {sketch.get_upper_bound(2):,.0f}"
            error = f"{value / truth - 1:+.1%}"
            print(f"| {name} | 2^{size} | {taken:,} | {value:,.0f} | {ends} | {truth:,.0f} | {error} |")


if __name__ == "__main__":
    main()
