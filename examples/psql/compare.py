"""Ask a store and a database the same questions with psql, and print answers and times as a table.

python compare.py questions.sql "STORE'S DSN" "DATABASE'S DSN"
"""

import re
import subprocess
import sys
from pathlib import Path


def asked(dsn: str, question: str) -> tuple[str, str, str]:
    """Return the answer of one question, its interval if it has one, and how long psql waited for it."""
    command = ["psql", "-X", "-At", "-v", "ON_ERROR_STOP=1", dsn, "-c", "\\timing on", "-c", question]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our questions
    if done.returncode:
        sys.exit(f"{question}\n{done.stderr}")
    *_, answer, time = done.stdout.strip().split("\n")
    interval = re.search(r"\[(.*?) \.\. (.*?)\]", done.stderr)
    said = "not carried" if "not carried" in done.stderr else "exact"
    return number(answer), f"{interval[1]} to {interval[2]}" if interval else said, time.split()[1]


def number(text: str) -> str:
    """Return a number as people read it."""
    value = float(text)
    return f"{value:,.2f}" if value % 1 else f"{value:,.0f}"


def main() -> None:
    """Print the table."""
    questions, store, database = sys.argv[1:]
    print("| question | store | interval | ms | database | ms |\n| --- | ---: | --- | ---: | ---: | ---: |")
    for question in Path(questions).read_text().splitlines():
        value, interval, took = asked(store, question)
        exact, _, exact_took = asked(database, question)
        print(
            f"| `{question}` | {value} | {interval} | {float(took):,.0f} | {exact} | {float(exact_took):,.0f} |"
        )


if __name__ == "__main__":
    main()
