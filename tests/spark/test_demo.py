"""`eddyline demo --live`: a real run, its page in a real browser, estimates next to the exact answers.

EDDYLINE_SCREENSHOT=docs/images/live-page.png writes the picture that the README shows.
"""

import os
import re
import signal
import subprocess
import sys

import duckdb
import httpx
import pytest

from eddyline.spark.demo import LIVE_QUERIES, LiveStreams
from tests.serve.browser import Page, browser, needs_chromium
from tests.serve.waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.processes, pytest.mark.timeout(400)]
NET = {
    "orders": "SUM(CASE WHEN _change_type IN ('insert', 'update_postimage') THEN 1 ELSE -1 END)",
    "visits": "SUM(weight)",
}


def test_the_exact_answers_of_the_demo_are_those_of_duckdb(tmp_path):
    streams = LiveStreams(tmp_path)
    for rows in (3_000, 2_000, 2_500):
        streams.write(rows)
    database = duckdb.connect()
    for name, net in NET.items():
        dropped = "_change_type" if name == "orders" else "weight"
        database.sql(
            f"CREATE TABLE {name} AS SELECT * EXCLUDE (net) FROM (SELECT * EXCLUDE ({dropped}), {net} AS net "
            f"FROM '{tmp_path}/{name}/*.parquet' GROUP BY ALL) WHERE net > 0"
        )
    exact = streams.exact(streams._rows)
    for name, value in exact.items():
        ((expected,),) = database.sql(LIVE_QUERIES[name]).fetchall()
        assert value == pytest.approx(float(expected), rel=1e-12), name
    assert set(LIVE_QUERIES) - set(exact) == {"visits_by_region"}
    assert streams.exact({"orders": 1, "visits": 2}) == {}


@pytest.fixture
def demo(tmp_path):
    """The address of a live demo that runs as a process of its own."""
    process = subprocess.Popen(
        [sys.executable, "-m", "eddyline.cli", "demo", "--live", "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    try:
        line = process.stdout.readline()
        yield re.search(r"http://\S+", line)[0]
    finally:
        process.send_signal(signal.SIGTERM)
        _, shown = process.communicate(timeout=120)
    assert process.returncode == 0, shown
    assert "Traceback" not in shown
    assert "WARN" not in shown  # the JVM's own words are in a file
    assert list(tmp_path.glob("tmp*")) == []


@needs_chromium
def test_a_person_watches_estimates_follow_the_exact_answers(demo):
    with browser() as opened, httpx.Client(base_url=demo, timeout=30) as client:
        page = Page(opened, demo, height=1000)
        page.page.wait_for_selector("#queries .truth", timeout=240_000)

        def epoch():
            return client.get("api/v1/freshness").json()["freshness"]["epoch"]

        start, band = epoch(), None
        until(lambda: epoch() >= start + 12, 120)
        band = page.card("visits_by_buyers").locator("path.line").get_attribute("d")
        until(lambda: epoch() >= start + 24, 120)
        assert page.card("visits_by_buyers").locator("path.line").get_attribute("d") != band
        assert page.page.locator("#status").inner_text().startswith("Running")
        points = client.get("api/v1/history").json()
        seen = inside = 0
        for series in points.values():
            for _, _, _, low, high, exact in series:
                if exact is not None:
                    seen += 1
                    inside += low - 1e-6 * abs(low) <= exact <= high + 1e-6 * abs(high)
        assert seen >= 100
        assert inside >= 0.8 * seen  # of one seed, whose points are much alike; intervals hold 95% over many
        if where := os.environ.get("EDDYLINE_SCREENSHOT"):
            until(lambda: epoch() >= start + 120, 200)
            page.page.wait_for_timeout(1500)
            page.page.screenshot(path=where)
        assert page.is_clean(), (page.errors, page.elsewhere)
