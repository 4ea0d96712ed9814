"""Events become facts, facts fold to states, and effects are published; repeating it changes nothing."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction

from events.intake import publish
from events.models import Event, RoutingInbox
from tests.factories import EventFactory
from tests.workflows.lives import DEFINITIONS, ORDER, named
from tests.workflows.support import catch_up, expire, facts, instance, published, tell, told_before, tracked
from webhookhub.db import clock
from webhookhub.stats import counters
from workflows import tracked_types
from workflows.advance import advance
from workflows.definition import Definition
from workflows.facts import MAX_REPEATS, fact_row, without_repeats
from workflows.models import Fact, Instance, TrackedType, UsedDefinition, WorkflowInbox
from workflows.registry import Registry, load, registry
from workflows.scenarios import before, event_type, happy, undone
from workflows.state import DONE, FAILURE, UNDONE
from workflows.tracked_types import CatchUp

pytestmark = pytest.mark.django_db


@pytest.mark.requirement("R5-1e", "R5-1h", "R5-3.1a", "R5-3.1g", "R5-5f")
@pytest.mark.parametrize("definition", DEFINITIONS, ids=named)
def test_a_run_is_tracked_from_its_first_event_to_its_last(definition: Definition):
    tracked()
    for report in happy(definition):
        tell(definition, report, "k-1", order_id="o-7", customer_id="o-7")
        catch_up()

    run = instance("k-1", definition.name)
    assert (run.status, run.aggregate_id, run.deadline) == ("COMPLETED", "o-7", None)
    assert set(json.loads(run.steps).values()) == {"done"}
    assert published("k-1") == [("saga.completed", None)]
    [event] = Event.objects.filter(event_type="saga.completed")
    payload = json.loads(event.payload)
    assert (payload["saga_id"], payload["aggregate_id"]) == (str(run.saga_id), "o-7")
    assert RoutingInbox.objects.filter(event_id=event.id).exists(), "it is delivered like any other event"
    assert not WorkflowInbox.objects.exists(), "the hub does not listen to itself"


@pytest.mark.requirement("R5-1c", "R5-3.1c")
def test_a_failure_is_compensated_with_events_in_reverse_order():
    """Every step of every definition is tested in test_compensation.py."""
    tracked()
    done = before(ORDER, ORDER.by_key["payment"])
    for report in reversed([*done, ("payment", FAILURE)]):
        tell(ORDER, report, "k-1", reason="no more of it")
    catch_up()
    back = undone(ORDER, done)
    assert published("k-1")[: len(back)] == [("saga.compensation_requested", key) for key, _ in back]
    for report in back:
        tell(ORDER, report, "k-1")
    catch_up()

    run = instance("k-1")
    assert run.status == "COMPENSATED"
    assert run.error_message == "no more of it"
    assert published("k-1")[-1] == ("saga.failed", "payment")
    assert len(published("k-1")) == len(back) + 1


@pytest.mark.requirement("R5-1h")
def test_an_untracked_event_is_not_in_the_inbox():
    tracked()
    publish("cart.opened", {})

    assert not WorkflowInbox.objects.exists()


@pytest.mark.requirement("R5-3.4a", "R5-3.4b")
def test_an_event_tracked_twice_is_one_fact():
    tracker = tracked()
    stored = tell(ORDER, ("order", DONE), "k-1")
    tracker.track(500)
    before_again = list(Fact.objects.values())
    WorkflowInbox.objects.create(event_id=stored.id)
    tracker.track(500)

    assert list(Fact.objects.values()) == before_again
    assert Instance.objects.count() == 1


@pytest.mark.parametrize("batch_size", [7, 500])
def test_the_batch_size_does_not_decide_which_repeats_are_stored(batch_size: int):
    tracker = tracked()
    event_ids = [tell(ORDER, ("order", DONE), "k-1").id for _ in range(MAX_REPEATS + 10)]
    for _ in range(2):
        while tracker.track(batch_size):
            pass
        # Tracked again, as after a crash, in reverse order.
        WorkflowInbox.objects.bulk_create(WorkflowInbox(event_id=id) for id in reversed(event_ids))

    kept = Fact.objects.filter(instance=instance("k-1"), role=DONE).values_list("event_id", flat=True)
    assert sorted(id for id in kept if id) == event_ids[:MAX_REPEATS]


def test_repeats_with_the_lowest_event_ids_are_stored():
    tracked()
    event_ids = [tell(ORDER, ("order", DONE), "k-1").id for _ in range(MAX_REPEATS + 10)]
    rows = [fact_row(1, "order", DONE, "event", clock.now(), event_id=id) for id in reversed(event_ids)]

    assert [row["event_id"] for row in without_repeats(rows)] == event_ids[:MAX_REPEATS]


def test_repeats_are_limited(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("workflows.facts.MAX_REPEATS", 3)
    tracked()
    for _ in range(6):
        tell(ORDER, ("order", DONE), "k-1")
        catch_up()
    tell(ORDER, ("inventory", DONE), "k-1")
    catch_up()

    assert facts("k-1").count(("order", DONE)) == 3
    assert instance("k-1").current_step == "payment"


@pytest.mark.requirement("R5-5a")
def test_each_workflow_and_correlation_id_has_its_own_run():
    tracked()
    for key in ("a", "b", "A"):
        tell(ORDER, ("order", DONE), key)
    publish("order.cancelled", {"order_id": "a"}, correlation_id="a")
    catch_up()

    keys = set(Instance.objects.values_list("saga_type", "correlation_key"))
    submissions = {("order_submission", key) for key in ("a", "b", "A")}
    assert keys == submissions | {("order_cancellation", "a")}


@pytest.mark.requirement("R5-1f")
def test_a_batch_needs_few_statements(django_assert_max_num_queries: Any):
    tracker = tracked()
    for number in range(30):
        for report in happy(ORDER):
            tell(ORDER, report, f"k-{number}")

    with django_assert_max_num_queries(45):
        assert tracker.track(500) == 150

    assert Instance.objects.filter(status="COMPLETED").count() == 30


@pytest.mark.requirement("R5-3.5d")
def test_a_time_out_is_decided_published_and_compensated_in_this_order():
    tracked()
    told_before(ORDER, ("order", DONE), "k-1", timedelta(minutes=12))
    waiting = told_before(ORDER, ("inventory", DONE), "k-1", timedelta(minutes=11))
    assert WorkflowInbox.objects.filter(event_id=waiting).exists()
    catch_up()
    assert expire() == 1

    run = instance("k-1")
    assert (run.status, run.current_step) == ("COMPENSATING", "inventory")
    assert run.error_message == "step payment has timed out"
    assert published("k-1") == [
        ("saga.timed_out", "payment"),
        ("saga.compensation_requested", "inventory"),
        ("saga.compensation_requested", "order"),
    ]
    assert facts("k-1")[2:] == [
        ("payment", "failing"),
        ("payment", "emitted"),
        ("inventory", "emitted"),
        ("order", "emitted"),
    ]
    assert expire() == 0


def test_a_late_success_after_a_time_out_is_compensated():
    tracked()
    for report in happy(ORDER)[:2]:
        told_before(ORDER, report, "k-1", timedelta(minutes=11))
    catch_up()
    expire()
    for report in [("inventory", UNDONE), ("order", UNDONE), ("payment", DONE)]:
        tell(ORDER, report, "k-1")
        catch_up()

    run = instance("k-1")
    assert (run.status, run.needs_operator) == ("COMPENSATED", True)
    assert run.anomaly == "payment done after the end"
    assert published("k-1")[-1] == ("saga.compensation_requested", "payment")

    tell(ORDER, ("payment", UNDONE), "k-1")
    catch_up()
    assert not instance("k-1").needs_operator


def test_no_run_times_out_while_its_event_waits_in_the_inbox():
    tracked()
    for report in happy(ORDER)[:2]:
        told_before(ORDER, report, "k-1", timedelta(minutes=11))
    catch_up()
    # Published in time, tracked late.
    told_before(ORDER, ("payment", DONE), "k-1", timedelta(minutes=9))

    assert expire() == 0
    catch_up()
    assert expire() == 0
    assert instance("k-1").current_step == "shipping"


def test_a_run_without_a_start_needs_an_operator():
    tracked()
    for step in ("shipping", "confirmation"):
        told_before(ORDER, (step, DONE), "k-1", timedelta(minutes=31))
    catch_up()
    expire()

    run = instance("k-1")
    assert (run.status, run.needs_operator) == ("FAILED", True)
    assert published("k-1") == [("saga.failed", None)]


def test_a_new_run_includes_its_earlier_events():
    for report in happy(ORDER)[:4]:
        tell(ORDER, report, "k-1")
    tracked()
    tell(ORDER, ("confirmation", DONE), "k-1")
    catch_up()

    assert instance("k-1").status == "COMPLETED"


def test_a_long_history_does_not_hide_that_of_another_run():
    for _ in range(2 * MAX_REPEATS):
        tell(ORDER, ("order", DONE), "k-1")
    for report in happy(ORDER)[1:4]:
        tell(ORDER, report, "k-1")
    for report in happy(ORDER)[:4]:
        tell(ORDER, report, "k-2")
    tracked()
    for key in ("k-1", "k-2"):
        tell(ORDER, ("confirmation", DONE), key)
    catch_up()

    assert (instance("k-1").status, instance("k-2").status) == ("COMPLETED", "COMPLETED")
    assert facts("k-1").count(("order", DONE)) == MAX_REPEATS


def test_an_event_stored_just_before_its_type_was_tracked_is_fetched():
    stored = tell(ORDER, ("order", DONE), "k-1")
    tracker = tracked()
    assert tracker.track(500) == 0

    assert CatchUp().catch_up(500) == 1
    catch_up()

    assert instance("k-1").facts.filter(event_id=stored.id).exists()
    assert CatchUp().catch_up(500) == 0, "an event with a fact is not fetched again"


def test_catching_up_ends_after_an_hour_and_not_before():
    tracked()
    assert TrackedType.objects.filter(caught_up=False).count() == len(registry().listeners)
    CatchUp().catch_up(500)
    assert not TrackedType.objects.filter(caught_up=True).exists()

    long_ago = clock.now() - tracked_types.REACH - tracked_types.SLACK - timedelta(seconds=1)
    TrackedType.objects.update(tracked_since=long_ago)
    CatchUp().catch_up(500)
    assert not TrackedType.objects.filter(caught_up=False).exists()


@pytest.mark.parametrize("payload", ["not json", "[" * 5000, f'{{"order_id": {"9" * 5000}}}', '"text"'], ids=range(4))
def test_an_unreadable_payload_does_not_stop_other_events(payload: str):
    """SQL may store any text that the engine accepts."""
    tracked()
    submitted = event_type(ORDER, ("order", DONE))
    try:
        with transaction.atomic():
            EventFactory.create(event_type=submitted, correlation_id="k-bad", payload=payload)
    except DatabaseError:
        pytest.skip("this engine takes no such text")
    tell(ORDER, ("order", DONE), "k-good")
    catch_up()
    assert {run.correlation_key for run in Instance.objects.all()} == {"k-bad", "k-good"}


def test_events_are_fetched_in_batches():
    for number in range(7):
        tell(ORDER, ("order", DONE), f"k-{number}")
    tracked()

    assert CatchUp().catch_up(3) == 7


FOLDER = """
name = "trip"
version = {version}
starts = ["trip.booked"]
correlation = "payload.trip.id"
aggregate = "payload.trip.customer"
error = "payload.why"
[[steps]]
key = "booking"
done = ["trip.booked"]
[[steps]]
key = "{second}"
done = ["trip.paid"]
failed = ["trip.refused"]
"""


@pytest.fixture
def trips(tmp_path: Path, hub_settings: Any) -> Path:
    (tmp_path / "trip_1.toml").write_text(FOLDER.format(version=1, second="payment"))
    hub_settings(workflow_definitions=(tmp_path,))
    load.cache_clear()
    return tmp_path


@pytest.mark.requirement("R5-5a")
def test_a_definition_may_correlate_by_the_payload(trips: Path):
    tracked()
    publish("trip.booked", {"trip": {"id": 7, "customer": "c-1"}})
    publish("trip.refused", {"trip": {"id": 7}, "why": "no\nmoney"})
    catch_up()

    run = instance("7", "trip")
    assert (run.status, run.aggregate_id, run.error_message) == ("FAILED", "c-1", "no money")


@pytest.mark.parametrize("payload", [{}, {"trip": 7}, {"trip": {"id": None}}, {"trip": {"id": "x" * 201}}, [1], None])
def test_an_event_without_a_usable_key_is_ignored(trips: Path, payload: Any):
    tracked()
    publish("trip.booked", payload)
    catch_up()

    assert not Instance.objects.exists()


def test_a_run_keeps_its_version(trips: Path):
    tracked()
    publish("trip.booked", {"trip": {"id": 1}})
    catch_up()
    (trips / "trip_2.toml").write_text(FOLDER.format(version=2, second="settlement"))
    load.cache_clear()
    tracked()
    publish("trip.booked", {"trip": {"id": 2}})
    for number in (1, 2):
        publish("trip.paid", {"trip": {"id": number}})
    catch_up()

    assert [instance(key, "trip").definition_version for key in ("1", "2")] == [1, 2]
    assert [instance(key, "trip").current_step for key in ("1", "2")] == ["payment", "settlement"]
    assert {(used.name, used.version) for used in UsedDefinition.objects.all()} == {("trip", 1), ("trip", 2)}


def test_counters_count_each_run_once():
    tracker = tracked()
    for report in happy(ORDER):
        stored = tell(ORDER, report, "k-1")
    tell(ORDER, ("inventory", FAILURE), "k-2")
    catch_up()
    WorkflowInbox.objects.create(event_id=stored.id)
    tracker.track(500)

    kept = counters.read()
    assert kept[counters.WORKFLOWS_STARTED, "order_submission"] == 2
    assert kept[counters.WORKFLOWS_ENDED, "order_submission/COMPLETED"] == 1
    assert kept[counters.WORKFLOW_STEPS, "order_submission/shipping"] == 1
    assert sum(n for (name, _), n in kept.items() if name == counters.WORKFLOW_DURATIONS) == 1
    assert sum(n for (name, _), n in kept.items() if name == counters.WORKFLOW_DETECTIONS) == 1


HISTORY_CHANGES = (
    "UPDATE saga_facts SET step = 'x'",
    "DELETE FROM saga_facts",
    "DELETE FROM saga_instances",
    "UPDATE saga_instances SET status = 'IN_PROGRESS'",
    "UPDATE saga_instances SET completed_at = NULL",
    "UPDATE saga_instances SET error_message = 'x'",
    "UPDATE saga_instances SET correlation_key = 'x'",
    "UPDATE saga_instances SET definition_version = 2",
    "UPDATE workflow_definitions SET document = '{}'",
    "DELETE FROM workflow_definitions",
)


@pytest.mark.requirement("R5-3.4b")
def test_the_database_refuses_to_rewrite_history():
    tracked()
    for report in happy(ORDER):
        tell(ORDER, report, "k-1")
    catch_up()

    for change in HISTORY_CHANGES:
        with pytest.raises(DatabaseError, match="refused"), transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(change)


def test_a_run_in_an_unknown_version_is_set_aside(trips: Path, log_stream: Any):
    tracked()
    publish("trip.booked", {"trip": {"id": 1}})
    catch_up()

    assert advance([instance("1", "trip").pk], Registry([])) == 0

    assert '"workflow_run_invalid"' in log_stream.getvalue()
    assert "restart it with the program" in log_stream.getvalue()
