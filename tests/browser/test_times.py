"""Times in a browser are shown and entered in its time zone."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC
from zoneinfo import ZoneInfo

import pytest
from django.contrib.auth.models import User
from django.urls import reverse
from playwright.sync_api import Page, Request, expect

from events.models import Event
from tests.support import rows
from webhookhub.console.middleware import COOKIE

from .visitor import Visitor

LETTERS = "deadletters_deadletter"
NO_COOKIES = 'Object.defineProperty(Document.prototype, "cookie", { get: () => "", set: () => {} })'


def test_times_are_shown_in_the_viewers_zone_with_utc_as_tooltip(visitor: Callable[..., Visitor], root: User):
    event = Event.objects.get(pk=rows.one_of_each()["events_event"])

    time = visitor(root, time_zone="Asia/Taipei").open(rows.listing("events_event")).locator("time").first

    utc = event.created_at.astimezone(UTC)
    assert f"{utc:%Y-%m-%d %H:%M:%S} UTC" == time.get_attribute("title")
    assert f"{(utc.hour + 8) % 24:02}:{utc:%M:%S} GMT+8" in time.inner_text()


def test_times_are_entered_in_the_viewers_zone(visitor: Callable[..., Visitor], root: User):
    letter = rows.dead_letter("http_503")
    visit = visitor(root, time_zone="Asia/Taipei")
    shown = visit.open(rows.listing("deadletters_deadletter")).locator("#result_list time").first.inner_text()

    # The shown time without seconds and zone.
    page = visit.open(rows.listing("deadletters_deadletter"))
    page.get_by_label("Failed since (Asia/Taipei)").fill(shown[:16].replace(" ", "T"))
    page.get_by_role("button", name="Filter").click()

    page.wait_for_url("**since=**")
    assert page.locator(f'a[href*="/{letter.pk}/change/"]').count() > 0


def navigations(page: Page) -> list[str]:
    """A list that collects the URLs of the pages that the browser opens from now on."""
    addresses: list[str] = []

    def add(request: Request) -> None:
        if request.is_navigation_request():
            addresses.append(request.url)

    page.on("request", add)
    return addresses


def test_the_first_page_reloads_in_the_browsers_zone(visitor: Callable[..., Visitor], root: User):
    visit = visitor(root, time_zone="Asia/Taipei", has_cookie=False)
    fetched = navigations(visit.page)

    page = visit.open(rows.listing(LETTERS))

    expect(page.get_by_label("Failed since (Asia/Taipei)")).to_be_visible()
    assert fetched == [visit.home + rows.listing(LETTERS)] * 2
    visit.open(rows.listing(LETTERS))
    page.wait_for_load_state("networkidle")
    assert len(fetched) == 3


@pytest.mark.parametrize("zone", ["UTC", "Asia/Taipei"], ids=["UTC already", "no cookies"])
def test_a_page_in_the_right_zone_is_not_reloaded(visitor: Callable[..., Visitor], root: User, zone: str):
    visit = visitor(root, time_zone=zone, has_cookie=False)
    if zone != "UTC":
        visit.page.add_init_script(NO_COOKIES)
    fetched = navigations(visit.page)

    page = visit.open(rows.listing(LETTERS))
    page.wait_for_load_state("networkidle")

    expect(page.get_by_label("Failed since (UTC)")).to_be_visible()
    assert len(fetched) == 1


def test_a_form_with_errors_keeps_its_values_and_zone(visitor: Callable[..., Visitor], root: User):
    pk = rows.one_of_each()["subscriptions_subscription"]
    visit = visitor(root, time_zone="Asia/Taipei")
    page = visit.open(reverse("admin:subscription_backfill", args=[pk]))
    # As if the page had been rendered in another zone.
    page.locator(f"input[name={COOKIE}]").evaluate("(field) => { field.value = 'Europe/Berlin' }")
    visit.forget(COOKIE)
    fetched = navigations(page)

    page.fill("input[name=since]", "2026-01-01T00:30")
    page.fill("textarea[name=reason]", " ")
    page.get_by_role("button", name="Deliver past events").click()
    expect(page.get_by_text("Give the reason.")).to_be_visible()
    page.wait_for_load_state("networkidle")

    assert len(fetched) == 1
    expect(page.get_by_label("Events since (Europe/Berlin)")).to_have_value("2026-01-01T00:30")


def test_the_url_of_a_filter_is_independent_of_the_time_zone(visitor: Callable[..., Visitor], root: User):
    letter = rows.dead_letter("http_503")
    local = letter.failed_at.astimezone(ZoneInfo("Asia/Taipei"))
    page = visitor(root, time_zone="Asia/Taipei").open(rows.listing(LETTERS))
    page.get_by_label("Failed since (Asia/Taipei)").fill(f"{local:%Y-%m-%dT%H:%M:%S}")
    page.get_by_role("button", name="Filter").click()
    page.wait_for_url("**since=**Z")

    colleague = visitor(root, time_zone="Europe/Berlin")
    address = page.url.removeprefix(colleague.home)
    assert address == rows.listing(LETTERS, f"?since={letter.failed_at.astimezone(UTC):%Y-%m-%dT%H%%3A%M%%3A%S}Z")
    other_page = colleague.open(address)

    in_berlin = letter.failed_at.astimezone(ZoneInfo("Europe/Berlin"))
    since = other_page.get_by_label("Failed since (Europe/Berlin)")
    expect(since).to_have_value(re.compile(f"^{in_berlin:%Y-%m-%dT%H:%M}"))
    assert other_page.locator(f'a[href*="/{letter.pk}/change/"]').count() > 0
