"""Rows that another program has written by SQL: what nothing can read is set aside with a log line, and stops no loop.
What a run cannot be created with is refused by the database."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import DatabaseError, InterfaceError, OperationalError, connection, transaction
from django.db.models import F

from events import declarations
from events.intake import publish
from events.models import EventType
from sagas.apply_requests import apply_requests
from sagas.models import ABANDON, DeliveryRequest
from subscriptions.endpoints import take_slots
from tests.workflows.conftest import folder, write
from tests.workflows.support import facts
from tests.workflows.trips import Write, restart, runs, say
from webhookhub.db import clock
from webhookhub.ids import new_uid
from webhookhub.stats.models import MINUTE, Period
from webhookhub.stats.rollup import roll_up
from workflows import advance, versions
from workflows.facts import fact_row
from workflows.models import Fact, Instance, TrackedType, UsedDefinition, WorkflowInbox
from workflows.tracker import Tracker

__all__ = ["folder", "write"]

pytestmark = [pytest.mark.every_engine, pytest.mark.django_db]

UNREADABLE = [
    "{}",
    "[]",
    "5",
    "null",
    '{"name": "other", "version": 1}',
    '{"name": "trip", "version": "1"}',
    "[[[[[]]]]]",
]


def complete(case: str) -> None:
    for event_type in ("trip.booked", "trip.paid", "trip.issued"):
        say(event_type, case, f"t-{case}")


def logged(stream: io.StringIO, event: str) -> list[dict[str, Any]]:
    return [line for line in map(json.loads, stream.getvalue().splitlines()) if line["event"] == event]


@pytest.mark.parametrize("document", UNREADABLE)
@pytest.mark.parametrize("name", ["trip", "other"])
def test_a_definition_that_cannot_be_read_stops_nothing(write: Write, name: str, document: str, log_stream: Any):
    write(1)
    UsedDefinition.objects.create(name=name, version=2, fingerprint="x" * 64, document=document)
    restart()

    complete("case-1")

    assert runs() == {"case-1": (1, "COMPLETED")}
    assert {line["version"] for line in logged(log_stream, "workflow_definition_invalid")} == {2}


def test_an_unreadable_row_does_not_occupy_the_version_of_a_file(write: Write):
    UsedDefinition.objects.create(name="trip", version=1, fingerprint="x" * 64, document="{}")
    write(1)

    complete("case-1")

    assert runs() == {"case-1": (1, "COMPLETED")}


def test_a_definition_is_stored_as_json():
    with pytest.raises(DatabaseError, match="A definition is stored as JSON"):
        UsedDefinition.objects.create(name="trip", version=1, fingerprint="x" * 64, document="{")


def forged_run(correlation_key: str, version: int) -> Instance:
    return Instance.objects.create(
        saga_id=new_uid(), saga_type="trip", definition_version=version, correlation_key=correlation_key
    )


def test_a_run_in_a_version_that_was_never_stored_is_set_aside(write: Write, log_stream: Any):
    write(1)
    forged_run("case-1", 77)
    complete("case-1")
    complete("case-2")

    assert runs() == {"case-1": (77, "IN_PROGRESS"), "case-2": (1, "COMPLETED")}
    assert facts("case-1") == []
    [line, *_] = logged(log_stream, "workflow_run_invalid")
    assert (line["saga_type"], line["correlation_id"]) == ("trip", "case-1")
    assert "trip version 77 is not known" in line["error"]


def test_a_report_about_a_run_in_an_unknown_version_is_set_aside(write: Write, log_stream: Any):
    write(1)
    run = forged_run("case-1", 77)
    Fact.objects.create(instance=run, role="closed", origin="operator", idempotency_key="k", occurred_at=clock.now())
    complete("case-2")

    assert runs()["case-2"] == (1, "COMPLETED")
    assert logged(log_stream, "workflow_run_invalid")


@pytest.mark.parametrize("steps", ["", "{", "[]", "null", '"x"', "[" * 100_000])
def test_the_steps_of_a_run_are_read_from_its_facts(write: Write, steps: str):
    write(1)
    say("trip.booked", "case-1", "t-1")
    Instance.objects.update(steps=steps)
    say("trip.paid", "case-1", "t-1")

    assert Instance.objects.get().step_states == {
        "booking": "done",
        "payment": "done",
        "ticket": "running",
        "extra": "waiting",
    }


def test_a_run_that_another_program_has_ended_stops_no_other(write: Write, log_stream: Any):
    write(1)
    say("trip.booked", "case-1", "t-1")
    Instance.objects.update(status="COMPLETED", completed_at=clock.now())
    complete("case-1")
    complete("case-2")

    assert runs()["case-2"] == (1, "COMPLETED")
    assert "contradicts its facts" in logged(log_stream, "workflow_run_invalid")[0]["error"]


DECISION = {
    "cause": "",
    "status": "COMPLETED",
    "error": "",
    "basis": [":started"],
    "started_at": "2026-01-01T00:00:00+00:00",
    "aggregate_id": None,
}
UNREADABLE_CHANGES: list[dict[str, Any]] = [
    {"status": "IN_PROGRESS"},
    {"status": None},
    {"error": 5},
    {"error": "x" * 501},
    {"error": "\x1b[2J"},
    {"cause": None},
    {"aggregate_id": 0},
    {"basis": [[]]},
    {"aggregate_id": "x" * 201},
    {"started_at": "2026-01-01T00:00:00"},
    {"started_at": "0001-01-01T00:00:00+14:00"},
    {"later": 1},
]
UNREADABLE_DECISIONS = [
    "{}",
    "5",
    "[]",
    '{"basis": 1}',
    *(json.dumps(DECISION | changes) for changes in UNREADABLE_CHANGES),
]


@pytest.mark.parametrize(
    ("number", "detail"), [(7, json.dumps(DECISION)), *((1, detail) for detail in UNREADABLE_DECISIONS)]
)
def test_a_decision_that_cannot_be_read_sets_its_run_aside(write: Write, number: int, detail: str, log_stream: Any):
    write(1)
    say("trip.booked", "case-1", "t-1")
    run = Instance.objects.get()
    Fact.objects.create(**fact_row(run.pk, "", "ended", "hub", clock.now(), decision_no=number, detail=detail))
    say("trip.paid", "case-1", "t-1")
    complete("case-2")

    assert runs()["case-2"] == (1, "COMPLETED")
    assert {line["saga_id"] for line in logged(log_stream, "workflow_run_invalid")} == {str(run.saga_id)}


def test_a_decision_of_the_hub_is_read(write: Write, log_stream: Any):
    """The case that the unreadable ones differ from."""
    write(1)
    say("trip.booked", "case-1", "t-1")
    run = Instance.objects.get()
    detail = json.dumps(DECISION)
    Fact.objects.create(**fact_row(run.pk, "", "ended", "hub", clock.now(), decision_no=1, detail=detail))
    say("trip.paid", "case-1", "t-1")

    assert runs() == {"case-1": (1, "COMPLETED")}
    assert logged(log_stream, "workflow_run_invalid") == []


# Only what cannot be read is set aside: the loop waits for a lost database, and reports a mistake.
OTHER_ERRORS = pytest.mark.parametrize(
    "error",
    [
        OperationalError(2006, "MySQL server has gone away"),
        OperationalError(1213, "Deadlock found"),
        InterfaceError(0, ""),
        RuntimeError("a mistake in the program"),
        KeyError("a mistake in the program"),
    ],
    ids=repr,
)


def failing(error: Exception) -> Callable[..., Any]:
    def fail(*_arguments: Any) -> Any:
        raise error

    return fail


@OTHER_ERRORS
@pytest.mark.parametrize("function", ["fold", "require"])
def test_any_other_error_reaches_the_loop_and_the_event_is_not_consumed(
    write: Write, function: str, error: Exception, log_stream: Any, monkeypatch: pytest.MonkeyPatch
):
    write(1)
    say("trip.booked", "case-1", "t-1")
    publish("trip.paid", {"trip": "t-1"}, correlation_id="case-1")
    tracker = Tracker(versions.in_force())
    with monkeypatch.context() as patch:
        patch.setattr(advance, function, failing(error))
        with pytest.raises(type(error)):
            tracker.track(10)

    assert logged(log_stream, "workflow_run_invalid") == []
    assert WorkflowInbox.objects.update(lease_until=None) == 1
    assert tracker.track(10) == 1
    assert Instance.objects.get().step_states["payment"] == "done"


@OTHER_ERRORS
def test_any_other_error_about_a_deadline_reaches_the_loop(
    write: Write, error: Exception, log_stream: Any, monkeypatch: pytest.MonkeyPatch
):
    write(1)
    say("trip.booked", "case-1", "t-1")
    Instance.objects.update(deadline=clock.now(), version=F("version") + 1)
    tracker = Tracker(versions.in_force())
    monkeypatch.setattr(advance, "expire", failing(error))
    with pytest.raises(type(error)):
        tracker.expire(10)

    assert logged(log_stream, "workflow_run_invalid") == []


@pytest.mark.parametrize("text", ["\t", "a\x00b", "\x1b[2J"])
def test_control_characters_in_a_fact_stop_no_event_of_the_hub(write: Write, text: str):
    write(1)
    say("trip.booked", "case-1", "t-1")
    run = Instance.objects.get()
    Fact.objects.create(
        **fact_row(run.pk, "", "closed", "operator", clock.now(), idempotency_key="k", detail=text, aggregate_id=text)
    )
    complete("case-2")

    assert runs() == {"case-1": (1, "FAILED"), "case-2": (1, "COMPLETED")}
    assert ("", "emitted") in facts("case-1")


@pytest.mark.parametrize(
    "values",
    [
        {"role": "ended", "origin": "operator", "idempotency_key": "k"},
        {"role": "ended", "origin": "hub"},
        {"role": "ended", "origin": "hub", "decision_no": 0, "detail": "{}"},
        {"role": "ended", "origin": "hub", "decision_no": 1, "detail": "{"},
        {"role": "emitted", "origin": "hub"},
        {"role": "emitted", "origin": "verb", "idempotency_key": "k"},
        {"role": "closed", "origin": "hub", "event_id": 1},
        {"role": "closed", "origin": "operator"},
        {"role": "done", "origin": "event"},
        {"role": "done", "origin": "event", "event_id": 1, "decision_no": 1},
    ],
)
def test_a_fact_is_what_its_origin_can_know(write: Write, values: dict[str, Any]):
    write(1)
    say("trip.booked", "case-1", "t-1")
    row = fact_row(Instance.objects.get().pk, "", values.pop("role"), values.pop("origin"), clock.now(), **values)
    with pytest.raises(DatabaseError, match="A fact comes from"), transaction.atomic():
        Fact.objects.create(**row)


@pytest.mark.parametrize("values", [{"status": "COMPLETED"}, {"version": 1}, {"steps": "{ }"}, {"deadline": clock.now}])
def test_a_run_is_created_open(values: dict[str, Any]):
    values = {name: value() if callable(value) else value for name, value in values.items()}
    with pytest.raises(DatabaseError, match="A run is created open"), transaction.atomic():
        Instance.objects.create(saga_type="trip", definition_version=1, correlation_key="k", **values)


@pytest.mark.parametrize("version", [0, 2, 2**32 - 1])
def test_a_run_counts_its_writes(write: Write, version: int):
    write(1)
    say("trip.booked", "case-1", "t-1")
    assert Instance.objects.get().version == 1
    if version == 2:
        assert Instance.objects.update(version=version) == 1
        return
    with pytest.raises(DatabaseError, match="counts its writes one by one"), transaction.atomic():
        Instance.objects.update(version=version)


@pytest.mark.mysql_family
def test_a_type_is_tracked_since_a_time():
    with connection.cursor() as cursor:
        cursor.execute("SET @mode = @@sql_mode, sql_mode = ''")
        with pytest.raises(DatabaseError, match="tracked_since"), transaction.atomic():
            cursor.execute(
                "INSERT INTO workflow_event_types (event_type, tracked_since, caught_up) VALUES ('a', '0000-00-00', 0)"
            )
        cursor.execute("SET sql_mode = @mode")
    assert not TrackedType.objects.exists()


@pytest.mark.parametrize("pointers", ["x", "[]", "5", '{"a": 1}', '{"a": "x"}', "[" * 100_000])
def test_a_declaration_of_labels_that_cannot_be_read_stops_no_event(pointers: str, log_stream: io.StringIO):
    EventType.objects.create(name="order.created", label_pointers=pointers)
    declarations.clear()

    assert publish("order.created", {"n": 1}).created
    assert len(logged(log_stream, "event_type_invalid")) == 1


def test_a_rate_limit_at_its_largest_is_no_limit():
    assert take_slots(1, 2**31 - 1, 5).taken == 5


def test_a_request_for_no_delivery_changes_nothing():
    request = DeliveryRequest.objects.create(
        kind=ABANDON, conditions='{"status": "Pending"}', max_saga_id=0, requested_by="a", reason="r", request_token="t"
    )
    assert apply_requests(10) == 1
    request.refresh_from_db()
    assert (request.due_at, request.changed) == (None, 0)


def test_a_period_that_never_was_is_not_rolled_up():
    Period.objects.create(period=MINUTE, starts_at=datetime(1, 1, 1, tzinfo=UTC), subscription_id=1, shard=0)
    assert roll_up(10) == 0
