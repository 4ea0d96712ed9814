"""Deliveries are abandoned, sent now and sent again in a browser, with a running hub."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta

from playwright.sync_api import Page, expect

from events.intake import publish
from sagas.models import Saga
from tests.factories import SubscriptionFactory
from tests.processes.support import until
from tests.support import rows
from tools.demo.endpoint import Reply

from .stack import Stack
from .visitor import Visitor

LogIn = Callable[[str], Visitor]


def picture(page: Page, name: str) -> None:
    if folder := os.environ.get("SCREENSHOTS"):
        page.screenshot(path=f"{folder}/{name}.png", full_page=True)


def test_operations_abandon_the_deliveries_of_an_endpoint_and_send_one_again(log_in: LogIn, stack: Stack):
    stack.answers["/given-up"] = Reply(503)
    subscription = SubscriptionFactory.create(
        event_type="given.up", callback_url=stack.endpoint.url("/given-up"), base_delay=timedelta(hours=1)
    )
    for number in (1, 2):
        publish("given.up", {"n": number})
    sagas = Saga.objects.filter(subscription=subscription).order_by("id")
    until(lambda: [saga.status for saga in sagas.all()] == ["PendingRetry"] * 2, "both deliveries wait for a retry")
    visit = log_in("operations")

    page = visit.open(rows.change("subscriptions_subscription", subscription.pk))
    page.get_by_role("link", name="Abandon waiting deliveries").click()
    expect(page.get_by_text("2 deliveries wait.")).to_be_visible()
    visit.check_accessibility()
    picture(page, "abandon")
    page.fill("textarea[name=reason]", "the <b>customer</b> left")
    page.get_by_role("button", name="Abandon", exact=True).click()
    expect(page.get_by_text("Requested.")).to_be_visible()
    visit.check_accessibility()
    until(lambda: [saga.final_error_code for saga in sagas.all()] == ["abandoned"] * 2, "both are abandoned")
    page.reload()
    expect(page.get_by_text("the <b>customer</b> left")).to_be_visible()
    picture(page, "request")

    del stack.answers["/given-up"]
    first = sagas[0]
    page = visit.open(rows.change("sagas_saga", first.pk))
    expect(page.get_by_text("the <b>customer</b> left").first).to_be_visible()
    visit.check_accessibility()
    picture(page, "delivery")
    # A dead letter is sent again by its requeue.
    expect(page.get_by_role("link", name="Requeue", exact=True)).to_be_visible()
    assert page.locator(".hub-actions").get_by_role("link", name="Send again").count() == 0
    page = visit.open(rows.listing("sagas_deliveryrequest"))
    visit.check_accessibility()
    picture(page, "requests")


def test_support_sends_a_waiting_delivery_now_and_a_completed_one_again(log_in: LogIn, stack: Stack):
    stack.answers["/late"] = Reply(503)
    SubscriptionFactory.create(
        event_type="late", callback_url=stack.endpoint.url("/late"), base_delay=timedelta(hours=1)
    )
    publish("late", {"n": 1})
    saga = until(lambda: Saga.objects.filter(event__event_type="late", status="PendingRetry").first(), "it waits")
    assert isinstance(saga, Saga)
    del stack.answers["/late"]
    visit = log_in("support")

    page = visit.open(rows.change("sagas_saga", saga.pk))
    assert page.get_by_role("link", name="Abandon").count() == 0
    for name, status in (("Send now", "Completed"), ("Send again", "Completed")):
        page.locator(".hub-actions").get_by_role("link", name=name).click()
        page.fill("textarea[name=reason]", "the endpoint is back")
        page.get_by_role("button", name=name).click()
        expect(page.get_by_text("Requested.")).to_be_visible()
        sagas = Saga.objects.filter(event__event_type="late")
        count = 1 if name == "Send now" else 2
        until(lambda: [each.status for each in sagas.all()] == [status] * count, "it is delivered")  # noqa: B023
        page.reload()
    assert page.locator(".hub-actions").get_by_role("link", name="Send again").count() == 0
