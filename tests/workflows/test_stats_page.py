"""The page of the ADR's targets over time. It reads counters, and no run."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from events.intake import publish
from tests.workflows import shop
from tests.workflows.support import catch_up
from webhookhub.db import clock
from webhookhub.stats import counters, workflow_periods
from workflows import services

pytestmark = pytest.mark.django_db
PERMISSION = "view_instance"
ORDER = "order_submission"


@pytest.fixture
def watcher(staff: Callable[..., Client]) -> Client:
    return staff("watcher", PERMISSION)


def tables(client: Client, **query: str) -> list[list[list[str]]]:
    """The rows of each table, as the texts of their cells."""
    response = client.get(reverse("admin:workflows_instance_stats"), query)
    assert response.status_code == 200
    bodies = re.findall(r"<tbody>(.*?)</tbody>", response.content.decode(), re.DOTALL)
    rows = [re.findall(r"<tr>(.*?)</tr>", body, re.DOTALL) for body in bodies]
    return [
        [[_text(cell) for cell in re.findall(r"<t[hd].*?</t[hd]>", row, re.DOTALL)] for row in body] for body in rows
    ]


def _text(html: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", "", html).split())


@pytest.mark.requirement("R5-7a", "R5-7b", "R5-7c", "R5-7d", "R5-7e", "R5-5h", "R5-5j")
def test_the_targets_are_shown_for_all_workflows_and_for_each(watcher: Client):
    shop.completed("k-1")
    shop.order("k-2", *shop.DONE[:2], "payment.failed", "inventory.released", "order.failed")
    services.act(shop.failed("k-3"), "closed", idempotency_key="c", actor="olga", reason="r")
    publish("order.cancelled", {"order_id": "o"}, correlation_id="c-1")
    publish("refund.failed", {"order_id": "o"}, correlation_id="c-1")
    publish("order.restored", {"order_id": "o"}, correlation_id="c-1")
    catch_up()

    by_workflow, over_time = tables(watcher)
    rows = {row[0]: row[1:] for row in by_workflow}
    assert list(rows) == ["All workflows", "Customer registration", "Order cancellation", "Order submission"]
    assert rows["Customer registration"] == ["0", "–", "–", "–", "–", "–"]
    assert rows["Order submission"][:3] == ["3", "33.33 %", "50 %"]
    assert rows["Order submission"][5] == "33.33 %"
    assert rows["Order cancellation"][:3] == ["1", "0 %", "100 %"]
    assert rows["All workflows"][:3] == ["4", "25 %", "66.67 %"]
    assert rows["All workflows"][5] == "25 %"
    assert over_time[0][1:] == rows["All workflows"], "the newest first"
    assert len(over_time) == 24
    [_, chosen] = tables(watcher, workflow=ORDER, span="week")
    assert (chosen[0][1:], len(chosen)) == (rows["Order submission"], 28)


def test_means_and_late_detections(watcher: Client):
    counts = {
        (counters.WORKFLOWS_ENDED, f"{ORDER}/COMPLETED"): 4,
        (counters.WORKFLOW_DURATION_SUM, ORDER): 10_000_000,
        (counters.WORKFLOW_DETECTIONS, f"{ORDER}/0.1"): 8,
        (counters.WORKFLOW_DETECTIONS, f"{ORDER}/300"): 2,
        (counters.WORKFLOW_DETECTION_SUM, ORDER): 200_000_000,
    }
    workflow_periods.add(counts, clock.now() - timedelta(days=20))

    assert tables(watcher, span="week")[0][0][1:] == ["0", "–", "–", "–", "–", "–"]
    assert tables(watcher, span="month")[0][0][1:] == ["4", "100 %", "–", "2.5 s", "20 s 2 too late", "0 %"]


def test_the_page_reads_no_run(watcher: Client):
    shop.completed("k-1")
    tables(watcher)

    with CaptureQueriesContext(connection) as captured:
        tables(watcher, span="month")
    assert not [query["sql"] for query in captured if "saga_instances" in query["sql"] or "saga_facts" in query["sql"]]
    assert len(captured) <= 8


def test_a_workflow_without_a_definition_is_shown_by_its_name(watcher: Client):
    workflow_periods.add({(counters.WORKFLOWS_STARTED, "trip"): 1}, clock.now())

    assert "trip" in [row[0] for row in tables(watcher)[0]]
    assert watcher.get(reverse("admin:workflows_instance_stats"), {"workflow": "nonsense"}).status_code == 404
