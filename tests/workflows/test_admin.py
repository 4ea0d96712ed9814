"""Runs in the console: list, search, page, operators' actions, definitions."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import translation
from django.utils.html import escape

from events.intake import publish
from sagas.models import Saga
from tests.support import rows
from tests.workflows import shop
from tests.workflows.support import catch_up, instance, tracked
from workflows import admin, labels
from workflows.checks import used_definitions_are_unchanged
from workflows.models import Fact, Instance
from workflows.registry import SAMPLES, load

pytestmark = pytest.mark.django_db

NAME = "workflows_instance"
VIEW = ("view_instance", "view_event", "view_saga")
ACTIONS = {"retry": "retry_step", "mark": "mark_compensated", "close": "close_workflow"}


@pytest.fixture
def watcher(staff: Callable[..., Client]) -> Client:
    return staff("watcher", *VIEW)


@pytest.fixture
def operator(staff: Callable[..., Client]) -> Client:
    return staff("operator", *VIEW, *ACTIONS.values())


def text_of(client: Client, address: str) -> str:
    response = client.get(address)
    assert response.status_code == 200
    return response.content.decode()


def listed(client: Client, query: str = "") -> list[str]:
    page = text_of(client, rows.listing(NAME, query))
    return re.findall(r"<td>(o-\d+|c-\d+)</td>", page)


def page(run: Instance) -> str:
    return rows.change(NAME, run.pk)


def act(run: Instance, action: str) -> str:
    return reverse("admin:workflows_instance_act", args=[run.pk, action])


def send(client: Client, run: Instance, action: str, **given: Any) -> Any:
    return client.post(act(run, action), {"token": "0" * 32, "reason": "because", **given})


# Query of the list → the runs that it shows.
NARROWED = {
    "": ["c-5", "o-4", "o-3", "o-2", "o-1"],
    "?saga_type=order_submission": ["o-4", "o-3", "o-2", "o-1"],
    "?status=IN_PROGRESS": ["c-5", "o-2"],
    "?saga_type=order_submission&status=IN_PROGRESS&step=payment": ["o-2"],
    "?saga_type=order_submission&step=payment": ["o-4", "o-2"],
    "?operator=1": ["o-4"],
    "?operator=1&status=COMPLETED": [],
    "?age=hour": ["c-5", "o-4", "o-3", "o-2", "o-1"],
    "?age=over-week": [],
    "?q=o-3": ["o-3"],
    "?q=o": [],
    "?q=o-4&status=FAILED&saga_type=order_submission&step=payment&operator=1&age=hour": ["o-4"],
    "?q=o-4&status=COMPLETED": [],
    "?q=o-4&saga_type=customer_registration": [],
    "?q=o-2&saga_type=order_submission&step=shipping": [],
    "?q=o-3&operator=1": [],
    "?q=o-1&age=over-week": [],
}


def test_list_filters(watcher: Client):
    shop.completed("o-1")
    shop.waiting_for_payment("o-2")
    shop.declined("o-3")
    shop.failed("o-4")
    publish("customer.registered", {"customer_id": "c-5"}, correlation_id="c-5")
    catch_up()

    assert {query: listed(watcher, query) for query in NARROWED} == NARROWED


def test_search_by_id_respects_the_filters(watcher: Client):
    run = shop.completed("o-1")

    assert listed(watcher, f"?q={run.saga_id}") == ["o-1"]
    assert listed(watcher, f"?q={run.saga_id}&status=FAILED") == []
    assert listed(watcher, f"?q={run.saga_id}&status=COMPLETED") == ["o-1"]


def test_search_finds_a_filtered_run_behind_many_others_of_its_aggregate(
    watcher: Client, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(admin, "PAGE", 2)
    for number in range(4):
        shop.order(f"o-{number}", "order.submitted")
    Instance.objects.update(aggregate_id="c-1")
    Instance.objects.filter(correlation_key="o-0").update(status="FAILED")
    oldest = str(instance("o-0").saga_id)

    shown = text_of(watcher, rows.listing(NAME, "?q=c-1&status=FAILED"))

    assert (shown.count("<td>c-1</td>"), oldest in shown) == (1, True)
    monkeypatch.setattr(admin, "WINDOW", 3)
    shown = text_of(watcher, rows.listing(NAME, "?q=c-1&status=FAILED"))
    assert "None of the newest runs match; older ones may." in shown


def test_list_pages_continue_where_the_previous_ended(watcher: Client, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(admin, "PAGE", 2)
    for number in range(5):
        shop.order(f"o-{number}", "order.submitted")

    for query in ("?", "?age=day&"):
        found, before = [], ""
        while True:
            response = text_of(watcher, rows.listing(NAME, query + before))
            found += re.findall(r"<td>(o-\d+)</td>", response)
            older = re.search(r'href="\?([^"]*before=\d+)"', response)
            if older is None:
                break
            before = older[1].replace("&amp;", "&")
            query = "?"
        assert found == ["o-4", "o-3", "o-2", "o-1", "o-0"]


def test_a_page_that_stops_at_its_read_limit_says_so_and_links_on(watcher: Client, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(admin, "WINDOW", 2)
    for number in range(3):
        shop.order(f"o-{number}", "order.submitted")
    shop.order("o-3", "order.submitted")
    Instance.objects.exclude(correlation_key="o-3").update(started_at="2000-01-01T00:00:00Z")

    response = text_of(watcher, rows.listing(NAME, "?age=over-week"))

    assert re.findall(r"<td>(o-\d+)</td>", response) == ["o-2", "o-1"]
    last = instance("o-1").pk
    assert f"before={last}" in response
    assert listed(watcher, f"?age=over-week&before={last}") == ["o-0"]


@pytest.mark.parametrize("query", ["?status=nonsense", "?colour=red", "?before=x"])
def test_an_invalid_filter_is_a_bad_request(watcher: Client, query: str):
    assert watcher.get(rows.listing(NAME, query)).status_code == 400


# Query with a step of another workflow → the runs that the list shows.
STEP_OF_ANOTHER = {
    "?saga_type=customer_registration&step=payment": ["c-2"],
    "?saga_type=&step=payment": ["c-2", "o-1"],
    "?saga_type=customer_registration&status=COMPLETED&step=payment": [],
}


def test_changing_the_workflow_filter_drops_the_step_filter(watcher: Client):
    shop.waiting_for_payment("o-1")
    publish("customer.registered", {"customer_id": "c-2"}, correlation_id="c-2")
    catch_up()

    assert {query: listed(watcher, query) for query in STEP_OF_ANOTHER} == STEP_OF_ANOTHER
    for query in STEP_OF_ANOTHER:
        shown = text_of(watcher, rows.listing(NAME, query))
        assert not re.search(r'<option value="payment"[^>]*selected', shown)


def test_an_empty_list_explains_how_a_run_starts(watcher: Client):
    assert "A run starts when an event arrives" in text_of(watcher, rows.listing(NAME))


@pytest.mark.requirement("R5-1d", "R5-9b")
def test_a_run_page_shows_diagram_timeline_and_blockers(watcher: Client):
    run = shop.waiting_for_payment("o-1")
    delivery = shop.delivery("o-1", "inventory.reserved", "PendingRetry", "http_503")

    shown = text_of(watcher, page(run))

    assert "stuck at payment: inventory.reserved → payment service, PendingRetry, 5 attempts, http_503" in shown
    assert '<svg xmlns="http://www.w3.org/2000/svg"' in shown
    assert "Process payment: running" in shown
    assert f'href="{rows.change("sagas_saga", delivery.pk)}"' in shown
    assert f'href="{rows.change("events_event", delivery.event_id)}"' in shown
    assert "Deliver again" not in shown, "a watcher only watches"
    assert "deliver again" not in shown


def test_links_to_events_and_deliveries_need_their_permissions(staff: Callable[..., Client]):
    run = shop.waiting_for_payment("o-1")
    shop.delivery("o-1", "inventory.reserved", "PendingRetry", "http_503")

    shown = text_of(staff("anna", "view_instance"), page(run))

    assert "inventory.reserved" in shown
    assert "/admin/events/event/" not in shown
    assert "/admin/sagas/saga/" not in shown


def test_runs_of_every_status_can_be_shown(watcher: Client):
    runs = [shop.completed("o-1"), shop.declined("o-2"), shop.failed("o-3")]
    listing = text_of(watcher, rows.listing(NAME))

    for run in runs:
        assert f'title="{run.status}"' in text_of(watcher, page(run))
        assert f'title="{run.status}"' in listing


def test_hostile_content_stays_text(operator: Client):
    tracked()
    hostile = rows.HOSTILE[:90]
    for event_type in ("order.submitted", "payment.failed"):
        publish(event_type, {"order_id": "<script>alert(2)</script>", "reason": hostile}, correlation_id="o-1")
    catch_up()
    run = instance("o-1")

    for address in (page(run), rows.listing(NAME), act(run, "mark")):
        shown = text_of(operator, address)
        assert "<script>alert" not in shown
    assert escape("<script>alert(1)</script>") in text_of(operator, page(run))


def test_runs_cannot_be_added_changed_or_deleted(superuser: Client):
    run = shop.declined("o-1")
    before = list(Instance.objects.values())

    assert superuser.get(rows.add(NAME)).status_code == 403
    assert superuser.post(rows.add(NAME), {}).status_code == 403
    assert superuser.post(page(run), {"status": "COMPLETED"}).status_code == 403
    assert superuser.post(rows.listing(NAME), {"action": "delete_selected"}).status_code == 403
    assert superuser.get(rows.delete(NAME, run.pk)).status_code == 403
    assert superuser.post(rows.delete(NAME, run.pk), {"post": "yes"}).status_code == 403
    assert list(Instance.objects.values()) == before


def test_pages_need_the_view_permission(staff: Callable[..., Client], client: Client):
    run = shop.declined("o-1")
    anna = staff("anna", "view_event", *ACTIONS.values())
    addresses = [
        rows.listing(NAME),
        page(run),
        reverse("admin:workflows_instance_stats"),
        reverse("admin:workflows_instance_definitions"),
        reverse("admin:workflows_instance_definition", args=["order_submission"]),
        *(act(run, action) for action in ACTIONS),
    ]

    for address in addresses:
        assert anna.get(address).status_code == 403
        assert client.get(address)["Location"].startswith("/admin/login/")


@pytest.mark.parametrize("action", ACTIONS)
def test_each_action_has_a_permission_of_its_own(staff: Callable[..., Client], action: str):
    run = shop.declined("o-1")
    others = staff("others", *VIEW, *(set(ACTIONS.values()) - {ACTIONS[action]}))
    before = Fact.objects.count()

    assert others.get(act(run, action)).status_code == 403
    assert send(others, run, action, step="inventory").status_code == 403
    assert act(run, action) not in text_of(others, page(run))
    own = staff("own", *VIEW, ACTIONS[action])
    assert own.get(act(run, action)).status_code == 200
    assert act(run, action) in text_of(own, page(run))
    assert Fact.objects.count() == before


@pytest.mark.requirement("R5-5d")
def test_retry_redelivers_dead_letters(operator: Client):
    from tests.api.test_sagas import dead_letter

    run = shop.waiting_for_payment("o-1")
    dead_letter(shop.delivery("o-1", "inventory.reserved", "DeadLettered", "http_503"))
    assert "inventory.reserved → payment service" in text_of(operator, act(run, "retry"))

    done = send(operator, run, "retry", step="payment")
    again = send(operator, run, "retry", step="payment")

    assert done["Location"] == again["Location"] == page(run)
    [new] = Saga.objects.filter(generation=1)
    fact = Fact.objects.get(role="retried")
    assert (fact.actor, fact.reason, fact.step) == ("operator", "because", "payment")
    shown = text_of(operator, page(run))
    assert f"Delivering again: delivery {new.pk}." in shown
    assert "Reason: because" in shown


def test_retry_repeats_one_completed_delivery(operator: Client):
    run = shop.waiting_for_payment("o-1")
    arrived = shop.delivery("o-1", "inventory.reserved", "Completed", attempts=1)
    address = f"{act(run, 'retry')}?delivery={arrived.pk}"
    assert address in text_of(operator, page(run))
    assert f"Chosen: delivery {arrived.pk}." in text_of(operator, address)

    assert send(operator, run, "retry", step="payment", delivery=arrived.pk).status_code == 302

    assert Saga.objects.filter(generation=1, event=arrived.event_id).count() == 1


@pytest.mark.requirement("R5-5d")
def test_mark_as_compensated_and_close(operator: Client):
    run = shop.failed("o-1")
    assert run.needs_operator

    send(operator, run, "mark", step="inventory")
    catch_up()

    assert not instance("o-1").needs_operator
    other = shop.failed("o-2")
    send(operator, other, "close")
    catch_up()
    assert not instance("o-2").needs_operator
    assert "closed" in text_of(operator, page(other))


def test_a_step_that_was_undone_meanwhile_is_an_error(operator: Client):
    """The step was undone after the page was opened."""
    run = shop.failed("o-1")
    send(operator, run, "mark", step="inventory", token="1" * 32)
    catch_up()
    before = Fact.objects.count()

    response = send(operator, run, "mark", step="inventory", token="2" * 32)

    assert "inventory cannot be chosen any more." in response.content.decode()
    assert Fact.objects.count() == before


def test_mark_as_compensated_is_not_offered_before_a_failure(operator: Client):
    run = shop.order("o-1", "order.submitted", "inventory.reserved", "inventory.release_failed")
    assert run.status == "IN_PROGRESS"

    assert act(run, "mark") not in text_of(operator, page(run))
    declined = shop.declined("o-2")
    assert act(declined, "mark") in text_of(operator, page(declined))


def test_a_form_that_is_sent_twice_acts_once(operator: Client):
    run = shop.failed("o-1")
    send(operator, run, "mark", step="inventory")
    catch_up()
    before = Fact.objects.count()

    again = send(operator, run, "mark", step="inventory")

    assert again.status_code == 302
    assert "This was done before, and was not done again." in text_of(operator, page(run))
    assert Fact.objects.count() == before


def test_a_used_form_with_other_values_can_be_sent_again(operator: Client):
    run = shop.declined("o-1")
    send(operator, run, "mark", step="inventory")
    before = Fact.objects.count()

    asked = send(operator, run, "mark", step="order")
    assert "This form was used before with other values." in asked.content.decode()
    assert Fact.objects.count() == before
    found = re.search(r'name="token" value="([0-9a-f]{32})"', asked.content.decode())
    assert found is not None

    assert send(operator, run, "mark", step="order", token=found[1]).status_code == 302
    assert set(Fact.objects.filter(role="compensated").values_list("step", flat=True)) == {"inventory", "order"}


# The rules of a reason: tests/webhookhub/test_reasons.py.
IMPOSSIBLE: list[tuple[str, dict[str, str], str]] = [
    ("close", {"reason": ""}, "Say why."),
    ("close", {"reason": "\u202e"}, "such as U+202E"),
    ("close", {"token": "x"}, "Nothing has been done"),
    ("close", {"token": ""}, "Check it and send it again."),
    ("retry", {"step": "payment", "delivery": "x"}, "Check it and send it again."),
    ("mark", {"step": "nonsense"}, "nonsense cannot be chosen any more."),
    ("retry", {"step": ""}, "This field is required"),
    ("retry", {"step": "payment"}, "step payment waits for no dead letter"),
    ("retry", {"step": "payment", "delivery": "4711"}, "4711 is not the latest delivery of an event of this run"),
]


def test_invalid_actions_show_an_error_and_store_nothing(operator: Client):
    run = shop.declined("o-1")
    before = Fact.objects.count()

    for action, given, message in IMPOSSIBLE:
        response = send(operator, run, action, **given)

        assert response.status_code == 200, (action, given)
        assert message in response.content.decode(), (action, given)
    assert Fact.objects.count() == before


def test_a_completed_run_cannot_be_closed(operator: Client):
    run = shop.completed("o-1")
    before = Fact.objects.count()
    assert act(run, "close") not in text_of(operator, page(run))

    response = send(operator, run, "close")

    message = "Nothing was done: the run has ended and needs no operator, so there is nothing to close."
    assert message in response.content.decode()
    assert (Fact.objects.count(), instance("o-1").by_hand) == (before, False)


def test_an_unknown_action_or_run_is_a_404(superuser: Client):
    run = shop.declined("o-1")

    assert superuser.get(act(run, "explode")).status_code == 404
    assert superuser.get(act(run, "close").replace(f"/{run.pk}/", "/4711/")).status_code == 404
    assert superuser.get(reverse("admin:workflows_instance_definition", args=["nonsense"])).status_code == 404
    for pk in ("4711", "abc", "9" * 30):
        assert superuser.get(page(run).replace(f"/{run.pk}/", f"/{pk}/")).status_code == 302


@pytest.mark.requirement("R5-7a", "R5-7b", "R5-7c", "R5-7d", "R5-7e")
def test_a_definition_page_shows_steps_and_targets(watcher: Client):
    for number in range(3):
        shop.completed(f"o-{number}")
    shop.order("o-3", *shop.DONE[:2], "payment.failed", "order.failed", "inventory.released")
    shop.failed("o-4")

    shown = text_of(watcher, reverse("admin:workflows_instance_definition", args=["order_submission"]))

    assert "All 5 runs, since" in shown
    cells = [re.sub(r"<[^>]*>", "", cell).strip() for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", shown, re.S)]
    at = cells.index("runs that succeed")
    assert cells[at : at + 5] == ["runs that succeed", "&gt; 99 %", "60 %", "no", "5"]
    at = cells.index("compensations that succeed")
    assert cells[at : at + 5] == ["compensations that succeed", "&gt; 99.9 %", "50 %", "no", "2"]
    at = cells.index("mean duration")
    assert (cells[at + 1], cells[at + 3], cells[at + 4]) == ("&lt; 5 s", "yes", "3")
    at = cells.index("time to detect a failure")
    assert (cells[at + 1], cells[at + 3], cells[at + 4]) == ("&lt; 60 s", "yes", "2")
    at = cells.index("resolved by hand")
    assert cells[at : at + 5] == ["resolved by hand", "&lt; 0.1 %", "0 %", "yes", "5"]
    at = cells.index("Process payment")
    assert cells[at + 1] == "3"
    assert cells[at + 2].endswith("60.0 %")


@pytest.mark.requirement("R5-6c")
def test_a_definition_page_without_runs(watcher: Client):
    shown = text_of(watcher, reverse("admin:workflows_instance_definition", args=["order_cancellation"]))

    assert "There are no runs yet" in shown
    assert "Order cancellation" in text_of(watcher, reverse("admin:workflows_instance_definitions"))


def test_a_retired_definition_is_still_shown_with_its_runs(watcher: Client, tmp_path: Path, hub_settings: Any):
    run = shop.waiting_for_payment("o-1")
    hub_settings(workflow_definitions=(tmp_path,))
    load.cache_clear()

    assert "(no longer offered)" in text_of(watcher, reverse("admin:workflows_instance_definitions"))
    shown = text_of(watcher, reverse("admin:workflows_instance_definition", args=["order_submission"]))
    assert "no new runs start" in shown
    assert listed(watcher, "?saga_type=order_submission") == ["o-1"]
    assert listed(watcher, "?q=o-1") == ["o-1"]
    assert "Reserve inventory" in text_of(watcher, page(run))


@pytest.fixture
def changed_file(tmp_path: Path, hub_settings: Any) -> Callable[[], str]:
    """Changes a used definition; returns the error."""

    def change() -> str:
        text = (SAMPLES / "order_submission_1.toml").read_text()
        (tmp_path / "mine.toml").write_text(text.replace("timeout_seconds = 300", "timeout_seconds = 301"))
        hub_settings(workflow_definitions=(tmp_path,))
        load.cache_clear()
        [error] = used_definitions_are_unchanged(databases=["default"])
        return str(error.msg)

    return change


def test_every_page_names_a_used_definition_that_changed(operator: Client, changed_file: Callable[[], str]):
    run = shop.declined("o-1")
    error = changed_file()
    before = Fact.objects.count()

    responses = [
        operator.get(rows.listing(NAME)),
        operator.get(page(run)),
        operator.get(reverse("admin:workflows_instance_definitions")),
        operator.get(reverse("admin:workflows_instance_definition", args=["order_submission"])),
        operator.get(act(run, "retry")),
        operator.get(act(run, "mark")),
        *(send(operator, run, action, step="inventory") for action in ACTIONS),
    ]

    assert "order_submission version 1 (mine.toml): version has runs and was changed since" in error
    for response in responses:
        assert (response.status_code, response["Retry-After"]) == (503, "5")
        shown = response.content.decode()
        assert escape(f"Workflows are not available at the moment: {error}") in shown
        assert "Temporarily unavailable" in shown
    assert Fact.objects.count() == before


def test_an_invalid_definition_is_not_shown_without_the_view_permission(
    staff: Callable[..., Client], client: Client, changed_file: Callable[[], str]
):
    run = shop.declined("o-1")
    changed_file()
    anna = staff("anna", "view_event")

    for address in (rows.listing(NAME), page(run), act(run, "retry")):
        assert anna.get(address).status_code == 403
        assert client.get(address)["Location"].startswith("/admin/login/")


def test_pages_in_chinese_have_no_english_sentences(operator: Client):
    run = shop.waiting_for_payment("o-1")
    shop.delivery("o-1", "inventory.reserved", "PendingRetry", "http_503")
    failed = shop.failed("o-2")
    shop.completed("o-3")
    chinese = {"accept-language": "zh-TW,zh;q=0.9"}
    try:
        pages = {
            address: operator.get(address, headers=chinese).content.decode()
            for address in (
                page(run),
                page(failed),
                rows.listing(NAME),
                act(run, "retry"),
                reverse("admin:workflows_instance_definition", args=["order_submission"]),
                reverse("admin:workflows_instance_definition", args=["customer_registration"]),
            )
        }
        refused = operator.post(
            act(run, "retry"), {"token": "0" * 32, "step": "payment", "reason": "r"}, headers=chinese
        )
        wrong = operator.get(rows.listing(NAME, "?colour=red"), headers=chinese)
    finally:
        translation.deactivate()  # a request leaves its language to the thread

    shown = " ".join(pages.values()) + refused.content.decode()
    for english in (
        "the hub decided",
        "the hub published",
        "stuck at",
        "waits for",
        "attempts",
        "starts with",
        "done by",
    ):
        assert english not in shown, english
    for english in ("newest", "Completed in", "runs that succeed", ">done<", ">waiting<", "dead letter"):
        assert english not in shown, english
    for status, message in (("IN_PROGRESS", "進行中"), ("FAILED", "失敗"), ("COMPLETED", "已完成")):
        assert f'title="{status}">{message}</span>' in shown
        assert re.search(f'<option value="{status}"[^>]*>{message}</option>', " ".join(shown.split()))
        assert f">{status}<" not in shown
    for message in (
        "系統決定：失敗",
        "停在 payment：inventory.reserved",
        "5 次嘗試",
        "全部 3 次執行",
        "成功的補償",
        "已完成",
    ):
        assert message in shown, message
    assert wrong.status_code == 400


def test_pages_need_a_constant_number_of_queries(watcher: Client):
    runs = [shop.waiting_for_payment(f"o-{number}") for number in range(8)]
    for run in runs:
        shop.delivery(run.correlation_key, "inventory.reserved", "PendingRetry", "http_503")

    for address in (
        rows.listing(NAME),
        rows.listing(NAME, "?saga_type=order_submission&age=day"),
        page(runs[0]),
        reverse("admin:workflows_instance_definition", args=["order_submission"]),
    ):
        with CaptureQueriesContext(connection) as asked:
            text_of(watcher, address)
        assert len(asked) <= 15, [query["sql"] for query in asked.captured_queries]


@pytest.mark.parametrize(
    ("stored", "chinese"),
    [
        ("step payment failed", "步驟 payment 失敗"),
        ("step payment has timed out", "步驟 payment 已逾時"),
        ("compensation of step inventory failed", "步驟 inventory 的補償失敗"),
        ("compensation of step inventory failed: no way back", "步驟 inventory 的補償失敗: no way back"),
        ("the run failed", "這次執行失敗"),
        ("the run has timed out", "這次執行已逾時"),
        ("closed by an operator", "由維運人員關閉"),
        ("run compensated before anything had failed", "尚未發生失敗，執行就已補償"),
        ("compensation is overdue: a, b", "補償已逾期：a, b"),
        ("its start was never seen; no compensation was requested", "從未看到它的開始；沒有要求補償"),
        (
            "payment done after the end; run failed after the end",
            "payment：結束之後仍回報「已完成」; run：結束之後仍回報「失敗」",
        ),
        ("card <b>refused</b>", "card <b>refused</b>"),
        ("", ""),
    ],
)
def test_the_sentences_of_the_hub_are_translated(stored: str, chinese: str):
    with translation.override("en"):
        assert labels.sentences(stored) == stored
    with translation.override("zh-hant"):
        assert labels.sentences(stored) == chinese
