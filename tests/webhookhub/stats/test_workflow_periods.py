"""Stats of workflows by the hour: each run is counted once, and old hours are deleted."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from events.intake import publish
from tests.workflows import shop
from tests.workflows.support import catch_up, tracked
from webhookhub.db import clock
from webhookhub.stats import counters, workflow_periods
from webhookhub.stats.models import WorkflowPeriod
from webhookhub.stats.rollup import roll_up
from webhookhub.stats.workflow_periods import WorkflowSummary
from workflows import services

pytestmark = [pytest.mark.django_db, pytest.mark.every_engine]
HOUR = timedelta(hours=1)


def last_hours(count: int = 2) -> dict[str, WorkflowSummary]:
    until = clock.now().replace(minute=0, second=0, microsecond=0) + HOUR
    [(_, summaries)] = workflow_periods.series(until - count * HOUR, until, count * HOUR)
    return summaries


def test_runs_are_counted_by_workflow():
    shop.completed("k-1")
    shop.order("k-2", *shop.DONE[:2], "payment.failed", "inventory.released", "order.failed")
    services.act(shop.failed("k-3"), "closed", idempotency_key="c", actor="olga", reason="r")
    publish("customer.registered", {}, correlation_id="c-1")
    catch_up()

    found = last_hours()
    order = found["order_submission"]
    assert (order.started, order.completed, order.compensated, order.failed, order.ended) == (3, 1, 1, 1, 3)
    assert (order.compensations, order.by_hand, order.detections, order.detected_late) == (2, 1, 2, 0)
    assert order.duration_us == counters.read()[counters.WORKFLOW_DURATION_SUM, "order_submission"]
    assert order.detection_us == counters.read()[counters.WORKFLOW_DETECTION_SUM, "order_submission"]
    assert (found["customer_registration"].started, found["customer_registration"].ended) == (1, 0)
    assert sum(found.values(), WorkflowSummary()).started == 4


def test_a_failure_detected_after_more_than_a_minute_is_late():
    counts = {(counters.WORKFLOW_DETECTIONS, f"trip/{label}"): 1 for label in ("0.1", "60", "300", counters.MORE)}
    workflow_periods.add(counts, clock.now())

    assert (last_hours()["trip"].detections, last_hours()["trip"].detected_late) == (4, 2)


def test_an_hour_belongs_to_the_step_that_it_begins_in():
    now = clock.now().replace(minute=0, second=0, microsecond=0)
    for hours in (1, 2, 5):
        workflow_periods.add({(counters.WORKFLOWS_STARTED, "trip"): hours}, now - hours * HOUR)

    found = workflow_periods.series(now - 6 * HOUR, now, 3 * HOUR)
    started = [(at, sum(summary.started for summary in by_name.values())) for at, by_name in found]
    assert started == [(now - 6 * HOUR, 5), (now - 3 * HOUR, 3)]


def test_old_hours_are_deleted(hub_settings: Any):
    hub_settings(stats_by_hour=timedelta(days=2))
    now = clock.now()
    for days in (0, 1, 3, 4):
        workflow_periods.add({(counters.WORKFLOWS_STARTED, "trip"): 1}, now - timedelta(days=days))

    while roll_up(100):
        pass

    assert WorkflowPeriod.objects.count() == 2


def test_repeated_work_is_not_counted_again():
    tracker = tracked()
    shop.completed("k-1")
    before = last_hours()
    publish("order.confirmed", {}, correlation_id="k-1")
    tracker.track(500)

    assert last_hours() == before
