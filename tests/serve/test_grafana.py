"""The examples for Prometheus and Grafana name metrics and labels that the server has."""

import json
import re
from pathlib import Path

import yaml

EXAMPLES = Path(__file__).parents[2] / "examples" / "grafana"
NAME = re.compile(r"\beddyline_[a-z_]+\b")


def test_every_metric_of_the_examples_is_served(compared):
    served = set(NAME.findall(compared.get("metrics").text))
    dashboard = json.loads((EXAMPLES / "dashboard.json").read_text())
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    asked += [
        rule["expr"]
        for group in yaml.safe_load((EXAMPLES / "alerts.yml").read_text())["groups"]
        for rule in group["rules"]
    ]
    named = {name for expression in asked for name in NAME.findall(expression)}
    assert len(named) >= 8
    assert named <= served
    labels = set(re.findall(r"\b(\w+)=\"", compared.get("metrics").text))
    assert {name for expression in asked for name in re.findall(r"(\w+)!?=\"", expression)} <= labels


def test_prometheus_is_told_where_the_metrics_are():
    shown = yaml.safe_load((EXAMPLES / "prometheus.yml").read_text())["scrape_configs"][0]
    assert shown["metrics_path"] == "/metrics"
    assert shown["static_configs"][0]["targets"] == ["127.0.0.1:8321"]
