"""The Grafana dashboard and the alert rules name only metrics and labels of the catalogue, and nothing is stale."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tools import dashboard
from webhookhub.stats import catalogue

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "deploy" / "prometheus" / "rules.yaml"
KNOWN = {metric.name: metric for metric in catalogue.ALL}
SELECTOR = re.compile(r"(webhookhub_\w+)(?:\{([^}]*)\})?")
GROUPING = re.compile(r"\bby \(([^)]*)\)")
# Added by Prometheus, not by the hub.
ADDED = {"job"}


def rules() -> list[dict[str, Any]]:
    [group] = yaml.safe_load(RULES.read_text())["groups"]
    return list(group["rules"])


def expressions() -> list[str]:
    panels = json.loads(dashboard.FILE.read_text())["panels"]
    shown = [target["expr"] for panel in panels for target in panel.get("targets", [])]
    return [*shown, *(rule["expr"] for rule in rules())]


def unknown(expression: str) -> set[str]:
    """Metrics and labels of a PromQL expression that the catalogue does not have."""
    found, labels = set[str](), set[str]()
    for name, selector in SELECTOR.findall(expression):
        metric = KNOWN.get(re.sub("_seconds_(bucket|sum|count)$", "_seconds", name))
        if metric is None or (name != metric.name) != (metric.kind == catalogue.HISTOGRAM):
            found.add(name)
            continue
        own = {*metric.labels, *ADDED, *({"le"} if name.endswith("_bucket") else ())}
        found |= set(re.findall(r'(\w+)\s*[!=]~?"', selector or "")) - own
        labels |= own
    grouped = {label.strip() for group in GROUPING.findall(expression) for label in group.split(",") if label.strip()}
    return found | (grouped - labels)


@pytest.mark.requirement("R5-5e", "R5-5h")
def test_dashboard_and_rules_use_existing_metrics_and_labels():
    used = [each for each in expressions() if SELECTOR.search(each)]

    assert len(used) >= len(KNOWN) + 8
    assert {each: unknown(each) for each in used if unknown(each)} == {}


@pytest.mark.parametrize(
    "expression",
    [
        "webhookhub_nothing > 1",
        'webhookhub_jobs{state="Pending"}',
        "sum by (kind) (webhookhub_jobs)",
        "rate(webhookhub_delivery_latency_seconds[5m])",
        "rate(webhookhub_jobs_bucket[5m])",
    ],
)
def test_an_unknown_metric_or_label_is_found(expression: str):
    assert unknown(expression)


def test_the_dashboard_is_current():
    assert dashboard.FILE.read_text() == dashboard.text(), "run `python -m tools.dashboard`"


def test_the_dashboard_shows_every_metric_once():
    panels = [each for each in json.loads(dashboard.FILE.read_text())["panels"] if each["type"] != "row"]

    assert sorted(panel["description"] for panel in panels) == sorted(metric.help for metric in catalogue.ALL)
    places = [tuple(panel["gridPos"].values()) for panel in panels]
    assert len(set(places)) == len(places)


def test_each_rule_says_how_urgent_it_is_and_what_is_wrong():
    for rule in rules():
        assert rule["labels"]["severity"] in ("page", "ticket"), rule["alert"]
        assert rule["annotations"]["summary"].endswith("."), rule["alert"]


def test_the_autoscaler_counts_a_metric_that_the_adapter_offers():
    chart = yaml.safe_load((ROOT / "deploy" / "helm" / "webhookhub" / "values.yaml").read_text())
    [rule] = yaml.safe_load((ROOT / "deploy" / "prometheus" / "adapter.yaml").read_text())["externalRules"]

    assert chart["autoscaling"]["metric"] == rule["name"]["as"]
    assert unknown(rule["seriesQuery"]) == unknown(rule["metricsQuery"].replace("<<.LabelMatchers>>", "")) == set()
