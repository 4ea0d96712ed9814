"""The list of dead letters and the bulk requeue in a real browser."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import expect

from deadletters import admin, views
from deadletters.models import Requeue
from subscriptions.models import Subscription
from tests.deadletters.helpers import NAME, dead_letters
from tests.support import rows

from .visitor import Visitor

OpenBrowser = Callable[..., Visitor]


def test_search_and_filter_are_kept_from_the_list_to_the_last_portion(
    visitor: OpenBrowser, root: User, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(views, "PORTION", 2)
    monkeypatch.setattr(views, "MAX_NAMED", 1)
    letters = [rows.dead_letter(text) for text in ("timeout", "http_500", "http_502", "http_503", "http_504")]
    Subscription.objects.filter(pk=letters[1].subscription_id).update(active=False)
    visit = visitor(root, dark=True)

    page = visit.open(rows.listing(NAME))
    page.fill("#searchbar", "timeout")
    page.press("#searchbar", "Enter")
    page.wait_for_url("**q=timeout**")
    page.fill("input[name=event_type]", "order.created")
    page.get_by_role("button", name="Filter").click()
    page.wait_for_url("**event_type=order.created**")
    expect(page.locator("#searchbar")).to_have_value("timeout")
    expect(page.locator("#result_list tbody tr")).to_have_count(1)
    visit.check_accessibility()
    page.get_by_role("link", name="Requeue all that match").first.click()
    expect(page.get_by_text("1 dead letter matches")).to_be_visible()
    expect(page.get_by_text("search: timeout")).to_be_visible()
    page.get_by_role("link", name="Cancel").click()
    expect(page.locator("#searchbar")).to_have_value("timeout")

    page.get_by_role("link", name="Clear", exact=True).click()
    page.fill("input[name=event_type]", "order.created")
    page.get_by_role("button", name="Filter").click()
    page.get_by_role("link", name="Requeue all that match").first.click()
    expect(page.locator("#others")).to_contain_text("and 4 more")
    expect(page.locator("#waiting")).to_contain_text("1 new delivery will wait")
    visit.check_accessibility()
    page.fill("textarea[name=reason]", "fixed")
    page.get_by_label("Requeue anyway").check()
    page.locator("form.hub-form button.hub-primary").click()
    expect(page.locator("#finished")).to_be_visible()
    visit.check_accessibility()

    assert "event_type=order.created" in page.url
    assert Requeue.objects.count() == len(letters)
    page.get_by_role("link", name="Back to the dead letters").click()
    expect(page.locator("#id_event_type")).to_have_value("order.created")


def test_a_list_that_is_too_long_to_select_can_be_requeued_by_its_filter(
    visitor: OpenBrowser, root: User, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(admin.DeadLetterAdmin, "list_per_page", 2)
    dead_letters(5)
    visit = visitor(root, dark=True)
    page = visit.open(rows.listing(NAME))
    page.locator("#action-toggle").check()
    page.get_by_role("link", name="Select all 5 dead letters").click()
    expect(page.get_by_role("link", name="Clear selection")).to_be_visible()

    monkeypatch.setattr(admin, "MAX_SELECTED", 4)

    page = visit.open(rows.listing(NAME, "?error_code=timeout"))
    page.locator("#action-toggle").check()
    expect(page.locator(".action-counter")).to_have_text(re.compile("2 of 2 selected"))
    expect(page.get_by_role("link", name="Select all")).to_have_count(0)
    visit.check_accessibility()
    page.locator("#changelist-actions").get_by_role("link", name="Requeue all that match").click()
    expect(page.get_by_text("5 dead letters match")).to_be_visible()
