"""Versions of a workflow: one correlation, runs keep their version, processes agree on the version in force."""

from __future__ import annotations

from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError, SystemCheckError

from events.intake import publish
from tests.factories import EventFactory
from tests.workflows import support
from tests.workflows.support import catch_up, facts, instance, tracked
from tests.workflows.trips import Write, definition, remove_file, restart, runs, say
from webhookhub.runner.step import CannotStart
from workflows import services, versions
from workflows.checks import definitions_are_valid, used_definitions_are_unchanged
from workflows.management.commands.run_workflows import Command
from workflows.models import Instance, TrackedType, WorkflowInbox
from workflows.parsing import InvalidDefinition
from workflows.registry import Registry, load, registry
from workflows.services import InvalidFact
from workflows.tracked_types import CatchUp
from workflows.tracker import Tracker

pytestmark = pytest.mark.django_db
SETTLED = ', "trip.settled"'
OTHER_CORRELATION = (
    r"trip version 2 \(trip_2.toml\): correlation is 'payload.trip', and version 1 has 'correlation_id'; "
    "all versions of a workflow must have the same correlation, so give the new workflow a new name"
)


def book(number: int) -> None:
    publish("trip.booked", {"trip": f"t-{number}"}, correlation_id=f"case-{number}")


def run_versions() -> dict[str, int]:
    return {key: version for key, (version, _) in runs().items()}


def put(folder: Path, version: int, **changes: str) -> None:
    (folder / f"trip_{version}.toml").write_text(definition(version, **changes))
    load.cache_clear()


def test_versions_with_different_correlations_are_refused(folder: Path):
    put(folder, 1)
    put(folder, 2, correlation="payload.trip")

    [error] = definitions_are_valid()
    assert error.id == "workflows.E001"
    with pytest.raises(InvalidDefinition, match=OTHER_CORRELATION):
        registry()
    with pytest.raises(SystemCheckError, match="must have the same correlation"):
        call_command("check")
    with pytest.raises(CommandError, match=OTHER_CORRELATION):
        call_command("workflows", "check")


def test_a_correlation_that_differs_from_a_used_version_is_refused_without_its_file(folder: Path, write: Write):
    write(1)
    say("trip.booked", "case-1", "t-1")
    (folder / "trip_1.toml").unlink()
    put(folder, 2, correlation="payload.trip")

    assert definitions_are_valid() == []
    [error] = used_definitions_are_unchanged(databases=["default"])
    assert error.id == "workflows.E003"
    with pytest.raises(InvalidDefinition, match=OTHER_CORRELATION):
        versions.in_force()
    with pytest.raises(CannotStart, match=OTHER_CORRELATION):
        Command().make_step("workflows")
    with pytest.raises(CommandError, match=OTHER_CORRELATION):
        call_command("workflows", "check")


def test_a_tracker_stops_when_another_process_has_used_a_different_correlation(folder: Path):
    put(folder, 2, correlation="payload.trip")
    other = Tracker(versions.in_force())
    remove_file(folder, 2)
    put(folder, 1)
    restart()
    say("trip.booked", "case-1", "t-1")
    book(2)

    with pytest.raises(InvalidDefinition, match=OTHER_CORRELATION):
        other.track(500)
    WorkflowInbox.objects.update(lease_until=None)
    catch_up()
    assert run_versions() == {"case-1": 1, "case-2": 1}


def test_stored_versions_with_different_correlations_do_not_stop_the_newest(folder: Path):
    """They may have been stored before the rule existed."""
    put(folder, 1)
    versions.remember(registry().all())
    remove_file(folder, 1)
    put(folder, 2, correlation="payload.trip")
    versions.remember(registry().all())
    restart()
    say("trip.booked", "case-1", "t-1")

    assert run_versions() == {"t-1": 2}


@pytest.mark.requirement("R5-3.6c", "R5-5c")
def test_a_run_keeps_its_version_and_a_new_run_gets_the_version_in_force(write: Write):
    write(1)
    say("trip.booked", "case-1", "t-1")
    write(2, more=SETTLED)
    for event_type in ("trip.issued", "trip.paid", "trip.booked"):
        for number in (2, 1):
            publish(event_type, {"trip": f"t-{number}"}, correlation_id=f"case-{number}")
    catch_up()

    assert runs() == {"case-1": (1, "COMPLETED"), "case-2": (2, "COMPLETED")}


def test_an_event_type_of_a_newer_version_is_not_a_fact_of_an_old_run(write: Write):
    write(1)
    say("trip.booked", "case-1", "t-1")
    write(2, more=SETTLED)
    for case in ("case-1", "case-2"):
        say("trip.settled", case, "t")

    assert facts("case-1") == [("booking", "done")]
    assert facts("case-2") == [("payment", "done")]


def test_an_event_type_of_an_older_version_creates_no_run(write: Write):
    write(1, more=SETTLED)
    say("trip.booked", "case-1", "t-1")
    write(2)
    for case in ("case-1", "case-2"):
        say("trip.settled", case, "t")

    assert facts("case-1") == [("booking", "done"), ("payment", "done")]
    assert run_versions() == {"case-1": 1}


def test_aggregate_and_reason_are_read_by_the_version_of_the_run(write: Write):
    write(1, aggregate="payload.old", error="payload.old_reason")
    say("trip.booked", "case-1", "t-1")
    write(2, aggregate="payload.new", error="payload.new_reason")
    payload = {"old": "a-1", "new": "b-1", "old_reason": "no money", "new_reason": "declined"}
    for case in ("case-1", "case-2"):
        say("trip.refused", case, "t", **payload)

    assert (instance("case-1", "trip").aggregate_id, instance("case-1", "trip").error_message) == ("a-1", "no money")
    assert (instance("case-2", "trip").aggregate_id, instance("case-2", "trip").error_message) == ("b-1", "declined")


def test_a_late_event_of_an_ended_old_run_starts_no_new_run(write: Write):
    write(1)
    for event_type in ("trip.booked", "trip.paid", "trip.issued"):
        say(event_type, "case-1", "t-1")
    write(2)
    for event_type in ("trip.upgraded", "trip.booked"):
        say(event_type, "case-1", "t-1")

    assert runs() == {"case-1": (1, "COMPLETED")}
    assert ("extra", "done") in facts("case-1")


def test_several_versions_cost_no_query_per_event(write: Write, django_assert_max_num_queries: Any):
    write(1)
    say("trip.booked", "case-0", "t-0")
    write(2, more=SETTLED)
    for number in range(30):
        for event_type in ("trip.booked", "trip.paid", "trip.issued"):
            publish(event_type, {"trip": f"t-{number}"}, correlation_id=f"case-{number}")

    with django_assert_max_num_queries(45):
        assert Tracker(registry()).track(500) == 90

    assert Instance.objects.filter(status="COMPLETED").count() == 30


def test_a_process_with_older_files_uses_the_version_that_another_has_put_in_force(write: Write):
    write(1)
    old = Tracker(versions.in_force())
    book(1)
    assert old.track(500) == 1
    write(2, more=SETTLED)
    say("trip.booked", "case-2", "t-2")
    book(3)
    publish("trip.settled", {}, correlation_id="case-2")
    assert old.track(500) == 2

    assert run_versions() == {"case-1": 1, "case-2": 2, "case-3": 2}
    assert instance("case-2", "trip").current_step == "ticket"


def test_a_version_in_force_without_a_file_is_read_from_the_database(folder: Path, write: Write):
    write(1)
    write(2, more=SETTLED)
    say("trip.booked", "case-1", "t-1")
    remove_file(folder, 2)
    say("trip.booked", "case-2", "t-2")
    services.start("trip", "case-3", idempotency_key="k", actor="shop")

    assert run_versions() == {"case-1": 2, "case-2": 2, "case-3": 2}
    [warning] = used_definitions_are_unchanged(databases=["default"])
    assert warning.id == "workflows.W003"
    assert "trip version 2 is in force, but the newest file is trip version 1 (trip_1.toml)" in warning.msg
    assert "version = 3" in str(warning.hint)


def test_a_version_first_used_during_a_batch_of_another_process_loses_no_event(write: Write, monkeypatch: Any):
    write(1)
    old = Tracker(registry())
    write(2)
    newer, refresh = Tracker(registry()), versions.up_to_date
    publish("trip.paid", {"trip": "t-1"}, correlation_id="case-1")

    def used_just_after_the_refresh(known: Any) -> Any:
        result = refresh(known)
        monkeypatch.setattr(versions, "up_to_date", refresh)
        publish("trip.booked", {"trip": "t-1"}, correlation_id="case-1")
        assert newer.track(500) == 1
        return result

    monkeypatch.setattr(versions, "up_to_date", used_just_after_the_refresh)
    assert old.track(500) == 1

    run = instance("case-1", "trip")
    assert (run.definition_version, run.current_step) == (2, "ticket")
    assert not WorkflowInbox.objects.exists()


def test_events_of_a_run_started_by_a_newer_web_server_are_tracked(folder: Path):
    older = Tracker(Registry([]))
    (folder / "trip_1.toml").write_text(definition(1))
    services.start("trip", "case-1", idempotency_key="k", actor="shop")
    for event_type in ("trip.booked", "trip.paid"):
        publish(event_type, {}, correlation_id="case-1")

    assert older.track(500) == 2
    assert instance("case-1", "trip").current_step == "ticket"


@pytest.mark.parametrize("reported", [True, False])
def test_a_process_with_different_content_under_the_same_version_stops(write: Write, reported: bool):
    write(1, more=SETTLED)
    step = Command().make_step("workflows")
    write(1)
    services.start("trip", "case-1", idempotency_key="k", actor="shop")
    if not reported:
        catch_up()
        book(2)

    why = r"trip version 1 \(trip_1.toml\): .* into a new version, 2, in a file of"
    with pytest.raises(InvalidDefinition, match=why):
        step.run(500)
    with pytest.raises(InvalidDefinition, match=why):
        write(1, more=SETTLED)
    with pytest.raises(CannotStart, match=f"A definition is not valid: workflow definition {why}"):
        Command().make_step("workflows")
    assert run_versions() == {"case-1": 1}


@pytest.mark.requirement("R5-6e")
def test_a_retired_workflow_starts_no_runs_and_its_open_runs_are_tracked_to_their_end(folder: Path, write: Write):
    write(1)
    say("trip.booked", "case-1", "t-1")
    remove_file(folder, 1)
    say("trip.booked", "case-2", "t-2")
    say("trip.refused", "case-1", "t-1", reason="no money")

    assert runs() == {"case-1": (1, "FAILED")}
    with pytest.raises(InvalidFact, match="'trip' is no longer offered and starts no new runs"):
        services.start("trip", "case-3", idempotency_key="k", actor="shop")
    assert services.start("trip", "case-1", idempotency_key="k", actor="shop").instance.correlation_key == "case-1"


def test_an_older_version_is_restored_under_the_next_number(folder: Path, write: Write):
    write(1)
    say("trip.booked", "case-1", "t-1")
    write(2, more=SETTLED)
    say("trip.booked", "case-2", "t-2")
    remove_file(folder, 2)
    write(3)
    say("trip.booked", "case-3", "t-3")
    for number in (1, 2, 3):
        for event_type in ("trip.paid", "trip.issued"):
            say(event_type, f"case-{number}", f"t-{number}")

    assert runs() == {"case-1": (1, "COMPLETED"), "case-2": (2, "COMPLETED"), "case-3": (3, "COMPLETED")}


@pytest.mark.parametrize("version", [1, 2])
def test_a_workflow_that_is_put_back_tracks_events_from_then_on(folder: Path, write: Write, version: int):
    write(1)
    say("trip.booked", "case-1", "t-1")
    services.act(instance("case-1", "trip"), "closed", idempotency_key="k", actor="olga", reason="r")
    catch_up()
    remove_file(folder, 1)
    call_command("workflows", "untrack", stdout=StringIO())
    say("trip.booked", "case-2", "t-2")
    write(version, more=SETTLED if version == 2 else "")
    since = TrackedType.objects.get(event_type="trip.booked").tracked_since
    # Inserted after the tracking started, by a transaction that did not see it.
    EventFactory.create(event_type="trip.booked", correlation_id="case-3", created_at=since + timedelta(seconds=1))
    WorkflowInbox.objects.all().delete()
    CatchUp().catch_up(500)
    catch_up()

    assert set(runs()) == {"case-1", "case-3"}


def test_a_type_that_is_new_in_a_version_gets_its_events_of_the_last_hour(write: Write):
    write(1)
    say("trip.booked", "case-1", "t-1")
    publish("trip.settled", {"trip": "t-2"}, correlation_id="case-2")
    write(2, more=SETTLED)
    CatchUp().catch_up(500)
    catch_up()

    assert set(runs()) == {"case-1", "case-2"}


@pytest.mark.requirement("R5-6e")
def test_a_folder_in_the_setting_replaces_the_samples(tmp_path: Path, hub_settings: Any):
    tracked()
    publish("order.submitted", {}, correlation_id="o-1")
    catch_up()
    hub_settings(workflow_definitions=(tmp_path,))
    (tmp_path / "trip_1.toml").write_text(definition(1))
    restart()
    for key in ("o-1", "o-2"):
        publish("inventory.reservation_failed", {}, correlation_id=key)
    catch_up()

    assert list(versions.in_force().latest) == ["trip"]
    assert runs() == {"o-1": (1, "COMPENSATING")}


@pytest.mark.requirement("R5-6e")
def test_without_the_setting_no_run_starts(hub_settings: Any):
    hub_settings(workflow_definitions=())
    restart()
    publish("order.cancelled", {"order_id": "o-1"}, correlation_id="o-1")
    catch_up()

    assert versions.in_force().all() == []
    assert (runs(), TrackedType.objects.count(), WorkflowInbox.objects.count()) == ({}, 0, 0)
    assert definitions_are_valid() == []


def test_without_the_setting_open_runs_are_tracked_to_their_end(hub_settings: Any):
    tracked()
    publish("order.cancelled", {"order_id": "o-1"}, correlation_id="o-1")
    catch_up()
    hub_settings(workflow_definitions=())
    restart()
    for event_type in ("refund.issued", "inventory.restocked", "customer.notified"):
        for key in ("o-1", "o-2"):
            publish(event_type, {"order_id": key}, correlation_id=key)
    catch_up()

    assert runs() == {"o-1": (1, "COMPLETED")}


def test_a_process_does_not_stop_tracking_types_that_it_does_not_know(folder: Path, write: Write):
    write(1, more=SETTLED)
    remove_file(folder, 1)
    write(2)

    assert TrackedType.objects.filter(event_type="trip.settled").exists(), "another process may need it"


def test_types_of_open_runs_of_a_retired_workflow_are_tracked(folder: Path, write: Write):
    write(1)
    say("trip.booked", "case-1", "t-1")
    TrackedType.objects.all().delete()
    remove_file(folder, 1)
    assert TrackedType.objects.filter(event_type="trip.refused").exists()

    say("trip.refused", "case-1", "t-1")
    TrackedType.objects.all().delete()
    support.tracked()
    assert not TrackedType.objects.exists()
