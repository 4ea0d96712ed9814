"""The replay of one run: the state after each fact, and the history under another version."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import timedelta
from io import StringIO
from pathlib import Path
from uuid import uuid4

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import Client
from django.urls import reverse
from django.utils import translation

from tests.support import rows
from tests.workflows import shop
from tests.workflows.lives import ORDER
from tests.workflows.support import catch_up, expire, instance, told_before, tracked
from tests.workflows.trips import Write, say
from webhookhub.db import clock
from workflows import history
from workflows.advance import advance, differences
from workflows.models import Fact, Instance
from workflows.registry import SAMPLES, read
from workflows.state import DONE
from workflows.versions import definition_of, in_force

pytestmark = pytest.mark.django_db

# The payment fails; inventory and order are compensated, in this order.
COMPENSATED = [*shop.DONE[:2], "payment.failed", "inventory.released", "order.failed"]
VOUCHER = ', "trip.vouchered"'


@pytest.fixture
def watcher(staff: Callable[..., Client]) -> Client:
    return staff("watcher", "view_instance")


@pytest.fixture
def trip(write: Write) -> Instance:
    """A run of version 1, which does not know the event that version 2 takes as the payment."""
    write(1)
    say("trip.booked", "t-1", "rome")
    say("trip.vouchered", "t-1", "rome")
    write(2, more=VOUCHER)
    return instance("t-1", "trip")


def compensated() -> Instance:
    shop.order("o-1", *COMPENSATED[:3], reason="the card was declined")
    return shop.order("o-1", *COMPENSATED[3:])


def replay(run: Instance, *arguments: str) -> str:
    out = StringIO()
    call_command("workflows", "replay", str(run.saga_id), *arguments, stdout=out)
    return out.getvalue()


def lines(text: str) -> list[list[str]]:
    """The cells of each line of a table, without number and time."""
    table = [re.split(r" {2,}", line.strip()) for line in text.splitlines()]
    return [line[2:] for line in table if line[0].isdigit()]


def page(run: Instance, query: str = "") -> str:
    return reverse("admin:workflows_instance_replay", args=[run.pk]) + query


def shown(client: Client, address: str) -> str:
    response = client.get(address)
    assert response.status_code == 200
    return response.content.decode()


def states(text: str) -> list[str]:
    """The state of each step in the diagrams of a page."""
    return re.findall(r"<g><title>[^:<]+: ([^<]+)</title>", text)


@pytest.mark.requirement("R5-9d")
def test_the_command_shows_the_state_after_each_fact():
    run = compensated()

    printed = replay(run)

    assert printed.startswith(f"{run}: version 1, ")
    found = lines(printed)
    assert found[0][:2] == ["order: done", "IN_PROGRESS at inventory"]
    assert found[1][:2] == ["inventory: done", "IN_PROGRESS at payment"]
    assert found[1][2] == "inventory done, payment running"
    assert ["order: the hub published saga.compensation_requested", "COMPENSATING at inventory", "–"] in found
    assert found[-1][:2] == ["the hub published saga.failed", "COMPENSATED at payment"]
    assert len(found) == Fact.objects.count()


@pytest.mark.requirement("R5-9d")
def test_the_command_shows_one_position():
    run = shop.declined("o-1")

    first, second = replay(run, "--position", "1"), replay(run, "--position", "2")

    assert "  after 1: order: done\n  version 1: IN_PROGRESS at inventory\n    order: done\n    inventory: run" in first
    assert "    inventory: done\n    payment: running\n" in second
    assert "    deadline: " in second
    end = replay(run, "--position", str(Fact.objects.count()))
    assert "  version 1: COMPENSATING at inventory\n" in end
    assert "    error: the card was declined\n" in end


def test_the_command_prints_json():
    run = shop.completed("o-1")

    content = json.loads(replay(run, "--json"))

    assert content["run"] == str(run)
    assert content["differences"] == []
    assert [fact["number"] for fact in content["facts"]] == list(range(1, Fact.objects.count() + 1))
    assert content["facts"][0]["states"][0]["steps"]["order"] == "done"
    assert content["facts"][-1]["states"][0]["status"] == "COMPLETED"


@pytest.mark.requirement("R5-9d")
def test_the_command_compares_with_another_version(trip: Instance):
    printed = replay(trip, "--definition", "trip:2")

    assert "under version 2: 2 facts" in printed
    assert lines(printed) == [
        ["booking: done", "IN_PROGRESS at payment", "IN_PROGRESS at payment", "–"],
        ["payment: done", "(IN_PROGRESS at payment)", "IN_PROGRESS at ticket", "differs"],
    ]
    [_, second] = json.loads(replay(trip, "--definition", "trip:2", "--json"))["facts"]
    assert second["facts_of"] == ["other"]
    assert [state["current_step"] for state in second["states"]] == ["payment", "ticket"]


@pytest.mark.requirement("R5-9d")
def test_the_command_compares_with_a_file(tmp_path: Path):
    """In the new version, the payment cannot fail, so its failure means nothing."""
    run = compensated()
    text = (SAMPLES / "order_submission_1.toml").read_text().replace("version = 1", "version = 2")
    (tmp_path / "next.toml").write_text(text.replace('failed = ["payment.failed"]\n', ""))
    before = list(Fact.objects.values()), list(Instance.objects.values())

    found = lines(replay(run, "--definition", str(tmp_path / "next.toml")))

    assert found[2][0] == "payment: failed: the card was declined"
    assert found[2][2] == "(IN_PROGRESS at payment)", "version 2 does not read it"
    assert found[3][-1] == "differs"
    assert found[-1][1] == "COMPENSATED at payment"
    assert found[-1][2].startswith("(IN_PROGRESS at payment")
    assert (list(Fact.objects.values()), list(Instance.objects.values())) == before


def test_the_command_fails_if_the_row_differs_from_its_facts():
    run = shop.waiting_for_payment("o-1")
    Instance.objects.update(current_step="shipping")
    out = StringIO()

    with pytest.raises(CommandError, match="The row and its facts do not agree"):
        call_command("workflows", "replay", str(run.saga_id), stdout=out)

    assert "current_step is 'shipping' and should be 'payment'" in out.getvalue()
    assert len(lines(out.getvalue())) == Fact.objects.count()


def test_the_command_refuses_wrong_arguments():
    run = shop.completed("o-1")
    unknown = str(uuid4())
    wrong = {
        ("o-1",): "'o-1' is not the id of a run",
        (unknown,): f"There is no run {unknown}",
        (str(run.saga_id), "--position", "99"): "the run has only 7 facts",
        (str(run.saga_id), "--definition", "order_cancellation"): "the run is one of order_submission, not of order_c",
        ("--position", "1"): "need a SAGA_ID",
    }

    for arguments, message in wrong.items():
        with pytest.raises(CommandError, match=message):
            call_command("workflows", "replay", *arguments, stdout=StringIO())


@pytest.mark.requirement("R5-9d")
@pytest.mark.parametrize("events", [shop.DONE, shop.DONE[:2], COMPENSATED, COMPENSATED[:4]])
def test_the_last_state_is_that_of_the_row(events: list[str]):
    run = shop.order("o-1", *events)
    own = definition_of(run)

    recorded = history.recorded(run, own)
    again = history.simulated(run, own, own, clock.now())

    state = recorded.positions[-1].state
    assert state is not None
    assert differences(run, state) == {}
    [*_, last] = history.side_by_side(recorded, again)
    assert not last.differs


def test_a_time_out_passes_as_it_would_have():
    tracked()
    told_before(ORDER, ("order", DONE), "o-1", timedelta(minutes=7))
    catch_up()
    expire()
    run = instance("o-1")
    assert run.status == "COMPENSATING"
    own = definition_of(run)

    [*_, last] = history.side_by_side(history.recorded(run, own), history.simulated(run, own, own, clock.now()))

    assert last.left is not None
    assert last.right is not None
    assert last.left_state is not None
    assert last.left_state.steps["inventory"] == "timed_out"
    assert not last.differs


@pytest.mark.requirement("R5-9d")
def test_a_decision_under_another_time_limit_differs_and_has_its_time(tmp_path: Path):
    """The inventory has five minutes in version 1, and six in version 2."""
    tracked()
    told_before(ORDER, ("order", DONE), "o-1", timedelta(minutes=7))
    catch_up()
    expire()
    run = instance("o-1")
    text = (SAMPLES / "order_submission_1.toml").read_text().replace("version = 1", "version = 2")
    (tmp_path / "same.toml").write_text(text)
    (tmp_path / "next.toml").write_text(text.replace("timeout_seconds = 300", "timeout_seconds = 360"))

    same, other = (replay(run, "--definition", str(tmp_path / name)) for name in ("same.toml", "next.toml"))
    content = json.loads(replay(run, "--definition", str(tmp_path / "next.toml"), "--json"))

    due = run.started_at + timedelta(minutes=6)
    assert [line[-1] for line in lines(same)] == ["–"] * 4
    assert [line[-1] for line in lines(other)] == ["–", "differs", "–", "–"]
    assert lines(other)[1][2] == f"COMPENSATING at order, at {due.isoformat()}"
    assert [fact["other_at"] for fact in content["facts"]] == [None, due.isoformat(), None, None]


def test_an_observation_of_both_versions_is_one_line_in_its_order():
    """The hub publishes the same before the run is closed under one version, and after it under the other."""
    begin, definition = clock.now(), read(SAMPLES / "order_submission_1.toml")

    def made(*roles: str) -> history.History:
        seen = [
            Fact(role="emitted" if role.isupper() else role, detail=role, occurred_at=begin + timedelta(seconds=number))
            for number, role in enumerate(roles)
        ]
        for fact in seen:
            fact.pk = {"started": 1, "closed": 2}.get(fact.role)
        return history.History(definition, [history.Position(fact, None) for fact in seen])

    found = history.side_by_side(made("started", "A", "B", "closed", "F"), made("started", "closed", "A", "B", "F"))

    lines = [(row.fact.detail, row.left is not None, row.right is not None) for row in found]
    assert lines == [
        ("started", True, True),
        ("A", True, False),
        ("B", True, False),
        ("closed", True, True),
        ("A", False, True),
        ("B", False, True),
        ("F", True, True),
    ]


def test_events_that_are_no_longer_stored_are_left_out(trip: Instance):
    no_longer_stored = {"event_id": 4711, "step": "payment", "role": DONE, "origin": "event"}
    Fact.objects.create(instance=trip, occurred_at=clock.now(), **no_longer_stored)
    catch_up()
    advance([trip.pk], in_force())

    printed = replay(trip, "--definition", "trip:2")

    assert "Left out under version 2: 1 events that are no longer stored." in printed
    assert ["payment: done", "IN_PROGRESS at ticket", "(IN_PROGRESS at ticket)", "–"] in lines(printed)


@pytest.mark.requirement("R5-9d")
def test_the_page_goes_forward_and_back(watcher: Client):
    run = shop.declined("o-1")
    count = Fact.objects.count()
    assert f'href="{page(run)}"' in shown(watcher, rows.change("workflows_instance", run.pk))

    first, second = shown(watcher, page(run, "?position=1")), shown(watcher, page(run, "?position=2"))
    last = shown(watcher, page(run))

    assert f"After fact 1 of {count}" in first
    assert states(first) == ["done", "running", "waiting", "waiting", "waiting"]
    assert 'rel="next" href="?position=2"' in first
    assert 'rel="prev"' not in first
    assert states(second) == ["done", "done", "running", "waiting", "waiting"]
    assert 'rel="prev" href="?position=1"' in second
    assert 'rel="next" href="?position=3"' in second
    assert f"After fact {count} of {count}" in last
    assert states(last) == ["compensating", "compensating", "failed", "waiting", "waiting"]
    assert 'rel="next"' not in last
    assert "differs from its facts" not in last


@pytest.mark.requirement("R5-9d")
def test_the_page_of_a_run_shows_the_state_after_each_fact(watcher: Client):
    run = shop.waiting_for_payment("o-1")

    text = shown(watcher, rows.change("workflows_instance", run.pk))

    for number, step in ((1, "inventory"), (2, "payment")):
        link = rf'<a href="{re.escape(page(run, f"?position={number}"))}"><span[^>]+>under way</span> {step}</a>'
        assert re.search(link, text)


@pytest.mark.requirement("R5-9d")
def test_the_page_shows_two_versions_side_by_side(watcher: Client, trip: Instance):
    alone = shown(watcher, page(trip))
    assert 'href="?version=2">Compare with version 2</a>' in alone
    assert "Version 1, as recorded" in alone
    assert "simulated" not in alone

    both = shown(watcher, page(trip, "?version=2"))

    assert "Version 1, as recorded" in both
    assert "Version 2, simulated" in both
    assert "After fact 2 of 2" in both
    assert states(both) == ["done", "running", "waiting", "waiting", "done", "done", "running", "waiting"]
    assert 'rel="prev" href="?position=1&amp;version=2"' in both
    assert "<strong>differs</strong>" in both
    assert "<strong>differs</strong>" not in shown(watcher, page(trip, "?version=2&position=1")).split("<tbody>")[0]
    assert len(set(re.findall(r'<marker id="([^"]+)"', both))) == 2


def test_the_page_says_that_the_row_differs(watcher: Client):
    run = shop.waiting_for_payment("o-1")
    Instance.objects.update(current_step="shipping")

    assert "The stored run differs from its facts: current_step." in shown(watcher, page(run))


@pytest.mark.parametrize("query", ["?position=0", "?position=99", "?position=x", "?version=9", "?version=1"])
def test_the_page_refuses_wrong_parameters(watcher: Client, query: str):
    run = shop.waiting_for_payment("o-1")

    assert watcher.get(page(run, query)).status_code == 400


def test_the_page_needs_the_view_permission(staff: Callable[..., Client], client: Client, watcher: Client):
    run = shop.completed("o-1")
    anna = staff("anna", "view_event", "retry_step")

    assert anna.get(page(run)).status_code == 403
    assert watcher.post(page(run)).status_code == 403
    assert client.get(page(run))["Location"].startswith("/admin/login/")
    assert watcher.get(reverse("admin:workflows_instance_replay", args=[run.pk + 1])).status_code == 404


def test_hostile_content_stays_text(watcher: Client):
    run = shop.order("o-1", *shop.DONE[:2], "payment.failed", reason=rows.HOSTILE[:90])

    text = shown(watcher, page(run))

    assert "<script>alert" not in text
    assert "&lt;script&gt;alert" in text


def test_the_page_is_translated(watcher: Client, trip: Instance):
    with translation.override("zh-hant"):
        text = watcher.get(page(trip, "?version=2"), headers={"accept-language": "zh-hant"}).content.decode()

    assert "重播" in text
    for english in ("Back to the run", "as recorded", "simulated", "State after each fact", "Forward", "differs"):
        assert english not in text
