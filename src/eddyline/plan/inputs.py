"""What the planner goes by beside the queries."""

import msgspec

from eddyline.plan.sharing.coalesce import Objective
from eddyline.plan.statistics import Statistics


class PlanningInputs(msgspec.Struct, frozen=True):
    """What the planner goes by beside the queries: statistics, and which error is to be least.

    held: bytes that each sample of a running plan holds now.
    """

    statistics: Statistics = Statistics()
    objective: Objective = "average"
    held: dict[str, int] = {}
