"""The tasks of operations in a browser, with a running hub."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Page, expect

from events.intake import publish
from sagas.models import Saga
from tests.browser.stack import Stack
from tests.browser.visitor import Visitor
from tests.factories import SubscriptionFactory
from tests.processes.support import until
from tests.support import rows
from tools.demo.endpoint import Reply

# Pixels between separate elements.
MIN_GAP = 12
LogIn = Callable[[str], Visitor]


def gap(page: Page, upper: str, lower: str) -> float:
    """The pixels between two elements, one below the other."""
    above, below = page.locator(upper).bounding_box(), page.locator(lower).bounding_box()
    assert above
    assert below
    return below["y"] - above["y"] - above["height"]


def test_operations_tests_pauses_and_resumes_an_endpoint(log_in: LogIn, stack: Stack):
    stack.answers["/hook"] = Reply(200, b"<b>thank you</b>")
    subscription = SubscriptionFactory.create(event_type="till.closed", callback_url=stack.endpoint.url("/hook"))
    visit = log_in("operations")

    page = visit.open(rows.change("subscriptions_subscription", subscription.pk))
    page.get_by_role("button", name="Send test event").click()
    expect(page.get_by_text("<b>thank you</b>")).to_be_visible()
    assert gap(page, "#content-main > p strong", "#outcome") >= MIN_GAP
    assert gap(page, "#content-main > .hub-text", "#content-main > .hub-actions") >= MIN_GAP
    visit.check_accessibility()
    page.get_by_role("link", name="To the subscription").click()
    page.get_by_role("link", name="Pause", exact=True).click()
    page.fill("textarea[name=reason]", " ")
    page.get_by_role("button", name="Pause", exact=True).click()
    expect(page.get_by_text("Give the reason.")).to_be_visible()
    visit.check_accessibility()
    for verb, reason in (("Pause", "maintenance"), ("Resume", "back again")):
        if verb == "Resume":
            page.get_by_role("link", name=verb, exact=True).click()
        page.fill("textarea[name=reason]", reason)
        page.get_by_role("button", name=verb, exact=True).click()
    expect(page.get_by_role("link", name="Pause", exact=True)).to_be_visible()
    visit.check_accessibility()
    page.get_by_role("link", name="Audit log").last.click()
    expect(page.get_by_text("maintenance")).to_be_visible()
    expect(page.get_by_text("back again")).to_be_visible()


def test_operations_subscribes_an_endpoint_and_delivers_past_events(log_in: LogIn, stack: Stack):
    event = publish("shelf.emptied", {"shelf": 9})
    visit = log_in("operations")

    page = visit.open(rows.add("subscriptions_subscription"))
    page.fill("input[name=event_type]", "shelf.emptied")
    page.fill("input[name=callback_url]", "http://example.com/")
    page.locator("button[name=_save], input[name=_save]").first.click()
    expect(page.get_by_text("The callback URL must start with https://.")).to_be_visible()
    visit.check_accessibility()
    page.fill("input[name=callback_url]", stack.endpoint.url("/late"))
    page.locator("button[name=_save], input[name=_save]").first.click()
    expect(page.locator("#secret")).to_contain_text("whsec_")
    visit.check_accessibility()
    page.get_by_role("link", name="To the subscription").click()
    page.get_by_role("button", name="Verify").click()
    expect(page.get_by_text("Verified: the endpoint sent the challenge back.")).to_be_visible()
    page.get_by_role("link", name="Deliver past events").click()
    page.fill("input[name=since]", "2099-01-01T00:00")
    page.fill("textarea[name=reason]", "new here")
    page.get_by_role("button", name="Deliver past events").click()
    expect(page.locator(".errorlist")).to_contain_text("Enter a time in the past.")
    visit.check_accessibility()
    page.fill("input[name=since]", "2026-01-01T00:00")
    page.get_by_role("button", name="Deliver past events").click()
    expect(page.locator("#finished")).to_be_visible()
    visit.check_accessibility()

    until(lambda: Saga.objects.filter(event=event.id, status="Completed").exists(), "the past event is delivered")
    assert (str(event.uid), "/late") in {(request.event_uid, request.path) for request in stack.endpoint.received}
