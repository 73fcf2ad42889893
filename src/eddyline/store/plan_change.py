"""What differs between the plan of a store and another plan, and what of the store survives it.

A section belongs to the name before its first "/": "orders-key" and "orders-key/hints" are both of the
synopsis orders-key.
"""

from eddyline.errors import WrongRun
from eddyline.store.commit import Epoch, PlanStamp


def unchanged_names(old: PlanStamp, new: PlanStamp) -> set[str]:
    """Return the names that both plans describe in the same words."""
    return {name for name, text in new.describe.items() if old.describe.get(name) == text}


def kept_sections(epoch: Epoch, plan: PlanStamp) -> dict[str, bytes]:
    """Return the sections of all names that the plan leaves unchanged."""
    kept = unchanged_names(epoch.commit.plan, plan)
    return {name: content for name, content in epoch.sections.items() if name.partition("/")[0] in kept}


def difference(old: PlanStamp, new: PlanStamp) -> list[str]:
    """Return one line per name that was added (+), removed (-) or changed (~), and per setting that is another."""
    lines = [
        f"~ {name}: {old.settings[name]} -> {after}"
        for name, after in new.settings.items()
        if old.settings.get(name, after) != after
    ]
    for name in sorted(old.describe.keys() | new.describe.keys()):
        before, after = old.describe.get(name), new.describe.get(name)
        if before is None:
            lines.append(f"+ {name}: {after}")
        elif after is None:
            lines.append(f"- {name}: {before}")
        elif before != after:
            lines.append(f"~ {name}: {before} -> {after}")
    return lines


def check_plan(where: str, old: PlanStamp, new: PlanStamp) -> None:
    """Raise WrongRun with the difference unless the store was made by this very plan."""
    if old.hash == new.hash:
        return
    lines = difference(old, new) or ["(every name reads the same: seeds, budget or streams differ)"]
    raise WrongRun(
        f"the store {where} was made by another plan (hash {old.hash}, now {new.hash}):\n  "
        + "\n  ".join(lines)
        + f"\n{len(unchanged_names(old, new))} names are unchanged. Use the plan it was made by, another "
        "directory, or change_plan=True (eddyline run --change-plan), which keeps what is unchanged."
    )
