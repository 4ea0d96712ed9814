"""What the metrics say, read as Prometheus reads it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
from prometheus_client.parser import text_string_to_metric_families

from deadletters.models import DeadLetter
from deadletters.requeue import requeue
from jobs.cleaner import clean
from jobs.report import report
from sagas.dispatch import dispatch
from sagas.models import Saga
from tests.conformance import world
from tests.webhookhub.stats.test_probes import beat
from tests.workflows import shop
from tests.workflows.lives import DEFINITIONS
from tests.workflows.support import catch_up, instance, tell, told_before, tracked
from webhookhub.conf import KINDS
from webhookhub.db import clock
from webhookhub.stats import catalogue, open_work, prometheus
from workflows import services

pytestmark = pytest.mark.django_db
Samples = dict[str, dict[tuple[str, ...], float]]

ORDER = next(each for each in DEFINITIONS if each.name == "order_submission")


def scrape() -> Samples:
    """Sample name → values of its labels → value."""
    found: Samples = {}
    for family in text_string_to_metric_families(prometheus.text().decode()):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
    return found


def families() -> Iterator[tuple[str, str, str]]:
    for family in text_string_to_metric_families(prometheus.text().decode()):
        suffix = "_total" if family.type == "counter" else ""
        yield f"{family.name}{suffix}", family.type, family.documentation


def test_exactly_the_metrics_of_the_catalogue_are_shown_with_kind_and_help():
    assert set(families()) == {(metric.name, metric.kind, metric.help) for metric in catalogue.ALL}


def test_names_and_helps_follow_the_conventions():
    for metric in catalogue.ALL:
        assert metric.name.startswith("webhookhub_"), metric
        assert metric.name.endswith("_total") == (metric.kind == catalogue.COUNTER), metric
        assert (metric.kind == catalogue.HISTOGRAM) <= metric.name.endswith("_seconds"), metric
        assert metric.help.endswith("."), metric
        assert not {"le", "quantile", "job", "instance"} & set(metric.labels), metric


def test_a_hub_without_events_shows_zeros():
    found = scrape()
    assert found["webhookhub_events_routed_total"] == {("matched",): 0, ("unmatched",): 0}
    assert found["webhookhub_deliveries_ended_total"] == {("Completed",): 0, ("DeadLettered",): 0}
    assert found["webhookhub_deliveries"] == {("Pending",): 0, ("InProgress",): 0, ("PendingRetry",): 0}
    assert found["webhookhub_processes"] == {(kind,): 0 for kind in KINDS}
    assert set(found["webhookhub_oldest_ready_seconds"].values()) == {0}
    assert found["webhookhub_delivery_latency_seconds_count"] == {(): 0}


@pytest.mark.requirement("R5-5e")
def test_workflow_metrics_from_the_first_event_to_the_end():
    tracked()
    for number, step in enumerate(("order", "order", "inventory")):
        tell(ORDER, (step, "done"), f"k-{min(number, 1)}")
    assert scrape()["webhookhub_workflow_events_waiting"] == {(): 3}
    catch_up()
    tell(ORDER, ("payment", "failed"), "k-1")
    catch_up()
    told_before(ORDER, ("order", "done"), "k-2", timedelta(hours=1))
    catch_up()

    found = scrape()
    assert found["webhookhub_workflow_events_total"] == {(): 5}
    assert found["webhookhub_workflows_started_total"] == {("order_submission",): 3}
    assert found["webhookhub_workflows"] == {("IN_PROGRESS",): 2, ("COMPENSATING",): 1}
    assert found["webhookhub_workflows_overdue"] == {(): 1}
    for step in ("order", "inventory"):
        tell(ORDER, (step, "compensated"), "k-1")
    catch_up()
    assert scrape()["webhookhub_workflows_ended_total"] == {("COMPENSATED", "order_submission"): 1}
    assert scrape()["webhookhub_workflows_need_operator"] == {(): 0}


@pytest.mark.requirement("R5-5e", "R5-7a", "R5-7b", "R5-7c", "R5-7d", "R5-7e")
def test_the_targets_of_the_adr_can_be_read_from_the_metrics():
    shop.completed("k-1")
    shop.order("k-2", *shop.DONE[:2], "payment.failed", "inventory.released", "order.failed")
    services.act(shop.failed("k-3"), "closed", idempotency_key="c", actor="olga", reason="r")
    catch_up()

    found, order = scrape(), "order_submission"
    assert found["webhookhub_workflow_compensations_total"] == {("succeeded", order): 1, ("failed", order): 1}
    assert found["webhookhub_workflows_by_hand_total"] == {(order,): 1}
    assert found["webhookhub_workflow_duration_seconds_count"] == {(order,): 1}
    assert found["webhookhub_workflow_detection_seconds_count"] == {(order,): 2}
    assert found["webhookhub_workflow_detection_seconds_bucket"]["60", order] == 2
    assert 0 < found["webhookhub_workflow_detection_seconds_sum"][order,] < 60
    run = instance("k-1")
    assert run.completed_at is not None
    seconds = (run.completed_at - run.started_at).total_seconds()
    assert found["webhookhub_workflow_duration_seconds_sum"][order,] == pytest.approx(seconds)


def test_a_workflow_that_has_run_shows_zeros():
    shop.waiting_for_payment("k-1")

    found = scrape()
    assert found["webhookhub_workflows_by_hand_total"] == {("order_submission",): 0}
    assert set(found["webhookhub_workflow_detection_seconds_bucket"].values()) == {0}


def test_delivery_metrics_from_the_event_to_the_end():
    world.subscribe("ok", "retry", "dead")
    world.publish_some("a", "b")
    assert scrape()["webhookhub_events_waiting"] == {(): 2}
    world.route()
    assert scrape()["webhookhub_deliveries"] == {("Pending",): 6, ("InProgress",): 0, ("PendingRetry",): 0}
    assert scrape()["webhookhub_deliveries_due"] == {("Pending",): 6, ("PendingRetry",): 0}
    dispatch(world.BATCH)
    assert scrape()["webhookhub_jobs"] == {("Pending",): 6, ("Leased",): 0, ("Unsettled",): 0}
    jobs = world.take()
    assert scrape()["webhookhub_jobs"] == {("Pending",): 0, ("Leased",): 6, ("Unsettled",): 0}
    report(world.WORKER, world.reports(jobs))
    assert scrape()["webhookhub_jobs"] == {("Pending",): 0, ("Leased",): 0, ("Unsettled",): 6}
    world.settle()

    found = scrape()
    assert found["webhookhub_deliveries"] == {("Pending",): 0, ("InProgress",): 0, ("PendingRetry",): 2}
    assert found["webhookhub_events_routed_total"] == {("matched",): 2, ("unmatched",): 0}
    assert found["webhookhub_deliveries_created_total"] == {("routed",): 6, ("requeued",): 0, ("sent_again",): 0}
    assert found["webhookhub_deliveries_ended_total"] == {("Completed",): 2, ("DeadLettered",): 2}
    assert found["webhookhub_attempts_total"] == {
        ("", "completed"): 2,  # in the order of the labels: error_code, outcome
        ("http_500", "retried"): 2,
        ("http_500", "dead_lettered"): 2,
    }
    assert found["webhookhub_attempt_duration_seconds_count"] == {(): 6}
    assert found["webhookhub_attempt_duration_seconds_sum"] == {(): 0.006}
    assert found["webhookhub_attempt_duration_seconds_bucket"][("0.01",)] == 6
    assert found["webhookhub_attempt_duration_seconds_bucket"][("+Inf",)] == 6
    assert found["webhookhub_delivery_latency_seconds_count"] == {(): 2}
    assert found["webhookhub_delivery_latency_seconds_bucket"][("86400",)] == 2

    assert found["webhookhub_dead_letters"] == {(): 2}
    letter = DeadLetter.objects.earliest("id")
    requeue([letter.id], by=world.Staff(), reason="again")
    assert scrape()["webhookhub_dead_letters"] == {(): 1}


def test_late_deliveries_are_distinguished_from_due_ones():
    world.subscribe("ok")
    world.publish_some("a", "b", "c")
    world.route()
    late, due, _ = Saga.objects.order_by("id")
    now = clock.now()
    Saga.objects.update(next_attempt_at=now + timedelta(hours=1))
    Saga.objects.filter(id=late.id).update(next_attempt_at=now - timedelta(seconds=300))
    Saga.objects.filter(id=due.id).update(next_attempt_at=now - timedelta(seconds=5))

    found = scrape()
    assert found["webhookhub_deliveries_due"] == {("Pending",): 2, ("PendingRetry",): 0}
    assert found["webhookhub_deliveries_past_due"] == {(): 1}
    assert 300 <= found["webhookhub_oldest_ready_seconds"]["deliveries",] < 330


def test_silent_workers_show_first_as_expired_leases_then_as_resets():
    world.subscribe("ok")
    world.publish_some("a", "b")
    world.route()
    dispatch(world.BATCH)
    world.take()
    world.expire_leases()
    assert (scrape()["webhookhub_expired_leases"], scrape()["webhookhub_lease_resets_total"]) == ({(): 2}, {(): 0})
    clean(world.BATCH)
    assert (scrape()["webhookhub_expired_leases"], scrape()["webhookhub_lease_resets_total"]) == ({(): 0}, {(): 2})


def test_processes_are_counted_while_they_send_heartbeats():
    beat("worker")
    beat("worker", timedelta(seconds=10))
    beat("worker", timedelta(seconds=100))
    beat("router", timedelta(seconds=100))
    found = scrape()
    assert found["webhookhub_processes"] == {(kind,): 2 if kind == "worker" else 0 for kind in KINDS}
    ages = found["webhookhub_process_heartbeat_age_seconds"]
    assert set(ages) == {("worker",), ("router",)}
    assert ages["worker",] < 10
    assert 100 <= ages["router",] < 130


def test_counting_stops_at_the_limit(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(open_work, "LIMIT", 3)
    world.publish_some(*"abcde")
    found = scrape()
    assert (found["webhookhub_events_waiting"], found["webhookhub_count_limit"]) == ({(): 3}, {(): 3})
