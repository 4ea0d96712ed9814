"""The list of dead letters in a real browser: what it shows is what a requeue of all that match asks about."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import expect

from deadletters import admin, listing, recipients, run
from deadletters.models import Requeue
from subscriptions.models import Subscription
from tests.deadletters.test_requeue_matching import NAME, many
from tests.support import rows

from .visitor import Visitor

Come = Callable[..., Visitor]


def test_search_and_filter_stay_from_the_list_through_every_portion_to_the_end(
    visitor: Come, root: User, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(run, "PORTION", 2)
    monkeypatch.setattr(recipients, "MOST_NAMED", 1)
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
    visit.look_closely()
    page.get_by_role("link", name="Requeue all that match").first.click()
    expect(page.get_by_text("1 dead letter matches")).to_be_visible()
    expect(page.get_by_text("search timeout")).to_be_visible()
    page.get_by_role("link", name="Cancel").click()
    expect(page.locator("#searchbar")).to_have_value("timeout")

    page.get_by_role("link", name="Clear", exact=True).click()
    page.fill("input[name=event_type]", "order.created")
    page.get_by_role("button", name="Filter").click()
    page.get_by_role("link", name="Requeue all that match").first.click()
    expect(page.locator("#others")).to_contain_text("and 4 more")
    expect(page.locator("#waiting")).to_contain_text("1 of them is for a subscription that is switched off")
    visit.look_closely()
    page.fill("textarea[name=reason]", "mended")
    page.get_by_role("button", name="Requeue them").click()
    expect(page.locator("#finished")).to_be_visible()
    visit.look_closely()

    assert "event_type=order.created" in page.url
    assert Requeue.objects.count() == len(letters)
    page.get_by_role("link", name="Back to the dead letters").click()
    expect(page.locator("#id_event_type")).to_have_value("order.created")


def test_all_of_a_list_that_is_too_long_to_be_ticked_can_still_be_requeued(
    visitor: Come, root: User, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(admin.DeadLetterAdmin, "list_per_page", 2)
    many(5)
    visit = visitor(root, dark=True)
    page = visit.open(rows.listing(NAME))
    page.locator("#action-toggle").check()
    page.get_by_role("link", name="Select all 5 dead letters").click()
    expect(page.get_by_role("link", name="Clear selection")).to_be_visible()

    monkeypatch.setattr(listing, "MOST_AT_ONCE", 4)

    page = visit.open(rows.listing(NAME, "?error_code=timeout"))
    page.locator("#action-toggle").check()
    expect(page.locator(".action-counter")).to_have_text(re.compile("2 of 2 selected"))
    expect(page.get_by_role("link", name="Select all")).to_have_count(0)
    visit.look_closely()
    page.locator("#changelist-actions").get_by_role("link", name="Requeue all that match").click()
    expect(page.get_by_text("5 dead letters match")).to_be_visible()
