"""Definitions change while sagas are under way: each saga is read and followed by the version it was born with."""

from __future__ import annotations

import tomllib
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from events.intake import publish
from events.models import Event
from tests.factories import EventFactory
from tests.workflows import support
from tests.workflows.support import catch_up, facts, instance, tracked
from tests.workflows.trips import Write, definition, kept, restart, say, take_away
from webhookhub.db import clock
from workflows import services, versions
from workflows.backtest import backtest
from workflows.listening import CatchUp
from workflows.models import Fact, Instance, TrackedType, WorkflowInbox
from workflows.parsing import parse
from workflows.registry import registry
from workflows.services import InvalidFact
from workflows.tracker import Tracker

pytestmark = pytest.mark.django_db


def test_a_saga_in_flight_goes_on_by_its_own_key_when_a_new_version_has_another(write: Write):
    write(1)
    say("trip.booked", "case-1", "t-1")
    write(2, "payload.trip")
    for event_type in ("trip.booked", "trip.paid", "trip.issued"):
        say(event_type, "case-2", "t-2")
    for event_type in ("trip.paid", "trip.issued"):
        say(event_type, "case-1", "t-1")

    assert kept() == {"case-1": (1, "COMPLETED"), "t-2": (2, "COMPLETED")}, (
        "and no third was born of the old one's events"
    )


def test_the_events_of_old_and_new_sagas_may_come_in_one_batch(write: Write):
    write(1)
    for number in (1, 2):
        say("trip.booked", f"case-{number}", f"t-{number}")
    write(2, "payload.trip")
    for event_type in ("trip.issued", "trip.paid", "trip.booked"):
        for number in (3, 2, 1):
            publish(event_type, {"trip": f"t-{number}"}, correlation_id=f"case-{number}")
    catch_up()

    assert kept() == {"case-1": (1, "COMPLETED"), "case-2": (1, "COMPLETED"), "t-3": (2, "COMPLETED")}


def test_aggregate_and_reason_are_found_where_the_sagas_own_version_looks(write: Write):
    write(1, aggregate="payload.old", error="payload.old_reason")
    say("trip.booked", "case-1", "t-1")
    write(2, aggregate="payload.new", error="payload.new_reason")
    given = {"old": "a-1", "new": "b-1", "old_reason": "no money", "new_reason": "declined"}
    for case in ("case-1", "case-2"):
        say("trip.refused", case, "t", **given)

    assert (instance("case-1", "trip").aggregate_id, instance("case-1", "trip").error_message) == ("a-1", "no money")
    assert (instance("case-2", "trip").aggregate_id, instance("case-2", "trip").error_message) == ("b-1", "declined")


def test_what_comes_late_for_an_old_saga_that_has_ended_begins_no_new_one(write: Write):
    write(1)
    for event_type in ("trip.booked", "trip.paid", "trip.issued"):
        say(event_type, "case-1", "t-1")
    write(2, "payload.trip")
    say("trip.upgraded", "case-1", "t-1")

    assert kept() == {"case-1": (1, "COMPLETED")}
    assert ("extra", "done") in facts("case-1")


def test_after_an_old_saga_has_ended_the_next_begins_under_its_new_key(write: Write):
    """Sagas were told apart by too little, which is why there is a new version."""
    write(1)
    for event_type in ("trip.booked", "trip.paid", "trip.issued"):
        say(event_type, "customer", "t-1")
    write(2, "payload.trip")
    for event_type in ("trip.booked", "trip.paid", "trip.issued"):
        say(event_type, "customer", "t-2")

    assert kept() == {"customer": (1, "COMPLETED"), "t-2": (2, "COMPLETED")}


def test_a_saga_that_failed_under_the_old_key_does_not_undo_what_belongs_to_the_next(write: Write):
    write(1, undo='compensated = ["trip.refunded"]')
    for event_type in ("trip.booked", "trip.refused"):
        say(event_type, "customer", "t-1")
    write(2, "payload.trip", undo='compensated = ["trip.refunded"]')
    for event_type in ("trip.booked", "trip.paid", "trip.issued"):
        say(event_type, "customer", "t-2")

    assert kept() == {"customer": (1, "FAILED"), "t-2": (2, "COMPLETED")}
    assert "saga.compensation_requested" not in Event.objects.values_list("event_type", flat=True)


def test_a_saga_that_ended_long_ago_under_the_old_key_has_no_claim_to_anything(write: Write):
    """A process may die with the event in its hands that comes first: the others are not to be lost."""
    write(1)
    for event_type in ("trip.booked", "trip.paid", "trip.issued"):
        EventFactory.create(event_type=event_type, correlation_id="customer", payload='{"trip": "t-1"}')
    catch_up()
    hours_later = clock.now() + timedelta(hours=3)
    write(2, "payload.trip")
    for event_type in ("trip.paid", "trip.issued", "trip.booked"):
        EventFactory.create(
            event_type=event_type, correlation_id="customer", payload='{"trip": "t-2"}', created_at=hours_later
        )
        catch_up()

    assert kept() == {"customer": (1, "COMPLETED"), "t-2": (2, "COMPLETED")}


def test_a_saga_with_the_same_key_as_the_version_in_force_hears_what_comes_late_for_ever(write: Write):
    write(1, undo='compensated = ["trip.refunded"]')
    for event_type in ("trip.booked", "trip.refused"):
        say(event_type, "case-1", "t-1")
    write(2, aggregate="payload.other", undo='compensated = ["trip.refunded"]')
    EventFactory.create(
        event_type="trip.paid", correlation_id="case-1", payload="{}", created_at=clock.now() + timedelta(days=3)
    )
    catch_up()

    assert kept() == {"case-1": (1, "FAILED")}
    assert support.published("case-1")[-1] == ("saga.compensation_requested", "payment")


def test_an_event_that_ended_an_old_saga_begins_no_new_one_when_it_is_looked_at_again(folder: Path):
    short = 'name = "trip"\nversion = {}\nstarts = ["trip.booked"]\ncorrelation = "{}"\n'
    short += '[[steps]]\nkey = "booking"\ndone = ["trip.booked"]\n'
    (folder / "1.toml").write_text(short.format(1, "correlation_id"))
    restart()
    stored = publish("trip.booked", {"trip": "t-1"}, correlation_id="case-1")
    catch_up()
    (folder / "2.toml").write_text(short.format(2, "payload.trip"))
    restart()
    WorkflowInbox.objects.create(event_id=stored.id)
    catch_up()

    assert kept() == {"case-1": (1, "COMPLETED")}


@pytest.mark.parametrize(
    ("event_type", "later"),
    [("trip.booked", timedelta(0)), ("trip.booked", timedelta(days=3)), ("trip.paid", timedelta(days=3))],
)
def test_what_an_old_saga_that_has_ended_is_told_again_begins_no_new_one(
    write: Write, event_type: str, later: timedelta
):
    """As another event, of a producer that does not know that it has said so before."""
    write(1)
    for told in ("trip.booked", "trip.paid", "trip.issued"):
        say(told, "case-1", "t-1")
    write(2, "payload.trip")
    again = EventFactory.create(
        event_type=event_type, correlation_id="case-1", payload='{"trip": "t-1"}', created_at=clock.now() + later
    )
    catch_up()

    assert kept() == {"case-1": (1, "COMPLETED")}
    assert Fact.objects.filter(event=again).count() == 1, "it is the old one's"


def test_an_event_whose_new_key_is_an_old_sagas_key_is_told_of(write: Write, caplog: pytest.LogCaptureFixture):
    write(1)
    say("trip.booked", "seven", "t-1")
    write(2, "payload.trip")
    say("trip.booked", "case-2", "t-2")
    say("trip.paid", "seven", "t-1")
    assert "workflow_key_taken" not in caplog.text
    stored = publish("trip.booked", {"trip": "seven"}, correlation_id="case-3")
    catch_up()

    assert {key: version for key, (version, _) in kept().items()} == {"seven": 1, "t-2": 2}
    [told] = [record.getMessage() for record in caplog.records if "workflow_key_taken" in record.getMessage()]
    for named in (str(stored.uid), str(instance("seven", "trip").saga_id), "'version': 2", "'taken_by_version': 1"):
        assert named in told


def test_the_past_of_an_old_saga_is_not_the_past_of_a_new_one(write: Write):
    write(1, "payload.trip")
    for event_type in ("trip.booked", "trip.paid", "trip.issued"):
        say(event_type, "customer", "t-1")
    write(2)
    say("trip.booked", "customer", "t-2")

    assert kept() == {"t-1": (1, "COMPLETED"), "customer": (2, "IN_PROGRESS")}
    assert instance("customer", "trip").current_step == "payment"


def test_a_process_with_older_definitions_follows_the_sagas_of_newer_ones(write: Write):
    """In a rolling deployment both are at work on the same inbox."""
    write(1)
    old = Tracker(registry())
    write(2, "payload.trip", more=', "trip.settled"')
    say("trip.booked", "case-1", "t-1")
    publish("trip.settled", {"trip": "t-1"}, correlation_id="case-1")
    assert old.track(500) == 1

    assert instance("t-1", "trip").current_step == "ticket"


def test_a_version_first_used_while_another_process_has_its_event_in_hand_loses_nothing(write: Write, monkeypatch: Any):
    write(1)
    old = Tracker(registry())
    write(2)
    newer, look = Tracker(registry()), versions.up_to_date
    publish("trip.paid", {"trip": "t-1"}, correlation_id="case-1")

    def begun_just_after_the_look(known: Any) -> Any:
        seen = look(known)
        monkeypatch.setattr(versions, "up_to_date", look)
        publish("trip.booked", {"trip": "t-1"}, correlation_id="case-1")
        assert newer.track(500) == 1
        return seen

    monkeypatch.setattr(versions, "up_to_date", begun_just_after_the_look)
    assert old.track(500) == 1

    found = instance("case-1", "trip")
    assert (found.definition_version, found.current_step) == (2, "ticket")
    assert not WorkflowInbox.objects.exists()


def test_a_backtest_holds_a_version_with_another_key_against_the_sagas_that_have_its_events(write: Write):
    write(1)
    for event_type in ("trip.booked", "trip.paid", "trip.issued"):
        say(event_type, "case-1", "t-1")
    for trip in ("t-2", "t-3"):
        say("trip.booked", "case-2", trip)
    for case in ("case-4", "case-5"):
        say("trip.booked", case, "t-4")
    publish("trip.booked", {"trip": "t-6"}, correlation_id="case-6")
    tried = parse(tomllib.loads(definition(2, "payload.trip")), "next.toml")
    now = clock.now()

    found = backtest(tried, now - timedelta(hours=1), now)

    assert found.before == {"COMPLETED": 1, "IN_PROGRESS": 3, "not tracked": 1}, "case-2 is two trips, and counted once"
    told = {each.correlation_key: each.before for each in found.first}
    assert told == {
        "t-4": "IN_PROGRESS at payment (as case-4) and IN_PROGRESS at payment (as case-5)",
        "t-6": "not tracked",
    }


def test_reading_by_two_versions_costs_no_question_per_event(write: Write, django_assert_max_num_queries: Any):
    write(1)
    say("trip.booked", "case-0", "t-0")
    write(2, "payload.trip")
    for number in range(30):
        for event_type in ("trip.booked", "trip.paid", "trip.issued"):
            publish(event_type, {"trip": f"t-{number}"}, correlation_id=f"case-{number}")

    with django_assert_max_num_queries(48):
        assert Tracker(registry()).track(500) == 90

    assert Instance.objects.filter(status="COMPLETED").count() == 30


def test_what_is_no_longer_offered_begins_no_more_and_is_followed_to_its_end(folder: Path, write: Write):
    write(1)
    say("trip.booked", "case-1", "t-1")
    take_away(folder, 1)
    say("trip.booked", "case-2", "t-2")
    say("trip.refused", "case-1", "t-1", reason="no money")

    assert kept() == {"case-1": (1, "FAILED")}
    with pytest.raises(InvalidFact, match="'trip' is no longer offered: no new one begins"):
        services.start("trip", "case-3", idempotency_key="k", actor="shop")
    assert services.start("trip", "case-1", idempotency_key="k", actor="shop").instance.correlation_key == "case-1"


def test_an_older_version_is_put_back_under_the_next_number(folder: Path, write: Write):
    write(1)
    say("trip.booked", "case-1", "t-1")
    write(2, "payload.trip")
    say("trip.booked", "case-2", "t-2")
    take_away(folder, 2)
    write(3)
    say("trip.booked", "case-3", "t-3")
    for number in (1, 2, 3):
        for event_type in ("trip.paid", "trip.issued"):
            say(event_type, f"case-{number}", f"t-{number}")

    assert kept() == {"case-1": (1, "COMPLETED"), "t-2": (2, "COMPLETED"), "case-3": (3, "COMPLETED")}


@pytest.mark.parametrize("version", [1, 2])
def test_a_workflow_that_is_put_back_begins_with_what_is_published_from_then_on(
    folder: Path, write: Write, version: int
):
    write(1)
    say("trip.booked", "case-1", "t-1")
    services.act(instance("case-1", "trip"), "closed", idempotency_key="k", actor="olga", reason="r")
    catch_up()
    take_away(folder, 1)
    call_command("workflows", "untrack", stdout=StringIO())
    say("trip.booked", "case-2", "t-2")
    write(version, more=', "trip.settled"' if version == 2 else "")
    since = TrackedType.objects.get(event_type="trip.booked").tracked_since
    # Inserted when the tracking had begun, by a transaction that had not seen it yet.
    EventFactory.create(event_type="trip.booked", correlation_id="case-3", created_at=since + timedelta(seconds=1))
    WorkflowInbox.objects.all().delete()
    CatchUp().catch_up(500)
    catch_up()

    assert set(kept()) == {"case-1", "case-3"}


def test_a_type_that_is_new_in_a_version_has_its_events_of_the_hour_before(write: Write):
    write(1)
    say("trip.booked", "case-1", "t-1")
    publish("trip.settled", {"trip": "t-2"}, correlation_id="case-2")
    write(2, more=', "trip.settled"')
    CatchUp().catch_up(500)
    catch_up()

    assert set(kept()) == {"case-1", "case-2"}


def test_a_folder_of_ones_own_takes_the_place_of_the_shipped_definitions_though_these_were_used(
    tmp_path: Path, hub_settings: Any
):
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
    assert kept() == {"o-1": (1, "COMPENSATING")}


def test_a_process_never_stops_tracking_what_it_does_not_know(folder: Path, write: Write):
    write(1, more=', "trip.settled"')
    take_away(folder, 1)
    write(2)

    assert TrackedType.objects.filter(event_type="trip.settled").exists(), "another process may need it"


def test_what_is_still_open_is_tracked_though_it_is_no_longer_offered(folder: Path, write: Write):
    write(1)
    say("trip.booked", "case-1", "t-1")
    TrackedType.objects.all().delete()
    take_away(folder, 1)
    assert TrackedType.objects.filter(event_type="trip.refused").exists()

    say("trip.refused", "case-1", "t-1")
    TrackedType.objects.all().delete()
    support.tracked()
    assert not TrackedType.objects.exists()
