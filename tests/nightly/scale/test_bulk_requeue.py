"""More dead letters than one portion are requeued in the browser, and all are delivered."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.sync_api import Page, expect

from deadletters.models import Requeue
from events.intake import NewEvent, Published, publish_many
from sagas.models import Saga
from subscriptions.models import Subscription
from tests.browser.stack import Stack
from tests.browser.visitor import Visitor
from tests.factories import SubscriptionFactory
from tests.processes.support import until
from tests.support import rows
from tools.demo.endpoint import Reply

# More than one portion.
MANY = 1100
LONG_SECONDS = 120.0
LogIn = Callable[[str], Visitor]


def number_in(page: Page, place: str) -> int:
    """The first number of a text."""
    found = re.search(r"[\d,]+", page.locator(place).first.inner_text())
    assert found is not None
    return int(found[0].replace(",", ""))


def test_more_than_a_thousand_matching_dead_letters_are_requeued_and_delivered(log_in: LogIn, stack: Stack):
    subscription = many_dead_letters(stack)
    visit = log_in("operations")
    # Without the script, a button submits the next portion, so that each page can be checked.
    visit.page.route("**/auto-submit*.js", lambda route: route.fulfill(body="", content_type="text/javascript"))

    page = visit.open(rows.listing("deadletters_deadletter"))
    page.fill("input[name=event_type]", subscription.event_type)
    page.get_by_role("button", name="Filter").click()
    page.get_by_role("link", name="Requeue all that match").click()
    page.fill("input[name=limit]", str(MANY))
    page.get_by_role("button", name="Apply").click()
    page.wait_for_url(f"**limit={MANY}**")
    assert number_in(page, "#content-main section strong") == MANY
    expect(page.get_by_role("cell", name=str(subscription))).to_be_visible()
    visit.check_accessibility()
    page.fill("textarea[name=reason]", " ")
    page.locator("form.hub-form button.hub-primary").click()
    expect(page.get_by_text("Give a reason for the requeue.")).to_be_visible()
    visit.check_accessibility()
    page.fill("textarea[name=reason]", "the network is back")
    page.locator("form.hub-form button.hub-primary").click()
    expect(page.locator("progress")).to_be_visible()
    assert 0 < number_in(page, "#requeued") < MANY
    visit.check_accessibility()
    page.unroute("**/auto-submit*.js")
    page.get_by_role("button", name="Continue").click()
    expect(page.locator("#finished")).to_be_visible(timeout=60_000)
    assert number_in(page, "#requeued") == MANY
    visit.check_accessibility()

    requeued = Saga.objects.filter(subscription=subscription, generation=1)
    until(lambda: requeued.filter(status="Completed").count() == MANY, "all are delivered", LONG_SECONDS)
    assert requeued.count() == MANY
    requests = Requeue.objects.filter(dead_letter__subscription=subscription)
    assert set(requests.values_list("requested_by", "reason")) == {("operations", "the network is back")}


def many_dead_letters(stack: Stack) -> Subscription:
    """Created by the hub: the endpoint refuses all events, and accepts them afterwards."""
    stack.answers["/many"] = Reply(500)
    subscription: Subscription = SubscriptionFactory.create(
        event_type="stock.counted", callback_url=stack.endpoint.url("/many"), max_retry_limit=1
    )
    results = publish_many([NewEvent("stock.counted", {"shelf": number}) for number in range(MANY)])
    assert all(isinstance(result, Published) for result in results)
    dead = Saga.objects.filter(subscription=subscription, status="DeadLettered")
    until(lambda: dead.count() == MANY, "all become dead letters", LONG_SECONDS)
    del stack.answers["/many"]
    return subscription
