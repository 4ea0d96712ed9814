"""Processes with older and with newer definitions at the same inbox: which version is in force the database says."""

from __future__ import annotations

from pathlib import Path

import pytest

from events.intake import publish
from tests.conformance.rivals import Rival
from tests.workflows.support import catch_up, instance
from tests.workflows.trips import Write, definition, kept, say, take_away
from webhookhub.runner.errors import CannotStart
from workflows import create, services, tracker, versions
from workflows.checks import used_definitions_are_as_they_were
from workflows.management.commands.run_workflows import Command
from workflows.models import WorkflowInbox
from workflows.parsing import InvalidDefinition
from workflows.registry import Registry
from workflows.tracker import Tracker

pytestmark = pytest.mark.usefixtures("committed")


def book(number: int) -> None:
    publish("trip.booked", {"trip": f"t-{number}"}, correlation_id=f"case-{number}")


def test_a_process_with_older_definitions_begins_with_the_version_that_another_has_put_in_force(write: Write):
    write(1)
    old = Tracker(versions.in_force())
    book(1)
    assert old.track(500) == 1
    write(2, "payload.trip")
    say("trip.booked", "case-2", "t-2")
    book(3)
    assert old.track(500) == 1

    assert {key: version for key, (version, _) in kept().items()} == {"case-1": 1, "t-2": 2, "t-3": 2}


def test_a_process_that_starts_without_the_file_of_the_version_in_force_takes_it_from_the_database(
    folder: Path, write: Write
):
    write(1)
    write(2, "payload.trip")
    say("trip.booked", "case-1", "t-1")
    take_away(folder, 2)
    say("trip.booked", "case-2", "t-2")
    services.start("trip", "t-3", idempotency_key="k", actor="shop")

    assert {key: version for key, (version, _) in kept().items()} == {"t-1": 2, "t-2": 2, "t-3": 2}
    [warning] = used_definitions_are_as_they_were(databases=["default"])
    assert warning.id == "workflows.W003"
    assert "trip version 2 is in force, and the newest file is of trip version 1 (trip_1.toml)" in warning.msg
    assert "version = 3" in str(warning.hint)


def test_a_case_that_an_older_process_is_about_to_begin_is_not_begun_again_under_the_new_key(
    write: Write, monkeypatch: pytest.MonkeyPatch
):
    write(1)
    say("trip.booked", "case-0", "t-0")
    old = Tracker(versions.in_force())
    write(2, "payload.trip")
    new = Tracker(versions.in_force())
    monkeypatch.undo()
    book(1)
    with Rival(lambda: old.track(500), before="INSERT INTO saga_instances") as slow:
        slow.reached()
        publish("trip.paid", {"trip": "t-1"}, correlation_id="case-1")
        new.track(500)
        assert set(kept()) == {"case-0"}, "it waits until it can be seen what was begun before"
        slow.result()
    monkeypatch.setattr(create, "SETTLING", create.SETTLING * 0)
    WorkflowInbox.objects.update(lease_until=None)
    catch_up()

    assert {key: version for key, (version, _) in kept().items()} == {"case-0": 1, "case-1": 1}
    assert instance("case-1", "trip").current_step == "ticket"


def test_a_version_with_another_key_waits_for_as_long_as_others_may_have_events_in_hand():
    assert create.SETTLING >= tracker.LEASE


def test_a_version_with_the_same_key_takes_over_at_once(write: Write, monkeypatch: pytest.MonkeyPatch):
    write(1)
    say("trip.booked", "case-1", "t-1")
    write(2, more=', "trip.settled"')
    monkeypatch.undo()
    book(2)
    assert Tracker(versions.in_force()).track(500) == 1

    assert {key: version for key, (version, _) in kept().items()} == {"case-1": 1, "case-2": 2}


def test_what_is_published_for_a_saga_that_a_newer_web_server_has_begun_is_tracked(folder: Path):
    older = Tracker(Registry([]))
    (folder / "trip_1.toml").write_text(definition(1))
    services.start("trip", "case-1", idempotency_key="k", actor="shop")
    for event_type in ("trip.booked", "trip.paid"):
        publish(event_type, {}, correlation_id="case-1")

    assert older.track(500) == 2
    assert instance("case-1", "trip").current_step == "ticket"


@pytest.mark.parametrize("told", [True, False])
def test_a_process_that_has_another_content_under_the_same_number_stops_and_says_why(write: Write, told: bool):
    """As for any error: started again, it may find the file put right. If it does not, there is no use in a third."""
    write(1, more=', "trip.settled"')
    step = Command().make_step("workflows")
    write(1)
    services.start("trip", "case-1", idempotency_key="k", actor="shop")
    if not told:
        catch_up()
        book(2)

    why = r"trip version 1 \(trip_1.toml\): .* make a new version, 2, in a file of"
    with pytest.raises(InvalidDefinition, match=why):
        step.run(500)
    with pytest.raises(InvalidDefinition, match=why):
        write(1, more=', "trip.settled"')
    with pytest.raises(CannotStart, match=f"A definition is at fault: workflow definition {why}"):
        Command().make_step("workflows")
    assert {key: version for key, (version, _) in kept().items()} == {"case-1": 1}
