"""Ask a store and a database the same questions with psql, once each, and print answers, intervals and times.

python compare.py questions.sql "STORE'S DSN" "DATABASE'S DSN"
"""

import re
import subprocess
import sys
from pathlib import Path


def asked(dsn: str, question: str) -> tuple[str, str, float]:
    """Return what psql prints for a question, the notices that came with it, and how many milliseconds it took.

    The server stops waiting for an answer after ten seconds, but computes it: it is there when psql asks again.
    """
    command = ["psql", "-X", "-v", "ON_ERROR_STOP=1", "-c", "\\timing on", "-c", question, dsn]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our questions
    if "statement timeout" in done.stderr:
        printed, notices, took = asked(dsn, question)
        return printed, notices, took + 10_000
    if done.returncode:
        sys.exit(f"{question}\n{done.stderr}")
    printed = done.stdout.removeprefix("Timing is on.\n")
    return printed, done.stderr, float(printed[printed.rindex("Time:") :].split()[1])


def interval(notices: str) -> str:
    """Return the interval of an answer; the server says nothing about one that is exact."""
    found = re.search(r"\[(.*?) \.\. (.*?)\]", notices)
    said = "not carried" if "not carried" in notices else "exact"
    return f"{found[1]} to {found[2]}" if found else said


def number(value: float) -> str:
    """Return a number as people read it."""
    return f"{value:,.2f}" if value % 1 else f"{value:,.0f}"


def main() -> None:
    """Print what psql shows, then the table."""
    questions, store, database = sys.argv[1:]
    rows = []
    for question in Path(questions).read_text().splitlines():
        estimate, notices, took = asked(store, question)
        exact, _, took_exact = asked(database, question)
        print(f"== {question}\n-- the store:\n{notices}{estimate}-- the database:\n{exact}", flush=True)
        value, truth = (float(printed.split("\n")[2]) for printed in (estimate, exact))
        cells = (number(truth), f"{took_exact:,.0f}", number(value), interval(notices), f"{took:,.0f}")
        rows.append(f"| `{question}` | {' | '.join(cells)} |")
    print(
        "| question | exact | ms | estimate | 95% interval | ms |\n| --- | ---: | ---: | ---: | ---: | ---: |"
    )
    print("\n".join(rows))


if __name__ == "__main__":
    main()
