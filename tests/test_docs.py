"""The documentation names what there is."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

from sagas import transitions
from webhookhub.conf import OTHER_NAMES, HubSettings, variable
from webhookhub.egress.errors import MEANING
from webhookhub.integrity.checks import ALL
from webhookhub.stats import catalogue

ROOT = Path(__file__).resolve().parent.parent
OPERATIONS = (ROOT / "docs" / "operations.md").read_text()


def test_every_setting_is_documented_and_every_documented_one_exists():
    documented = set(re.findall(r"^\| `(WEBHOOKHUB_\w+)`", OPERATIONS, re.MULTILINE))
    assert documented == {variable(item.name) for item in fields(HubSettings)} | OTHER_NAMES


def test_every_error_code_is_documented_with_its_meaning():
    section = OPERATIONS.partition("## Error codes\n")[2]
    documented = dict(re.findall(r"^\| `([a-z_]+)` \| (.+) \|$", section, re.MULTILINE))
    assert documented == MEANING


def test_every_check_of_the_audit_is_documented_with_its_invariant():
    section = OPERATIONS.partition("## Audit\n")[2].partition("\n## ")[0]
    documented = re.findall(r"^\| `([a-z-]+)` \| (.+) \|$", section, re.MULTILINE)
    assert documented == [(check.name, check.invariant + (" (warning)" if check.is_warning else "")) for check in ALL]


def test_every_metric_is_documented_with_kind_labels_and_meaning():
    section = OPERATIONS.partition("## Probes and metrics\n")[2].partition("\n## ")[0]
    documented = re.findall(r"^\| `(webhookhub_\w+)` \| (\w+) \| (.+) \| (.+) \|$", section, re.MULTILINE)
    assert documented == [
        (metric.name, metric.kind, ", ".join(f"`{label}`" for label in metric.labels) or "–", metric.help)
        for metric in catalogue.ALL
    ]


def test_the_alert_rules_ask_only_for_metrics_and_labels_that_exist():
    rules = OPERATIONS.partition("groups:\n")[2].partition("```")[0]
    known = {metric.name: metric for metric in catalogue.ALL}
    asked = re.findall(r"(webhookhub_\w+)(?:\{(\w+)[!=])?", rules)
    assert len(asked) >= 8
    for name, label in asked:
        metric = known[name.removesuffix("_bucket")]
        assert name.endswith("_bucket") == (metric.kind == catalogue.HISTOGRAM)
        assert not label or label in metric.labels


def test_the_diagram_of_states_is_the_table_of_transitions():
    assert transitions.diagram() in (ROOT / "docs" / "architecture.md").read_text()


def test_every_page_linked_from_another_exists():
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
