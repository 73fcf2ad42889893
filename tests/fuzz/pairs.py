"""Every pair of operations on a pipeline, tried on a real store: may the second follow the first, and what is counted?

The table of docs/how-to/recover.md has the outcomes, and tests/fuzz/test_lifecycle.py compares both.

python -m tests.fuzz.pairs   # tries all pairs and prints the table
"""

import copy
import shutil
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

from eddyline.api.operations.sites import merge_stores
from eddyline.errors import EddylineError
from eddyline.store import COMMIT_STEPS, Reader, Store
from tests.fuzz.lifecycle import QUERIES, Life

YES, NO = "yes", "refused"
RECOVER = Path(__file__).parents[2] / "docs" / "how-to" / "recover.md"


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

    def restore_first(self):
        """Go back to the first epoch that has a batch of each stream."""
        reader = Reader(self.state)
        epoch = min(n for n in reader.epochs() if len(reader.at(n).commit.sources) == len(QUERIES) - 1)
        self.is_tampered = True  # what may follow depends on the checkpoints
        Store.restore(self.state, epoch)
        self._plan_of_store()
        self.check()

    def copy_project(self):
        """Copy store and checkpoints, and run the copy: it goes on or is refused as the store itself, which stays."""
        there, before = self.root / "there", self.counted()
        shutil.rmtree(there, ignore_errors=True)
        for name in ("state", "checkpoints"):
            if (self.root / name).exists():
                shutil.copytree(self.root / name, there / name)
        other = copy.copy(self)
        other.root, other.data, other.log, other.is_tampered = there, str(self.root / self.data), [], True
        assert other.counted() == before
        other.run()
        assert self.counted() == before

    def move_project(self):
        """Move the pipeline file, its data, the store and the checkpoints to another folder."""
        before, self.moves = self.counted(), self.moves + 1
        there = self.root.parent / f"moved{self.moves}"
        self.root.rename(there)
        self.root, self.is_tampered = there, True
        assert self.counted() == before

    def merge(self):
        """Merge the store into another one, which leaves it as it is."""
        before = self.counted()
        merge_stores([self.state], str(self.root / "merged"))
        assert self.counted() == before


COMMANDS = {
    "run": lambda p: p.run(),
    "stop": lambda p: p.run(stop=2),  # a batch is planned and not taken
    "kill": lambda p: p.run(kill=len(COMMIT_STEPS) + 3),
    "change plan": Pair.change_and_go_on,
    "change budget": Pair.change_budget,
    "adopt": lambda p: p.run(adopt=True),
    "full refresh": lambda p: p.run(full_refresh=tuple(QUERIES)),
    "rebuild": Pair.rebuild,
    "restore": Pair.restore_first,
    "merge": Pair.merge,
    "copy": Pair.copy_project,
    "move": Pair.move_project,
    "upgrade": Pair.upgrade,
}
OPERATIONS = COMMANDS | {
    "move the files": Pair.move,
    "lose the checkpoints": lambda p: shutil.rmtree(p.root / "checkpoints", ignore_errors=True),
    "put back checkpoints": lambda p: Pair.copy(p, back=True),
    "put back the store": Pair.put_store_back,
    "put back both": Pair.put_backup_back,
}
"""The first operations: also what is done to the files without asking."""


@contextmanager
def after(first):
    """Yield a function that returns a Pair after an operation: it is made once, and put back at each call."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as root:
        work, saved = Path(root) / "work", Path(root) / "saved"
        made = Pair(work / "project")
        made.tried(first)
        shutil.copytree(work, saved)

        def again():
            shutil.rmtree(work)
            shutil.copytree(saved, work)  # to the same folder: checkpoints have the paths of files
            return copy.deepcopy(made)

        yield again


def outcomes(first):
    """Return what each command does after an operation, by its name, and hold every answer to the files."""
    with after(first) as again:
        return {second: _outcome(again, second) for second in COMMANDS}


def _outcome(again, second):
    found = set()
    for has_new in (False, True):
        pair = again()
        pair.is_tampered = True  # a refusal is an outcome here, not a fault
        if has_new:
            pair.add("r")
        found.add(YES if pair.tried(second) else NO)
        pair.check()
        pair.is_tampered = True
        pair.run()  # right or refused
        pair.run(full_refresh=tuple(QUERIES))  # right in all cases
        pair.check(complete=True)
    return found.pop() if len(found) == 1 else "depends"


def table(found):
    """Return the outcomes as a table of Markdown: rows are first operations, columns the second ones with equal outcomes."""
    columns: dict[tuple[str, ...], list[str]] = {}
    for second in COMMANDS:
        columns.setdefault(tuple(found[first, second] for first in OPERATIONS), []).append(second)
    heads = [", ".join(names) for names in columns.values()]
    lines = ["| first, then | " + " | ".join(heads) + " |", "| --- |" + " --- |" * len(columns)]
    lines += ["| " + " | ".join(cells) + " |" for cells in zip(OPERATIONS, *columns, strict=True)]
    return "\n".join(lines)


def read_table(text):
    """Return the outcomes of a table of Markdown, by pair."""
    rows = [[cell.strip() for cell in line.strip("| ").split("|")] for line in text.strip().splitlines()]
    seconds = [head.split(", ") for head in rows[0][1:]]
    found = {
        (row[0], second): cell
        for row in rows[2:]
        for names, cell in zip(seconds, row[1:], strict=True)
        for second in names
    }
    return {(first, second): found[first, second] for first in OPERATIONS for second in COMMANDS}


def documented():
    """Return the outcomes of all pairs as the docs have them."""
    lines = RECOVER.read_text().splitlines()
    first = next(place for place, line in enumerate(lines) if line.startswith("| first, then |"))
    return read_table(
        "\n".join(line for line in lines[first : first + 2 + len(OPERATIONS)] if line[:1] == "|")
    )


def main():
    """Try all pairs and print the table."""
    found = {}
    for first in OPERATIONS:
        with after(first) as again:
            for second in COMMANDS:
                try:
                    found[first, second] = _outcome(again, second)
                except (AssertionError, EddylineError) as error:
                    found[first, second] = "FAULT"
                    print(f"{first} > {second}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        print(first, [found[first, second] for second in COMMANDS], file=sys.stderr, flush=True)
    print(table(found))


if __name__ == "__main__":
    main()
