"""`manage.py workflows`: list, check, untrack, replay and backtest."""

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
from tests.workflows.lives import DEFINITIONS, ORDER
from tests.workflows.support import catch_up, expire, instance, tell, told_before, tracked
from webhookhub.db import clock
from workflows import backtest, services
from workflows.models import Fact, Instance, TrackedType
from workflows.registry import SAMPLES, load, read
from workflows.scenarios import happy
from workflows.state import DONE, FAILURE

pytestmark = pytest.mark.django_db
# A second version that listens to none of the events.
OTHER_TYPES = (("order.", "odrer."), ("inventory.", "invetory."), ("payment.", "paymnet."), ("shipping.", "shiping."))


def workflows(*arguments: str) -> str:
    out = StringIO()
    call_command("workflows", *arguments, stdout=out)
    return out.getvalue()


@pytest.fixture
def runs() -> None:
    """One completed, one compensating, one timed out, one in progress."""
    tracked()
    for report in happy(ORDER):
        tell(ORDER, report, "done")
    for report in [("order", DONE), ("inventory", FAILURE)]:
        tell(ORDER, report, "failed")
    told_before(ORDER, ("order", DONE), "silent", timedelta(minutes=7))
    told_before(ORDER, ("order", DONE), "open", timedelta(minutes=2))
    catch_up()
    expire()


def ago(**time: float) -> str:
    return (clock.now() - timedelta(**time)).isoformat()


def tried(folder: Path, *changes: tuple[str, str], since: str) -> tuple[str, dict[str, Any]]:
    """The result of a backtest of a second version, as text and as JSON."""
    text = (SAMPLES / "order_submission_1.toml").read_text().replace("version = 1", "version = 2")
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    (folder / "next.toml").write_text(text)
    arguments = ("backtest", "--definition", str(folder / "next.toml"), "--since", since)
    return workflows(*arguments), json.loads(workflows(*arguments, "--json"))


def test_list_shows_definitions_with_their_steps():
    listed = workflows("list")

    assert "order_submission version 1: Order submission" in listed
    assert "  payment: after inventory; within 600 s; can be undone" in listed
    assert "  gift: after loyalty; optional" in listed


def test_check_accepts_valid_definitions():
    assert workflows("check").startswith("3 definitions, all valid: customer_registration version 1")


@pytest.mark.requirement("R5-5g")
def test_check_names_an_invalid_definition(tmp_path: Path, hub_settings: Any):
    (tmp_path / "x.toml").write_text('name = "x"\nversion = 1\n')
    hub_settings(workflow_definitions=(tmp_path,))
    load.cache_clear()

    with pytest.raises(CommandError, match=r"workflow definition x version 1 \(x.toml\): steps must be 1 to"):
        workflows("check")


def test_check_fails_without_definitions(tmp_path: Path, hub_settings: Any):
    hub_settings(workflow_definitions=(tmp_path,))
    load.cache_clear()

    with pytest.raises(CommandError, match="There is no definition"):
        workflows("check")


def test_untrack_stops_tracking_types_that_nothing_needs(tmp_path: Path, hub_settings: Any):
    tracked()
    tell(ORDER, ("order", DONE), "open")
    catch_up()
    hub_settings(workflow_definitions=(tmp_path,))
    load.cache_clear()
    needed = set(ORDER.roles)

    assert "customer.registered" in workflows("untrack", "--dry-run")
    assert TrackedType.objects.filter(event_type="customer.registered").exists()
    assert " event types are no longer tracked: customer." in workflows("untrack")
    assert set(TrackedType.objects.values_list("event_type", flat=True)) == needed, "it has an open run"
    assert workflows("untrack") == "0 event types are no longer tracked.\n"


def test_list_marks_retired_workflows(runs: None, tmp_path: Path, hub_settings: Any):
    hub_settings(workflow_definitions=(tmp_path,))
    load.cache_clear()

    assert workflows("list").startswith("order_submission version 1: Order submission (no longer offered)")


@pytest.mark.requirement("R5-9d")
def test_replay_finds_no_differences(runs: None):
    assert workflows("replay") == "4 runs folded again, 0 differences.\n"
    assert json.loads(workflows("replay", "--json")) == {"runs": 4, "differences": 0, "first": []}


@pytest.mark.requirement("R5-9d")
def test_replay_reports_a_row_that_differs(runs: None):
    Instance.objects.filter(correlation_key="open").update(current_step="payment")
    out = StringIO()

    with pytest.raises(CommandError, match="do not agree"):
        call_command("workflows", "replay", stdout=out)

    assert f"{instance('open')}: current_step is 'payment' and should be 'inventory'" in out.getvalue()
    assert "1 differences" in out.getvalue()


def test_replay_reports_a_decision_that_was_never_published(runs: None):
    fact = {"step": "", "role": "completed", "origin": "verb", "idempotency_key": "x"}
    Fact.objects.create(instance=instance("open"), occurred_at=clock.now(), **fact)

    with pytest.raises(CommandError, match="do not agree"):
        workflows("replay")


def test_backtest_of_the_version_in_force_finds_no_difference(runs: None):
    found = json.loads(workflows("backtest", "--definition", "order_submission", "--since", ago(hours=1), "--json"))

    assert (found["runs"], found["differing"]) == (4, 0)
    assert (found["not_found"], found["without_key"]) == (0, 0)
    assert found["after"] == {"COMPLETED": 1, "COMPENSATING": 2, "IN_PROGRESS": 1} == found["before"]


@pytest.mark.requirement("R5-5g", "R5-9d")
def test_backtest_shows_what_a_new_version_would_change_and_writes_nothing(runs: None, tmp_path: Path):
    before = (Event.objects.count(), Fact.objects.count(), list(Instance.objects.order_by("id").values()))

    shown, _ = tried(tmp_path, ("timeout_seconds = 300", "timeout_seconds = 60"), since=ago(hours=1))

    assert "order_submission version 2 over 9 events of 4 runs:" in shown
    assert "open: IN_PROGRESS at inventory → COMPENSATING at order" in shown
    assert "1 would differ; nothing was written." in shown
    assert (Event.objects.count(), Fact.objects.count(), list(Instance.objects.order_by("id").values())) == before


def test_backtest_refuses_a_correlation_that_differs_from_a_used_version(runs: None, tmp_path: Path):
    with pytest.raises(CommandError, match="all versions of a workflow must have the same correlation"):
        tried(tmp_path, ("version = 2", 'version = 2\ncorrelation = "payload.order_id"'), since=ago(hours=1))


def test_backtest_counts_events_without_a_key(tmp_path: Path):
    text = (SAMPLES / "order_submission_1.toml").read_text().replace("order_submission", "orders")
    (tmp_path / "orders.toml").write_text(text.replace("version = 1", 'version = 1\ncorrelation = "payload.nope"'))
    tell(ORDER, ("order", DONE), "one")

    shown = workflows("backtest", "--definition", str(tmp_path / "orders.toml"), "--since", ago(hours=1))

    assert "orders version 1 over 1 events of 0 runs:" in shown
    assert "1 events have no usable key at payload.nope and belong to no run." in shown


def test_backtest_reports_runs_that_a_version_with_misspelt_types_would_lose(runs: None, tmp_path: Path):
    shown, found = tried(tmp_path, *OTHER_TYPES, since=ago(hours=1))

    assert "order_submission version 2 over 0 events of 4 runs:" in shown
    assert "  open: IN_PROGRESS at inventory → not tracked\n" in shown
    assert "4 runs would not be tracked: this definition uses none of their events." in shown
    assert "4 would differ; nothing was written." in shown
    assert (found["differing"], found["not_found"]) == (4, 4)
    assert found["before"] == {"COMPLETED": 1, "COMPENSATING": 2, "IN_PROGRESS": 1}
    assert found["after"] == {"not tracked": 4}
    assert len(found["first"]) == 4


def test_backtest_reports_lost_runs_of_its_own_name_and_period_only(runs: None, tmp_path: Path):
    told_before(ORDER, ("order", DONE), "older", timedelta(hours=2))
    cancelled = next(definition for definition in DEFINITIONS if definition.name == "order_cancellation")
    tell(cancelled, happy(cancelled)[0], "another")
    catch_up()
    assert Instance.objects.count() == 6

    _, found = tried(tmp_path, *OTHER_TYPES, since=ago(hours=1))

    assert found["not_found"] == 4


def test_backtest_finds_lost_runs_in_chunks_up_to_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    tracked()
    start = clock.now() - timedelta(minutes=2)
    for number in range(5):
        at = start + timedelta(seconds=number // 3)
        EventFactory.create(event_type="order.submitted", correlation_id=f"o-{number}", created_at=at)
    catch_up()
    assert Instance.objects.filter(started_at=start).count() == 3
    monkeypatch.setattr(backtest, "CHUNK", 2)

    _, found = tried(tmp_path, *OTHER_TYPES, since=ago(hours=1))

    assert (found["not_found"], found["cut_short"]) == (5, False)
    now = clock.now()
    few = backtest.backtest(read(tmp_path / "next.toml"), now - timedelta(hours=1), now, limit=2)
    assert (few.not_found, few.cut_short) == (2, True)


def test_backtest_does_not_report_runs_that_it_cannot_judge_as_lost(tmp_path: Path):
    tracked()
    services.start("order_submission", "only reported", idempotency_key="s", actor="shop")
    run = services.start("order_submission", "both", idempotency_key="s", actor="shop").instance
    services.report(run, "done", "order", idempotency_key="o", actor="shop")
    tell(ORDER, ("inventory", DONE), "both")
    tell(ORDER, ("order", DONE), "half gone")
    catch_up()
    no_longer_stored = {"event_id": 4711, "step": "inventory", "role": DONE, "origin": "event"}
    Fact.objects.create(instance=instance("half gone"), occurred_at=clock.now(), **no_longer_stored)

    shown, found = tried(tmp_path, *OTHER_TYPES, since=ago(minutes=1))

    assert (found["not_found"], found["differing"]) == (0, 1), shown
    assert found["first"] == ["both: IN_PROGRESS at payment → IN_PROGRESS at inventory"]
    assert "Left out: 1 events that are no longer stored." in shown


def test_backtest_uses_the_time_of_the_fact_where_the_time_of_the_event_is_not_plausible(tmp_path: Path):
    tracked()
    told_before(ORDER, ("order", DONE), "one", timedelta(days=-9000))
    catch_up()

    _, found = tried(tmp_path, since=ago(minutes=1))

    assert (found["events"], found["runs"], found["not_found"], found["differing"]) == (0, 1, 0, 0)
    assert tried(tmp_path, *OTHER_TYPES, since=ago(minutes=1))[1]["not_found"] == 1


def test_backtest_reads_past_events_that_were_not_tracked():
    for report in happy(ORDER):
        tell(ORDER, report, "old")

    found = json.loads(workflows("backtest", "--definition", "order_submission:1", "--since", ago(hours=1), "--json"))

    assert found["before"] == {"not tracked": 1}
    assert found["after"] == {"COMPLETED": 1}


def test_backtest_includes_earlier_events_and_reported_facts():
    tracked()
    told_before(ORDER, ("order", DONE), "old", timedelta(minutes=5))
    told_before(ORDER, ("inventory", DONE), "old", timedelta(minutes=4))
    catch_up()
    for step in ("payment", "shipping"):
        services.report(instance("old"), "done", step, idempotency_key=step, actor="shop")
    catch_up()
    tell(ORDER, ("confirmation", DONE), "old")
    tell(ORDER, ("order", DONE), "closed")
    catch_up()
    services.act(instance("closed"), "closed", idempotency_key="c", actor="olga", reason="the customer called")
    catch_up()
    arguments = ("backtest", "--definition", "order_submission:1", "--since", ago(minutes=1))

    shown = workflows(*arguments)
    found = json.loads(workflows(*arguments, "--json"))

    assert "order_submission version 1 over 2 events of 2 runs:" in shown
    assert "Included: 2 other events of these runs, and 3 reported facts." in shown
    assert "0 would differ" in shown
    assert found["before"] == found["after"] == {"COMPLETED": 1, "FAILED": 1}
    assert (found["other_events"], found["reported"], found["left_out"]) == (2, 3, 0)


def test_backtest_says_what_it_left_out(tmp_path: Path):
    tracked()
    tell(ORDER, ("order", DONE), "one")
    catch_up()
    services.report(instance("one"), "done", "inventory", idempotency_key="i", actor="shop")
    catch_up()
    TrackedType.objects.all().delete()
    tell(ORDER, ("payment", DONE), "untracked")

    shown, _ = tried(tmp_path, ('"inventory"', '"stock"'), since=ago(minutes=1))

    assert "Left out: 1 reported facts about steps that this definition does not have." in shown
    assert "1 runs are not tracked, and their start is not among these events." in shown
    assert "one: IN_PROGRESS at payment → IN_PROGRESS at stock" in shown


def test_backtest_needs_the_same_number_of_queries_for_many_runs():
    tracked()
    tell(ORDER, ("order", DONE), "first")
    catch_up()

    def count_queries() -> int:
        with CaptureQueriesContext(connection) as queries:
            workflows("backtest", "--definition", "order_submission:1", "--since", ago(minutes=1), "--json")
        assert not [query for query in queries if not query["sql"].startswith("SELECT")]
        return len(queries)

    one = count_queries()
    for number in range(5):
        told_before(ORDER, ("order", DONE), f"k-{number}", timedelta(minutes=2))
        tell(ORDER, ("inventory", DONE), f"k-{number}")
    catch_up()

    assert count_queries() == one


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--definition", "nothing", "--since", "2026-01-01"], "'nothing' is not one of customer_registration:1"),
        (["--definition", "order_submission:x", "--since", "2026-01-01"], "'order_submission:x' is not one of"),
        (["--definition", "/nowhere/x.toml", "--since", "2026-01-01"], "x.toml: file cannot be read"),
        (["--definition", "order_submission", "--since", "soon"], "--since: 'soon' is not a time"),
        (["--definition", "order_submission", "--since", "2026-01-02", "--until", "2026-01-01"], "is before --since"),
    ],
)
def test_backtest_refuses_invalid_arguments(arguments: list[str], why: str):
    with pytest.raises(CommandError, match=why):
        workflows("backtest", *arguments)
