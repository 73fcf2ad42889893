"""The size of a join by atomic sketches: the classic estimator, for any acyclic join.

Paper: skimmed, ESTJOINSIZE; multi-join, section 3.1.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from eddyline.answer.joins.row_estimates import RowEstimates
from eddyline.errors import IncompatibleSpecs
from eddyline.sketch.agms import AgmsSpec
from eddyline.sketch.counters import Int64Array


def est_join_size(relations: Sequence[tuple[AgmsSpec, Int64Array]]) -> RowEstimates:
    """Return the join size: the median over groups of the mean of atomic products X_1 X_2 ... X_r."""
    shapes = {(spec.width, spec.depth, spec.hash) for spec, _ in relations}
    met = Counter(seed for spec, _ in relations for seed in spec.seeds)
    if len(shapes) > 1 or any(times != 2 for times in met.values()):
        raise IncompatibleSpecs(
            "these AGMS sketches differ in shape, or their sign families do not meet in pairs, and cannot be joined: "
            f"{[spec for spec, _ in relations]}; build all from one plan."
        )
    rows = [spec.rows(counters).astype(np.float64) for spec, counters in relations]
    products = np.prod(rows, axis=0)
    self_joins = np.prod([(each**2).mean() for each in rows])
    variance = float(self_joins + products.mean() ** 2) / relations[0][0].width
    return RowEstimates(rows=products.mean(axis=1), row_variance=variance, center="median")
