"""docs/how-to/monitor.md lists every metric of /metrics, and no other."""

import re
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "monitor.md"


def test_every_metric_is_on_the_page_and_every_row_is_a_metric(compared):
    served = {family.name for family in text_string_to_metric_families(compared.get("metrics").text)}
    listed = re.findall(r"^\| `(eddyline_\w+)` \|", PAGE.read_text(), re.MULTILINE)
    assert len(listed) == len(set(listed))
    assert set(listed) == served - {"eddyline_answer_seconds_created"}  # a sample of the histogram


def test_every_metric_has_a_rule_or_the_reason_why_it_has_none():
    rows = re.findall(r"^\| `(eddyline_\w+)` \|[^|]*\| (.*) \|$", PAGE.read_text(), re.MULTILINE)
    assert len(rows) >= 20
    for name, rule in rows:
        assert re.match(rf"`[^`]*{name}[^`]*[<>=]", rule) or re.match(r"none: \w+", rule), (name, rule)
