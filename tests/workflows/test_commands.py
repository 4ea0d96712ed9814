"""`manage.py workflows`: list, check, replay and backtest."""

from __future__ import annotations

import json
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection
from django.test.utils import CaptureQueriesContext

from events.models import Event
from tests.factories import EventFactory
from tests.workflows.lives import DEFINITIONS, happy
from tests.workflows.support import catch_up, expire, instance, tell, told_before, tracked
from webhookhub.db import clock
from workflows import services, unfound
from workflows.backtest import backtest
from workflows.models import Fact, Instance, TrackedType
from workflows.registry import SHIPPED, load, read
from workflows.words import DONE, FAILURE

pytestmark = pytest.mark.django_db
ORDER = next(each for each in DEFINITIONS if each.name == "order_submission")


def workflows(*arguments: str) -> str:
    out = StringIO()
    call_command("workflows", *arguments, stdout=out)
    return out.getvalue()


@pytest.fixture
def sagas() -> None:
    """One that completed, one that is compensating, one that has timed out, one in progress."""
    tracked()
    for said in happy(ORDER):
        tell(ORDER, said, "done")
    for said in [("order", DONE), ("inventory", FAILURE)]:
        tell(ORDER, said, "failed")
    told_before(ORDER, ("order", DONE), "silent", timedelta(minutes=7))
    told_before(ORDER, ("order", DONE), "open", timedelta(minutes=2))
    catch_up()
    expire()


def test_definitions_are_listed_with_their_steps():
    listed = workflows("list")

    assert "order_submission version 1: Order submission" in listed
    assert "  payment: after inventory; within 600 s; can be undone" in listed
    assert "  gift: after loyalty; optional" in listed


def test_usable_definitions_are_said_to_be_so():
    assert workflows("check").startswith("3 definitions, all usable: customer_registration version 1")


def test_a_definition_at_fault_is_named(tmp_path: Path, hub_settings: Any):
    (tmp_path / "x.toml").write_text('name = "x"\nversion = 1\n')
    hub_settings(workflow_definitions=(tmp_path,))
    load.cache_clear()

    with pytest.raises(CommandError, match=r"workflow definition x version 1 \(x.toml\): steps must be 1 to"):
        workflows("check")


def test_no_definition_at_all_is_an_error(tmp_path: Path, hub_settings: Any):
    hub_settings(workflow_definitions=(tmp_path,))
    load.cache_clear()

    with pytest.raises(CommandError, match="There is no definition"):
        workflows("check")


def test_types_that_nobody_needs_any_more_are_tracked_no_more_when_a_person_says_so(tmp_path: Path, hub_settings: Any):
    tracked()
    tell(ORDER, ("order", DONE), "open")
    catch_up()
    hub_settings(workflow_definitions=(tmp_path,))
    load.cache_clear()
    needed = set(ORDER.roles)

    assert "customer.registered" in workflows("untrack", "--dry-run")
    assert TrackedType.objects.filter(event_type="customer.registered").exists()
    assert " event types are tracked no more: customer." in workflows("untrack")
    assert set(TrackedType.objects.values_list("event_type", flat=True)) == needed, "a saga of it is still open"
    assert workflows("untrack") == "0 event types are tracked no more.\n"


def test_what_is_no_longer_offered_is_listed_as_such(sagas: None, tmp_path: Path, hub_settings: Any):
    hub_settings(workflow_definitions=(tmp_path,))
    load.cache_clear()

    assert workflows("list").startswith("order_submission version 1: Order submission (no longer offered)")


def test_a_replay_finds_rows_and_facts_in_agreement(sagas: None):
    assert workflows("replay") == "4 sagas folded again, 0 differences.\n"
    assert json.loads(workflows("replay", "--json")) == {"sagas": 4, "differences": 0, "first": []}


def test_a_replay_tells_of_a_row_that_differs(sagas: None):
    Instance.objects.filter(correlation_key="open").update(current_step="payment")
    out = StringIO()

    with pytest.raises(CommandError, match="do not agree"):
        call_command("workflows", "replay", stdout=out)

    assert f"{instance('open')}: current_step is 'payment' and should be 'inventory'" in out.getvalue()
    assert "1 differences" in out.getvalue()


def test_a_replay_tells_of_a_decision_that_was_never_published(sagas: None):
    Fact.objects.create(
        instance=instance("open"),
        step="",
        role="completed",
        origin="verb",
        occurred_at=clock.now(),
        idempotency_key="x",
    )

    with pytest.raises(CommandError, match="do not agree"):
        workflows("replay")


def since() -> str:
    return (clock.now() - timedelta(hours=1)).isoformat()


def test_a_backtest_of_the_version_in_force_finds_no_difference(sagas: None):
    found = json.loads(workflows("backtest", "--definition", "order_submission", "--since", since(), "--json"))

    assert (found["sagas"], found["differing"]) == (4, 0)
    assert (found["not_found"], found["events_without_key"]) == (0, 0)
    assert found["after"] == {"COMPLETED": 1, "COMPENSATING": 2, "IN_PROGRESS": 1} == found["before"]


def test_a_backtest_shows_what_a_new_version_would_change_and_writes_nothing(sagas: None, tmp_path: Path):
    text = (SHIPPED / "order_submission_1.toml").read_text()
    shorter = text.replace("version = 1", "version = 2").replace("timeout_seconds = 300", "timeout_seconds = 60")
    (tmp_path / "next.toml").write_text(shorter)
    before = (Event.objects.count(), Fact.objects.count(), list(Instance.objects.order_by("id").values()))

    shown = workflows("backtest", "--definition", str(tmp_path / "next.toml"), "--since", since())

    assert "order_submission version 2 over 9 events of 4 sagas:" in shown
    assert "open: IN_PROGRESS at inventory → COMPENSATING at order" in shown
    assert "1 would differ; nothing was written." in shown
    assert (Event.objects.count(), Fact.objects.count(), list(Instance.objects.order_by("id").values())) == before


def tried(folder: Path, *changes: tuple[str, str], since: str) -> tuple[str, dict[str, Any]]:
    """What a backtest of a second version says, in words and as JSON."""
    text = (SHIPPED / "order_submission_1.toml").read_text().replace("version = 1", "version = 2")
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    (folder / "next.toml").write_text(text)
    asked = ("backtest", "--definition", str(folder / "next.toml"), "--since", since)
    return workflows(*asked), json.loads(workflows(*asked, "--json"))


NO_KEY = ("version = 2", 'version = 2\ncorrelation = "payload.nope"')
OTHER_TYPES = (("order.", "odrer."), ("inventory.", "invetory."), ("payment.", "paymnet."), ("shipping.", "shiping."))


def test_a_backtest_tells_of_events_without_a_key_and_of_the_sagas_that_would_be_lost_by_it(
    sagas: None, tmp_path: Path
):
    shown, found = tried(tmp_path, NO_KEY, since=since())

    assert "order_submission version 2 over 9 events of 4 sagas:" in shown
    assert "  open: IN_PROGRESS at inventory → not tracked\n" in shown
    assert "9 events have no usable key at payload.nope, and are of no saga." in shown
    assert "4 sagas would not be tracked: this definition finds none of their events." in shown
    assert "4 would differ; nothing was written." in shown
    assert (found["differing"], found["not_found"], found["events_without_key"]) == (4, 4, 9)
    assert found["before"] == {"COMPLETED": 1, "COMPENSATING": 2, "IN_PROGRESS": 1}
    assert found["after"] == {"not tracked": 4}
    assert len(found["first"]) == 4


def test_a_backtest_tells_of_the_sagas_that_a_version_with_misspelt_event_types_would_lose(sagas: None, tmp_path: Path):
    shown, found = tried(tmp_path, *OTHER_TYPES, since=since())

    assert "order_submission version 2 over 0 events of 4 sagas:" in shown
    assert "4 would differ" in shown
    assert (found["differing"], found["not_found"], found["events_without_key"]) == (4, 4, 0)


def test_a_backtest_looks_for_lost_sagas_among_those_of_its_own_name_and_time(sagas: None, tmp_path: Path):
    told_before(ORDER, ("order", DONE), "older", timedelta(hours=2))
    cancelled = next(each for each in DEFINITIONS if each.name == "order_cancellation")
    tell(cancelled, happy(cancelled)[0], "another")
    catch_up()
    assert Instance.objects.count() == 6

    _, found = tried(tmp_path, *OTHER_TYPES, since=since())

    assert found["not_found"] == 4
    assert "open: IN_PROGRESS at inventory → not tracked" in found["first"]


def test_a_backtest_finds_every_lost_saga_however_many_there_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    tracked()
    moment = clock.now() - timedelta(minutes=2)
    for number in range(5):
        at = moment + timedelta(seconds=number // 3)
        EventFactory.create(event_type="order.submitted", correlation_id=f"o-{number}", created_at=at)
    catch_up()
    assert Instance.objects.filter(started_at=moment).count() == 3
    monkeypatch.setattr(unfound, "PIECE", 2)

    _, found = tried(tmp_path, NO_KEY, since=since())

    assert (found["not_found"], found["cut_short"]) == (5, False)
    _, found = tried(tmp_path, *OTHER_TYPES, since=since())
    assert (found["not_found"], found["cut_short"]) == (5, False)
    now = clock.now()
    few = backtest(read(tmp_path / "next.toml"), now - timedelta(hours=1), now, most=2)
    assert (few.not_found, few.cut_short) == (2, True)


def test_a_backtest_takes_no_saga_for_lost_of_which_that_cannot_be_said(tmp_path: Path):
    tracked()
    services.start("order_submission", "only told of", idempotency_key="s", actor="shop")
    begun = services.start("order_submission", "begun by word", idempotency_key="s", actor="shop").instance
    services.tell(begun, "done", "order", idempotency_key="o", actor="shop")
    tell(ORDER, ("inventory", DONE), "begun by word")
    tell(ORDER, ("order", DONE), "half gone")
    catch_up()
    there_no_more = {"event_id": 4711, "step": "inventory", "role": DONE, "origin": "event"}
    Fact.objects.create(instance=instance("half gone"), occurred_at=clock.now(), **there_no_more)

    shown, found = tried(tmp_path, *OTHER_TYPES, since=lately())

    assert (found["not_found"], found["differing"]) == (0, 1), shown
    assert found["first"] == ["begun by word: IN_PROGRESS at payment → IN_PROGRESS at inventory"]


def test_a_backtest_takes_no_saga_for_lost_whose_events_are_of_another_time_by_their_own_word(tmp_path: Path):
    tracked()
    told_before(ORDER, ("order", DONE), "one", timedelta(days=-9000))
    catch_up()

    _, found = tried(tmp_path, since=lately())

    assert (found["events"], found["not_found"], found["differing"]) == (0, 0, 0)
    assert tried(tmp_path, NO_KEY, since=lately())[1]["not_found"] == 1


def test_a_backtest_reads_past_events_that_nobody_tracked():
    for said in happy(ORDER):
        tell(ORDER, said, "old")

    found = json.loads(workflows("backtest", "--definition", "order_submission:1", "--since", since(), "--json"))

    assert found["before"] == {"not tracked": 1}
    assert found["after"] == {"COMPLETED": 1}


def lately() -> str:
    return (clock.now() - timedelta(minutes=1)).isoformat()


def test_a_backtest_knows_what_a_saga_had_before_and_what_was_told_of_it():
    tracked()
    told_before(ORDER, ("order", DONE), "old", timedelta(minutes=5))
    told_before(ORDER, ("inventory", DONE), "old", timedelta(minutes=4))
    catch_up()
    for step in ("payment", "shipping"):
        services.tell(instance("old"), "done", step, idempotency_key=step, actor="shop")
    catch_up()
    tell(ORDER, ("confirmation", DONE), "old")
    tell(ORDER, ("order", DONE), "closed")
    catch_up()
    services.act(instance("closed"), "closed", idempotency_key="c", actor="olga", reason="the customer called")
    catch_up()
    asked = ("backtest", "--definition", "order_submission:1", "--since", lately())

    shown = workflows(*asked)
    found = json.loads(workflows(*asked, "--json"))

    assert "order_submission version 1 over 2 events of 2 sagas:" in shown
    assert "With 2 other events that these sagas had, and 3 facts told of them." in shown
    assert "0 would differ" in shown
    assert found["before"] == found["after"] == {"COMPLETED": 1, "FAILED": 1}
    assert (found["other_events"], found["told"], found["left_out"]) == (2, 3, 0)


def test_a_backtest_goes_by_the_time_that_the_tracker_went_by():
    tracked()
    tell(ORDER, ("order", DONE), "one")
    catch_up()
    # Its own word is a time that nobody believes.
    event_id = told_before(ORDER, ("inventory", DONE), "one", timedelta(days=-9000))
    believed = {"step": "inventory", "role": DONE, "origin": "event", "occurred_at": clock.now()}
    Fact.objects.create(instance=instance("one"), event_id=event_id, **believed)
    catch_up()
    assert instance("one").current_step == "payment"

    shown = workflows("backtest", "--definition", "order_submission:1", "--since", lately())

    assert "With 1 other events that these sagas had, and 0 facts told of them." in shown
    assert "0 would differ" in shown


def test_a_backtest_says_what_it_could_not_take_along(tmp_path: Path):
    tracked()
    tell(ORDER, ("order", DONE), "one")
    catch_up()
    services.tell(instance("one"), "done", "inventory", idempotency_key="i", actor="shop")
    catch_up()
    TrackedType.objects.all().delete()
    tell(ORDER, ("payment", DONE), "nobody")
    text = (SHIPPED / "order_submission_1.toml").read_text()
    other = text.replace("version = 1", "version = 2").replace('"inventory"', '"stock"')
    (tmp_path / "next.toml").write_text(other)

    shown = workflows("backtest", "--definition", str(tmp_path / "next.toml"), "--since", lately())

    assert "Without 1 facts that were told: of a step that this definition has not" in shown
    assert "1 sagas are not tracked, and their start is not among these events" in shown
    assert "one: IN_PROGRESS at payment → IN_PROGRESS at stock" in shown


def test_what_was_told_of_a_saga_that_would_be_several_is_left_out_and_said_to_be(tmp_path: Path):
    tracked()
    tell(ORDER, ("order", DONE), "one", order_id="a")
    tell(ORDER, ("inventory", DONE), "one", order_id="b")
    catch_up()
    services.tell(instance("one"), "done", "payment", idempotency_key="p", actor="shop")
    catch_up()
    text = (SHIPPED / "order_submission_1.toml").read_text()
    other = text.replace("version = 1", 'version = 2\ncorrelation = "payload.order_id"')
    (tmp_path / "next.toml").write_text(other)

    asked = ("backtest", "--definition", str(tmp_path / "next.toml"), "--since", lately(), "--json")
    found = json.loads(workflows(*asked))

    assert (found["sagas"], found["told"], found["left_out"]) == (2, 0, 1)


def test_a_backtest_asks_no_more_of_many_sagas_than_of_one():
    tracked()
    tell(ORDER, ("order", DONE), "first")
    catch_up()

    def asked() -> int:
        with CaptureQueriesContext(connection) as queries:
            workflows("backtest", "--definition", "order_submission:1", "--since", lately(), "--json")
        assert not [each for each in queries if not each["sql"].startswith("SELECT")]
        return len(queries)

    few = asked()
    for number in range(5):
        told_before(ORDER, ("order", DONE), f"k-{number}", timedelta(minutes=2))
        tell(ORDER, ("inventory", DONE), f"k-{number}")
    catch_up()

    # One more: the events from before.
    assert asked() == few + 1


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (
            ["--definition", "nothing", "--since", "2026-01-01"],
            "there is no 'nothing'; there are customer_registration:1",
        ),
        (["--definition", "order_submission:x", "--since", "2026-01-01"], "there is no 'order_submission:x'"),
        (["--definition", "/nowhere/x.toml", "--since", "2026-01-01"], "x.toml: file cannot be read"),
        (["--definition", "order_submission", "--since", "soon"], "--since: 'soon' is not a time"),
        (["--definition", "order_submission", "--since", "2026-01-02", "--until", "2026-01-01"], "lies before"),
    ],
)
def test_what_a_backtest_cannot_do_is_said(arguments: list[str], why: str):
    with pytest.raises(CommandError, match=why):
        workflows("backtest", *arguments)
