"""The tasks of support, operations and auditors in a browser, with a running hub."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.urls import reverse
from playwright.sync_api import Page, expect

from deadletters.models import DeadLetter, Requeue
from events.intake import publish
from events.models import Event
from sagas.models import Saga
from subscriptions.models import Subscription
from tests.factories import SubscriptionFactory
from tests.processes.support import until
from tests.support import rows
from tools.demo.endpoint import Reply

from .stack import Stack
from .visitor import Visitor

LogIn = Callable[[str], Visitor]


def failed_delivery(stack: Stack, name: str) -> DeadLetter:
    """A dead letter of an event whose only attempt failed; only its correlation id is `name`."""
    stack.answers[f"/{name}"] = Reply(503, b"<script>alert('down')</script>")
    event_type = f"type.{name}"
    SubscriptionFactory.create(event_type=event_type, callback_url=stack.endpoint.url(f"/{name}"), max_retry_limit=1)
    event = publish(event_type, {"order": 1}, source="shop", external_id="order-1 of " + name, correlation_id=name)
    letter = until(lambda: DeadLetter.objects.filter(event=event.id).first(), "the delivery becomes a dead letter")
    until(lambda: Saga.objects.get(pk=letter.saga_id).status == "DeadLettered", "the status is DeadLettered")
    del stack.answers[f"/{name}"]
    assert isinstance(letter, DeadLetter)
    return letter


def test_support_finds_a_failed_delivery_requeues_it_and_sees_it_delivered(log_in: LogIn, stack: Stack):
    letter = failed_delivery(stack, "basket-77")
    visit = log_in("support")
    page = visit.page

    page.locator("input[name=q]").first.fill("basket-77")
    page.locator("input[name=q]").first.press("Enter")
    page.get_by_role("link", name=str(letter.saga_id), exact=True).first.click()
    expect(page.get_by_text("<script>alert('down')</script>").first).to_be_visible()
    page.get_by_role("link", name="Requeue", exact=True).click()
    visit.check_accessibility()
    page.fill("textarea[name=reason]", " ")
    page.get_by_role("button", name="Requeue 1 dead letter").click()
    expect(page.get_by_text("Give a reason for the requeue.")).to_be_visible()
    visit.check_accessibility()
    page.fill("textarea[name=reason]", "the endpoint is fixed")
    page.get_by_role("button", name="Requeue 1 dead letter").click()
    expect(page.get_by_text("Requeued: dead letter")).to_be_visible()
    visit.check_accessibility()

    page.get_by_role("link", name=f"delivery {rows.successor(letter).pk}").first.click()
    until(lambda: _is_delivered_after_reload(page), "the page shows the delivery as completed")
    visit.check_accessibility()
    assert Requeue.objects.get(dead_letter=letter).requested_by == "support"
    uid = str(Event.objects.get(pk=letter.event_id).uid)
    assert [request.event_uid for request in stack.endpoint.received].count(uid) == 2
    # A second requeue links to the delivery of the first.
    page = visit.open(rows.change("deadletters_deadletter", letter.pk))
    expect(page.get_by_text("Requeued as")).to_be_visible()
    assert page.get_by_role("link", name="Requeue", exact=True).count() == 0


def _is_delivered_after_reload(page: Page) -> bool:
    page.reload()
    return page.locator(".hub-headline .hub-badge[title=Completed]").count() > 0


FORBIDDEN = {
    "support": ["Requeue all", "Audit log", "Users", "Groups", "API keys"],
    "auditors": ["Requeue all", "Requeue", "Users", "Groups", "API keys"],
    "operations": ["Users", "Groups", "API keys"],
}


@pytest.mark.parametrize("group", FORBIDDEN)
def test_forbidden_actions_are_hidden_and_refused(log_in: LogIn, stack: Stack, group: str):
    letter = failed_delivery(stack, f"refused-{group}")
    subscription = Subscription.objects.get(pk=letter.subscription_id)
    visit = log_in(group)
    shown = set()
    for address in (
        "/admin/",
        rows.listing("deadletters_deadletter"),
        rows.change("deadletters_deadletter", letter.pk),
        rows.change("subscriptions_subscription", subscription.pk),
    ):
        shown |= {text.strip() for text in visit.open(address).locator("a, button").all_inner_texts()}

    for words in FORBIDDEN[group]:
        assert not [text for text in shown if text == words or text.startswith(f"{words} ")], words
    requeue = reverse("admin:deadletters_deadletter_requeue")
    matching = reverse("admin:deadletters_deadletter_requeue_matching")
    pause = reverse("admin:subscriptions_subscription_pause", args=[subscription.pk])
    rotate = reverse("admin:subscriptions_subscription_rotate", args=[subscription.pk])
    backfill = reverse("admin:subscription_backfill", args=[subscription.pk])
    new = rows.add("subscriptions_subscription")
    opened = {
        f"{requeue}?ids={letter.pk}": group != "auditors",
        matching: group == "operations",
        pause: group == "operations",
        rotate: group == "operations",
        backfill: group == "operations",
        new: group == "operations",
        rows.listing("auditlog_entry"): group != "support",
        rows.listing("auth_user"): False,
        rows.listing("api_apikey"): False,
    }
    for address, may in opened.items():
        assert visit.page.request.get(visit.home + address).status == (200 if may else 403), address
    reason = {"reason": "by URL"}
    if group == "operations":
        sent = {rows.add("auth_user"): {"username": "eve"}, rows.add("api_apikey"): {"name": "eve"}}
    else:
        sent = {
            f"{matching}?event_type={subscription.event_type}": {"limit": "5", **reason},
            pause: reason,
            rotate: reason,
            backfill: {"since": "2026-01-01 00:00", **reason},
            new: {"event_type": "by.address", "callback_url": "https://example.com/", "signing_scheme": "v1"},
        }
        # Support may requeue one dead letter, not two at once.
        sent[requeue] = {"ids": str(letter.pk) if group == "auditors" else f"{letter.pk},{letter.pk + 1}", **reason}
    before = Subscription.objects.filter(pk=subscription.pk).values().get()
    for address, form in sent.items():
        # With a valid CSRF token, so that only the permission is missing.
        assert visit.send(address, form) == 403, address
    assert Subscription.objects.filter(pk=subscription.pk).values().get() == before
    assert not Subscription.objects.filter(event_type="by.address").exists()
    assert not Requeue.objects.filter(dead_letter=letter).exists()


def test_the_same_kind_of_request_is_accepted_with_permission(log_in: LogIn, stack: Stack):
    """Shows that the requests above are refused for the missing permission, not for their form."""
    letter = failed_delivery(stack, "by-address")
    address = reverse("admin:deadletters_deadletter_requeue")

    assert log_in("support").send(address, {"ids": str(letter.pk), "reason": "by URL"}) == 200

    assert Requeue.objects.get(dead_letter=letter).reason == "by URL"
