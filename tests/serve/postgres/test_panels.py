"""The examples for Grafana and Superset ask what the server answers, and name the columns that it returns."""

import json
from pathlib import Path

import psycopg
import pytest
import yaml

EXAMPLES = Path(__file__).parents[3] / "examples"
GRAFANA = json.loads((EXAMPLES / "grafana" / "postgresql.json").read_text())
BETWEEN = "BETWEEN '2024-02-27T00:00:00Z' AND '2024-03-01T12:00:00Z'"
"""What Grafana writes for $__timeFilter, after the column."""


def asked(dsn, text):
    with psycopg.connect(dsn, autocommit=True) as connection:
        found = connection.execute(text)
        return [column.name for column in found.description], found.fetchall()


@pytest.mark.parametrize("panel", GRAFANA["panels"], ids=lambda panel: panel["title"])
def test_panels_of_grafana_show_intervals(panel, dsn):
    (target,) = panel["targets"]
    text = target["rawSql"].replace("$__timeFilter(day)", f"day {BETWEEN}")
    names, rows = asked(dsn, text)
    assert rows
    for _, value, low, high, *_ in rows:
        assert low <= value <= high
    overridden = {each["matcher"]["options"] for each in panel["fieldConfig"]["overrides"]}
    filled = {
        of["value"]
        for each in panel["fieldConfig"]["overrides"]
        for of in each["properties"]
        if of["id"] == "custom.fillBelowTo"
    }
    assert overridden | filled <= set(names)
    if panel["type"] == "timeseries":
        assert (names[0], filled) == ("time", {"low"})


def test_the_chart_of_superset_reads_columns_of_the_view(dsn):
    """Superset draws a band between the metrics NAME__yhat_lower and NAME__yhat_upper."""
    (chart,) = (EXAMPLES / "superset").glob("charts/*.yaml")
    params = yaml.safe_load(chart.read_text())["params"]
    metrics = {each["label"]: each["column"]["column_name"] for each in params["metrics"]}
    assert metrics == {"n": "n", "n__yhat_lower": "n_low", "n__yhat_upper": "n_high"}
    (dataset,) = (EXAMPLES / "superset").glob("datasets/*/*.yaml")
    shown = yaml.safe_load(dataset.read_text())
    names, _ = asked(dsn, f"SELECT * FROM {shown['schema']}.{shown['table_name']}")
    assert {each["column_name"] for each in shown["columns"]} == set(names)
    assert params["x_axis"] in names
