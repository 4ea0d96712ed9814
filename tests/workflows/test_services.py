"""Facts recorded by services and operators."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from events.intake import publish
from events.models import Event
from tests.workflows.support import catch_up, differences, facts, instance, published, tracked
from webhookhub.auditlog.models import Entry
from workflows import services
from workflows.models import Fact, Instance, WorkflowTouched
from workflows.services import InvalidFact, KeyConflict
from workflows.timeline import timeline

pytestmark = pytest.mark.django_db


@pytest.fixture
def started() -> Instance:
    tracked()
    services.start("order_submission", "k-1", idempotency_key="s", actor="shop", aggregate_id="o-7")
    catch_up()
    return instance("k-1")


@pytest.mark.requirement("R5-3.2e", "R5-3.2f")
def test_a_run_can_be_reported_from_start_to_end(started: Instance):
    assert (started.status, started.current_step, started.aggregate_id) == ("IN_PROGRESS", "order", "o-7")
    for step in ("order", "inventory", "payment"):
        services.report(started, "done", step, idempotency_key=step, actor="shop")
    catch_up()
    assert instance("k-1").current_step == "shipping"

    services.report(started, "completed", idempotency_key="c", actor="shop")
    catch_up()

    assert instance("k-1").status == "COMPLETED"
    assert published("k-1") == [("saga.completed", None)]


@pytest.mark.requirement("R5-3.2j")
def test_failure_and_compensation_can_be_reported(started: Instance):
    services.report(started, "done", "order", idempotency_key="1", actor="shop")
    services.report(started, "failed", idempotency_key="2", actor="shop", error="no stock")
    catch_up()
    assert (instance("k-1").status, instance("k-1").error_message) == ("COMPENSATING", "no stock")

    services.report(started, "compensated", idempotency_key="3", actor="shop")
    catch_up()
    assert instance("k-1").status == "COMPENSATED"


def test_control_characters_are_removed_from_reported_errors(started: Instance):
    hostile = " the \x1b[31mcard\u202e\nwas declined\x00"
    services.report(started, "done", "order", idempotency_key="1", actor="shop")
    services.report(started, "failed", "payment", idempotency_key="2", actor="shop", error=hostile)
    recorded = [
        services.report(started, "compensation_failed", "order", idempotency_key="3", actor="shop", error=hostile)
        for _ in range(2)
    ]
    catch_up()

    expected = "the  [31mcard  was declined"
    assert [fact.created for fact in recorded] == [True, False]
    assert Fact.objects.get(pk=recorded[0].fact_id).detail == expected
    assert expected in instance("k-1").error_message
    assert instance("k-1").error_message.isprintable()
    for event in Event.objects.filter(source="hub"):
        assert all(str(value).isprintable() for value in json.loads(event.payload).values())


def test_a_success_after_reported_compensation_is_compensated(started: Instance):
    for step in ("order", "inventory"):
        services.report(started, "done", step, idempotency_key=step, actor="shop")
    services.report(started, "failed", idempotency_key="f", actor="shop")
    catch_up()
    services.report(started, "compensated", idempotency_key="all", actor="shop")
    catch_up()
    assert instance("k-1").status == "COMPENSATED"

    publish("payment.processed", {"order_id": "o-7"}, correlation_id="k-1")
    catch_up()

    run = instance("k-1")
    assert published("k-1")[-1] == ("saga.compensation_requested", "payment")
    assert json.loads(run.steps)["payment"] == "compensating"
    assert (run.status, run.needs_operator) == ("COMPENSATED", True)
    assert differences() == []


def test_the_same_key_is_the_same_fact(started: Instance):
    first = services.report(started, "done", "order", idempotency_key="1", actor="shop")
    again = services.report(started, "done", "order", idempotency_key="1", actor="shop")

    assert (first.created, again.created) == (True, False)
    assert first.fact_id == again.fact_id
    restarted = services.start("order_submission", "k-1", idempotency_key="s", actor="shop", aggregate_id="o-7")
    assert not restarted.created
    assert restarted.instance.pk == started.pk


def test_a_key_conflict_changes_nothing(started: Instance):
    services.report(started, "failed", "order", idempotency_key="1", actor="shop", error="no stock")
    services.act(started, "closed", idempotency_key="2", actor="olga", reason="done by hand")
    before = list(Fact.objects.order_by("id").values())
    others: list[Callable[[], object]] = [
        lambda: services.report(started, "done", "order", idempotency_key="1", actor="shop"),
        lambda: services.report(started, "failed", "payment", idempotency_key="1", actor="shop", error="no stock"),
        lambda: services.report(started, "failed", "order", idempotency_key="1", actor="shop", error="no money"),
        lambda: services.report(started, "failed", "order", idempotency_key="1", actor="shop"),
        lambda: services.act(started, "closed", idempotency_key="2", actor="olga", reason="done by somebody"),
        lambda: services.start("order_submission", "k-1", idempotency_key="s", actor="shop", aggregate_id="o-8"),
        lambda: services.start("order_submission", "k-1", idempotency_key="s", actor="shop"),
    ]
    for other in others:
        with pytest.raises(KeyConflict, match="belongs to another fact"):
            other()

    assert list(Fact.objects.order_by("id").values()) == before


def test_a_reported_fact_waits_for_a_tracker(started: Instance):
    services.report(started, "done", "order", idempotency_key="1", actor="shop")

    assert WorkflowTouched.objects.filter(instance_id=started.pk).count() == 1
    assert instance("k-1").version == started.version


@pytest.mark.parametrize(
    ("role", "step", "key", "field"),
    [
        ("closed", "", "k", "role"),
        ("done", "", "k", "step"),
        ("done", "nowhere", "k", "step"),
        ("completed", "order", "k", "step"),
        ("done", "order", "", "idempotency_key"),
        ("done", "order", " k", "idempotency_key"),
        ("done", "order", "k" * 201, "idempotency_key"),
    ],
)
def test_an_invalid_report_names_the_field(started: Instance, role: str, step: str, key: str, field: str):
    before = Fact.objects.count()

    with pytest.raises(InvalidFact) as raised:
        services.report(started, role, step, idempotency_key=key, actor="shop")

    assert raised.value.field == field
    assert Fact.objects.count() == before


def test_an_unknown_workflow_cannot_be_started():
    with pytest.raises(InvalidFact, match="'nothing' is not a workflow; the workflows are customer_registration"):
        services.start("nothing", "k", idempotency_key="k", actor="a")


def test_an_action_stores_actor_and_reason(started: Instance):
    with pytest.raises(InvalidFact) as raised:
        services.act(started, "closed", idempotency_key="k", actor="olga", reason="")
    assert raised.value.field == "reason"

    services.act(started, "retried", "order", idempotency_key="r", actor="olga", reason="receiver was down")
    services.act(started, "closed", idempotency_key="k", actor="olga", reason="done by hand")
    catch_up()

    run = instance("k-1")
    assert (run.status, run.by_hand, run.error_message) == ("FAILED", True, "done by hand")
    assert facts("k-1")[:3] == [("", "started"), ("order", "retried"), ("", "closed")]
    entry = next(entry for entry in timeline(run) if entry.fact.role == "closed")
    assert (entry.fact.actor, entry.fact.reason) == ("olga", "done by hand")


def test_an_action_is_in_the_audit_log_once(started: Instance):
    for _ in range(2):
        services.act(started, "closed", idempotency_key="k", actor="olga", reason="done by hand")
    with pytest.raises(KeyConflict):
        services.act(started, "closed", idempotency_key="k", actor="olga", reason="another")

    assert list(Entry.objects.filter(actor="olga").values_list("reason", flat=True)) == ["done by hand"]


def test_compensation_may_be_reported_while_the_failure_is_in_the_inbox(started: Instance):
    publish("payment.failed", {"order_id": "o-1"}, correlation_id="k-1")

    services.report(started, "compensated", idempotency_key="all", actor="shop")
    catch_up()

    assert instance("k-1").status == "COMPENSATED"
    assert instance("k-1").anomaly == ""


@pytest.mark.parametrize(("key", "actor"), [(" x", "shop"), ("k", "")])
def test_a_refused_start_creates_no_run(key: str, actor: str):
    tracked()
    with pytest.raises(InvalidFact):
        services.start("order_submission", "ghost", idempotency_key=key, actor=actor)
    assert not Instance.objects.exists()
