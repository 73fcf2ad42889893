"""Every pair of operations on a pipeline, tried on a real store: may the second follow the first, and what is counted?

The table of docs/how-to/recover.md has the outcomes, and tests/fuzz/test_lifecycle.py compares both.

python -m tests.fuzz.pairs   # tries all pairs and prints the table
"""

import shutil
import sys
import tempfile
from pathlib import Path

import eddyline as el
from eddyline.api.sites import merge_stores
from eddyline.errors import EddylineError
from eddyline.store import COMMIT_STEPS, Reader, Store
from tests.fuzz.lifecycle import QUERIES, Life

YES, NO = "yes", "refused"


class Pair(Life):
    """A pipeline with two files of each stream, each taken by a run of its own, and a backup made between them."""

    def __init__(self, root, seed=0):
        super().__init__(root, seed)
        self.run()
        self.copy()
        shutil.copytree(self.root / "state", self.root / "state-copy")
        self.add("r")
        self.add("s")
        self.run()
        self.log.clear()

    def tried(self, name):
        """Do an operation; return whether it went through, and raise FaultError where its result is wrong."""
        self.log.append(name)
        OPERATIONS[name](self)
        return not any(each.startswith("refused") for each in self.log[self.log.index(name) + 1 :])

    def put_backup_back(self):
        """Put store and checkpoints back as they were together."""
        shutil.rmtree(self.root / "state")
        shutil.copytree(self.root / "state-copy", self.root / "state")
        self.copy(back=True)
        self._plan_of_store()

    def put_store_back(self):
        """Put an older copy of the store back; the checkpoints are ahead of it."""
        shutil.rmtree(self.root / "state")
        shutil.copytree(self.root / "state-copy", self.root / "state")
        self.is_tampered = True
        self._plan_of_store()

    def _plan_of_store(self):
        self.planned = {name: QUERIES[name] for name in el.open(self.state).snapshot.layout.query_names}

    def restore_first(self):
        """Go back to the first epoch that has a batch of each stream."""
        reader = Reader(self.state)
        epoch = min(n for n in reader.epochs() if len(reader.at(n).commit.sources) == len(QUERIES) - 1)
        self.is_tampered = True  # what may follow depends on the checkpoints
        Store.restore(self.state, epoch, "restore")
        self._plan_of_store()
        self.check()

    def merge(self):
        """Merge the store into another one, which leaves it as it is."""
        before = self.counted()
        merge_stores([self.state], str(self.root / "merged"))
        assert self.counted() == before


OPERATIONS = {
    "run": lambda p: p.run(),
    "kill": lambda p: p.run(kill=len(COMMIT_STEPS) + 3),
    "restore": Pair.restore_first,
    "change plan": Pair.change_and_go_on,
    "rebuild": Pair.rebuild,
    "adopt": lambda p: p.run(adopt=True),
    "full refresh": lambda p: p.run(full_refresh=tuple(QUERIES)),
    "move the files": Pair.move,
    "lose the checkpoints": lambda p: shutil.rmtree(p.root / "checkpoints", ignore_errors=True),
    "put back checkpoints": lambda p: p.copy(back=True),
    "put back the store": Pair.put_store_back,
    "put back both": Pair.put_backup_back,
    "merge": Pair.merge,
}


COMMANDS = ("run", "change plan", "adopt", "full refresh", "rebuild", "restore", "merge")
"""The second operations: whoever moves, loses or copies files does not ask us."""


def outcome(first, second):
    """Return what the second operation does after the first, and hold every answer to the files."""
    found = set()
    for has_new in (False, True):
        with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as root:
            pair = Pair(root)
            pair.tried(first)
            pair.is_tampered = True  # a refusal is an outcome here, not a fault
            if has_new:
                pair.add("r")
            found.add(YES if pair.tried(second) else NO)
            pair.check()
            pair.run(full_refresh=tuple(QUERIES))  # right in all cases
            pair.check(complete=True)
    return found.pop() if len(found) == 1 else "depends"


def table(outcomes):
    """Return the outcomes as a table of Markdown: rows are first, columns second operations."""
    lines = ["| first, then | " + " | ".join(COMMANDS) + " |", "| --- |" + " --- |" * len(COMMANDS)]
    lines += [
        f"| {first} | " + " | ".join(outcomes[first, second] for second in COMMANDS) + " |"
        for first in OPERATIONS
    ]
    return "\n".join(lines)


def read_table(text):
    """Return the outcomes of a table of Markdown, by pair."""
    rows = [[cell.strip() for cell in line.strip("| ").split("|")] for line in text.strip().splitlines()]
    header = rows[0][1:]
    return {(row[0], second): cell for row in rows[2:] for second, cell in zip(header, row[1:], strict=True)}


def main():
    """Try all pairs and print the table."""
    found = {}
    for first in OPERATIONS:
        for second in COMMANDS:
            try:
                found[first, second] = outcome(first, second)
            except (AssertionError, EddylineError) as error:
                found[first, second] = "FAULT"
                print(f"{first} > {second}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        print(first, [found[first, second] for second in COMMANDS], file=sys.stderr, flush=True)
    print(table(found))


if __name__ == "__main__":
    main()
