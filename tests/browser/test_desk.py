"""The work of support, operations and auditors in a real browser, over real deliveries to a real endpoint."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.contrib.auth.models import Group, User
from django.db import connection
from django.urls import reverse
from playwright.sync_api import expect

from deadletters.models import DeadLetter, Requeue
from demo.receiver import Receiver, Reply
from events.intake import publish
from events.models import Event
from sagas.models import Saga
from subscriptions.models import Subscription
from tests.admin import rows
from tests.factories import SubscriptionFactory
from tests.support import drive
from trail.models import Entry
from webhookhub.db import clock, vendors

from .visitor import Visitor

pytestmark = pytest.mark.skipif(vendors.is_server(connection), reason="runs once, with the embedded database")

PASSWORD = "only for tests"
MANY = 1000
Come = Callable[..., Visitor]


def member(group: str) -> User:
    user = User.objects.create_user(group, password=PASSWORD, is_staff=True)
    user.groups.add(Group.objects.get(name=group))
    return user


def log_in(visitor: Come, name: str) -> Visitor:
    visit = visitor(None)
    page = visit.open("/admin/login/")
    page.fill("input[name=username]", name)
    page.fill("input[name=password]", PASSWORD)
    page.press("input[name=password]", "Enter")
    page.wait_for_url("**/admin/")
    return visit


def failed_delivery(receiver: Receiver, correlation_id: str) -> DeadLetter:
    """An event whose only attempt the endpoint has refused."""
    receiver.answer = lambda request: Reply(503, b"<script>alert('down')</script>")
    SubscriptionFactory.create(callback_url=receiver.url("/hook"), max_retry_limit=1)
    publish("order.created", {"order": 1}, source="shop", external_id="order-1", correlation_id=correlation_id)
    drive.until_terminal()
    receiver.answer = lambda request: Reply(200, b"ok")
    return DeadLetter.objects.get()


def test_support_finds_a_failed_delivery_requeues_it_and_sees_it_delivered(visitor: Come, receiver: Receiver):
    member("support")
    letter = failed_delivery(receiver, "basket-77")
    visit = log_in(visitor, "support")

    page = visit.open("/admin/")
    page.locator("input[name=q]").first.fill("basket-77")
    page.locator("input[name=q]").first.press("Enter")
    page.get_by_role("link", name=str(letter.saga_id), exact=True).first.click()
    expect(page.get_by_text("<script>alert('down')</script>").first).to_be_visible()
    page.get_by_role("link", name="Requeue", exact=True).click()
    page.fill("textarea[name=reason]", "the endpoint is mended")
    page.get_by_role("button", name="Requeue 1 dead letter").click()
    expect(page.get_by_text("Delivered anew: dead letter")).to_be_visible()

    drive.until_terminal()
    page.get_by_role("link", name=f"delivery {rows.successor(letter).pk}").first.click()
    expect(page.locator(".hub-badge[title=Completed]").first).to_be_visible()
    assert Requeue.objects.get().requested_by == "support"
    # Whoever asks again is told, and is led to what it became.
    page = visit.open(rows.change("deadletters_deadletter", letter.pk))
    expect(page.get_by_text("Requeued already, as")).to_be_visible()
    assert page.get_by_role("link", name="Requeue", exact=True).count() == 0


def test_operations_requeues_a_thousand_that_match(visitor: Come, receiver: Receiver):
    member("operations")
    subscription = SubscriptionFactory.create(callback_url=receiver.url("/many"), max_retry_limit=1)
    many_dead_letters(subscription, MANY)
    visit = log_in(visitor, "operations")

    page = visit.open(rows.listing("deadletters_deadletter"))
    page.fill("input[name=error_code]", "timeout")
    page.get_by_role("button", name="Filter").click()
    page.get_by_role("link", name="Requeue all that match").click()
    expect(page.get_by_text(f"{MANY} dead letters match")).to_be_visible()
    expect(page.get_by_role("cell", name=str(subscription))).to_be_visible()
    page.fill("textarea[name=reason]", "the network is back")
    page.get_by_role("button", name="Requeue them").click()
    expect(page.locator("#finished")).to_be_visible(timeout=60_000)
    expect(page.locator("#requeued")).to_contain_text(f"{MANY} dead letters are delivered anew")

    drive.until_terminal()
    assert Saga.objects.filter(generation=1, status="Completed").count() == MANY
    assert len(receiver.received) == MANY
    assert set(Requeue.objects.values_list("requested_by", "reason")) == {("operations", "the network is back")}


def many_dead_letters(subscription: Subscription, count: int) -> None:
    now = clock.now()
    Event.objects.bulk_create(
        Event(id=number, event_type="order.created", source="tests", payload="{}", created_at=now)
        for number in range(1, count + 1)
    )
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM routing_inbox")
    Saga.objects.bulk_create(
        Saga(
            id=number,
            event_id=number,
            subscription=subscription,
            status="DeadLettered",
            attempt_count=1,
            max_retry_limit=1,
            base_delay=timedelta(seconds=1),
            final_error_code="timeout",
        )
        for number in range(1, count + 1)
    )
    DeadLetter.objects.bulk_create(
        DeadLetter(
            saga_id=number,
            event_id=number,
            subscription=subscription,
            final_error_code="timeout",
            failed_at=now,
            payload_snapshot="{}",
        )
        for number in range(1, count + 1)
    )


def test_operations_pauses_resumes_and_tests_an_endpoint(visitor: Come, receiver: Receiver):
    member("operations")
    receiver.answer = lambda request: Reply(200, b"<b>thank you</b>")
    subscription = SubscriptionFactory.create(callback_url=receiver.url("/hook"))
    visit = log_in(visitor, "operations")

    page = visit.open(rows.change("subscriptions_subscription", subscription.pk))
    page.get_by_role("button", name="Send test event").click()
    expect(page.get_by_text("<b>thank you</b>")).to_be_visible()
    page.get_by_role("link", name="To the subscription").click()
    for verb, reason in (("Pause", "maintenance"), ("Resume", "back again")):
        page.get_by_role("link", name=verb, exact=True).click()
        page.fill("textarea[name=reason]", reason)
        page.get_by_role("button", name=verb, exact=True).click()
    expect(page.get_by_role("link", name="Pause", exact=True)).to_be_visible()
    page.get_by_role("link", name="Audit trail").last.click()
    expect(page.get_by_text("maintenance")).to_be_visible()
    expect(page.get_by_text("back again")).to_be_visible()


FORBIDDEN = {
    "support": ["Requeue all", "Audit trail", "Users", "Groups", "API keys"],
    "auditors": ["Requeue all", "Requeue", "Users", "Groups", "API keys"],
    "operations": ["Users", "Groups", "API keys"],
}


@pytest.mark.parametrize("group", FORBIDDEN)
def test_what_a_group_may_not_do_is_neither_shown_nor_possible_by_its_address(visitor: Come, group: str):
    member(group)
    letter = rows.dead_letter("http_500")
    visit = log_in(visitor, group)
    shown = set()
    for address in (
        "/admin/",
        rows.listing("deadletters_deadletter"),
        rows.change("deadletters_deadletter", letter.pk),
        rows.change("subscriptions_subscription", letter.subscription_id),
    ):
        shown |= {text.strip() for text in visit.open(address).locator("a, button").all_inner_texts()}

    for words in FORBIDDEN[group]:
        assert not [text for text in shown if text == words or text.startswith(f"{words} ")], words
    addresses = {
        reverse("admin:deadletters_deadletter_requeue") + f"?ids={letter.pk}": group != "auditors",
        reverse("admin:deadletters_deadletter_requeue_matching"): group == "operations",
        reverse("admin:subscriptions_subscription_pause", args=[letter.subscription_id]): group == "operations",
        reverse("admin:subscription_backfill", args=[letter.subscription_id]): group == "operations",
        rows.add("subscriptions_subscription"): group == "operations",
        rows.listing("trail_entry"): group != "support",
        rows.listing("auth_user"): False,
        rows.listing("api_apikey"): False,
    }
    for address, may in addresses.items():
        assert visit.page.request.get(visit.home + address).status == (200 if may else 403), address
    assert not Entry.objects.filter(object_type__in=["deadletter", "subscription"]).exists()
