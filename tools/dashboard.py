"""`python -m tools.dashboard` writes the Grafana dashboard, one panel for each metric of the catalogue."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from webhookhub.stats import catalogue
from webhookhub.stats.catalogue import COUNTER, HISTOGRAM, Metric

FILE = Path(__file__).resolve().parent.parent / "deploy" / "grafana" / "dashboard.json"
PREFIX = "webhookhub_"
SOURCE = {"type": "prometheus", "uid": "${source}"}
QUANTILES = ((0.5, "p50"), (0.95, "p95"), (0.99, "p99"))
COLUMNS, WIDTH, HEIGHT = 3, 8, 8
ROWS = ("Deliveries", "Open work", "Workflows", "Processes")


def row_of(metric: Metric) -> str:
    name = metric.name.removeprefix(PREFIX)
    if name.startswith("workflow"):
        return "Workflows"
    if name.startswith("process") or metric is catalogue.COUNT_LIMIT:
        return "Processes"
    return "Open work" if metric.kind == catalogue.GAUGE else "Deliveries"


def queries(metric: Metric) -> Iterator[tuple[str, str]]:
    """PromQL and legend. Every web process reports the hub's totals: their maximum is the value, not their sum."""
    legend = " ".join(f"{{{{{label}}}}}" for label in metric.labels)
    by = ", ".join(metric.labels)
    if metric.kind == HISTOGRAM:
        groups = ", ".join(("le", *metric.labels))
        for share, name in QUANTILES:
            rate = f'max by ({groups}) (rate({metric.name}_bucket{{job=~"$job"}}[$__rate_interval]))'
            yield f"histogram_quantile({share}, {rate})", f"{name} {legend}".strip()
    elif metric.kind == COUNTER:
        yield f'max by ({by}) (rate({metric.name}{{job=~"$job"}}[$__rate_interval]))', legend or "per second"
    else:
        yield f'max by ({by}) ({metric.name}{{job=~"$job"}})', legend or "now"


def unit(metric: Metric) -> str:
    if metric.kind == COUNTER:
        return "ops"
    return "s" if metric.name.endswith("_seconds") else "short"


def panel(number: int, metric: Metric, x: int, y: int) -> dict[str, Any]:
    targets = [
        {"refId": chr(ord("A") + index), "datasource": SOURCE, "expr": expression, "legendFormat": legend}
        for index, (expression, legend) in enumerate(queries(metric))
    ]
    return {
        "id": number,
        "type": "timeseries",
        "title": title(metric),
        "description": metric.help,
        "datasource": SOURCE,
        "gridPos": {"h": HEIGHT, "w": WIDTH, "x": x, "y": y},
        "fieldConfig": {"defaults": {"unit": unit(metric), "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": targets,
    }


def title(metric: Metric) -> str:
    words = metric.name.removeprefix(PREFIX).removesuffix("_total").removesuffix("_seconds").replace("_", " ")
    return words.capitalize() + (" per second" if metric.kind == COUNTER else "")


def panels(metrics: Iterable[Metric]) -> list[dict[str, Any]]:
    placed: list[dict[str, Any]] = []
    shown, y = list(metrics), 0
    for row in ROWS:
        grid = {"h": 1, "w": COLUMNS * WIDTH, "x": 0, "y": y}
        placed.append({"id": len(placed) + 1, "type": "row", "title": row, "gridPos": grid, "panels": []})
        y += 1
        inside = [metric for metric in shown if row_of(metric) == row]
        for index, metric in enumerate(inside):
            line, column = divmod(index, COLUMNS)
            placed.append(panel(len(placed) + 1, metric, column * WIDTH, y + line * HEIGHT))
        y += -(-len(inside) // COLUMNS) * HEIGHT
    return placed


def dashboard() -> dict[str, Any]:
    job = {
        "name": "job",
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": f"label_values({catalogue.PROCESSES.name}, job)", "refId": "job"},
        "includeAll": True,
        "multi": True,
        "refresh": 1,
    }
    source = {"name": "source", "label": "Data source", "type": "datasource", "query": "prometheus"}
    return {
        "uid": "webhookhub",
        "title": "WebhookHub",
        "tags": ["webhookhub"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [source, job]},
        "panels": panels(catalogue.ALL),
    }


def text() -> str:
    return json.dumps(dashboard(), indent=1) + "\n"


if __name__ == "__main__":
    FILE.write_text(text())
