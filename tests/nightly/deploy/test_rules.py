"""The alert rules as Prometheus reads them, and the metrics of a real hub."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tools import dashboard

RULES = Path(__file__).resolve().parents[3] / "deploy" / "prometheus" / "rules.yaml"
pytestmark = pytest.mark.skipif(not shutil.which("promtool"), reason="needs promtool (Debian: prometheus)")
SECONDS_LATE = """
rule_files: [{rules}]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - series: 'webhookhub_oldest_ready_seconds{{job="webhookhub", work="attempts"}}'
        values: "0+60x20"
    alert_rule_test:
      - {{eval_time: 3m, alertname: WorkNotTaken, exp_alerts: []}}
      - eval_time: 6m
        alertname: WorkNotTaken
        exp_alerts:
          - exp_labels: {{job: webhookhub, work: attempts, severity: page}}
            exp_annotations:
              summary: "Work (attempts) has been ready for 6m 0s and no loop has taken it."
"""


def promtool(*arguments: str) -> None:
    result = subprocess.run(["promtool", *arguments], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


def test_rules_are_valid():
    promtool("check", "rules", "--lint=all", "--lint-fatal", str(RULES))


def test_an_alert_fires_with_its_sentence(tmp_path: Path):
    (tmp_path / "test.yaml").write_text(SECONDS_LATE.format(rules=RULES))

    promtool("test", "rules", str(tmp_path / "test.yaml"))


def test_queries_of_the_dashboard_are_valid(tmp_path: Path):
    """As recording rules, which promtool can read."""
    panels = json.loads(dashboard.FILE.read_text())["panels"]
    queries = [target["expr"] for panel in panels for target in panel.get("targets", [])]
    filled = [re.sub(r"\$__rate_interval", "5m", query).replace("$job", ".*") for query in queries]
    rules = [{"record": f"query:{number}", "expr": query} for number, query in enumerate(filled)]
    file = tmp_path / "queries.yaml"
    file.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))

    promtool("check", "rules", str(file))
