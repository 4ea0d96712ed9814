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

from events.models import Event
from tests.workflows.lives import DEFINITIONS, happy
from tests.workflows.support import catch_up, expire, instance, tell, told_before, tracked
from webhookhub.db import clock
from workflows.models import Fact, Instance, TrackedType
from workflows.registry import SHIPPED, load
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

    with pytest.raises(CommandError, match="workflow definition x version 1: steps must be 1 to"):
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


def test_a_backtest_reads_past_events_that_nobody_tracked():
    for said in happy(ORDER):
        tell(ORDER, said, "old")

    found = json.loads(workflows("backtest", "--definition", "order_submission:1", "--since", since(), "--json"))

    assert found["before"] == {"not tracked": 1}
    assert found["after"] == {"COMPLETED": 1}


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
