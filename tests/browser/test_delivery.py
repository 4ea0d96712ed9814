"""A delivery in a browser: search, copy, download and escaping."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from django.contrib.auth.models import User
from django.urls import reverse
from playwright.sync_api import expect

from tests.factories import EventFactory, JobFactory, SagaFactory
from tests.support import rows
from tests.webhookhub.console.test_delivery_page import HOSTILE

from .visitor import Visitor


def test_a_failed_delivery_is_found_by_its_correlation_id(visitor: Callable[..., Visitor], root: User):
    wanted, other = (
        SagaFactory.create(
            event=EventFactory(source="shop", external_id=f"order-{number}", correlation_id=f"basket-{number}"),
            status="DeadLettered",
            attempt_count=3,
            final_error_code="http_503",
        )
        for number in (1, 2)
    )
    page = visitor(root).open(reverse("admin:index"))

    page.fill(".hub-search-aside input", "basket-1")
    page.press(".hub-search-aside input", "Enter")
    page.wait_for_url("**/search/?q=basket-1")
    assert page.locator(f'a[href="{rows.change("sagas_saga", other.pk)}"]').count() == 0
    page.click(f'a[href="{rows.change("sagas_saga", wanted.pk)}"]')

    page.wait_for_selector(".hub-headline")
    assert "The endpoint responded with 503" in page.inner_text(".hub-headline")


def test_hostile_text_is_escaped_and_can_be_copied(visitor: Callable[..., Visitor], root: User):
    text = "".join(HOSTILE.values())
    event: Any = EventFactory(payload=json.dumps({"text": text, "n": [1, 2]}), correlation_id=text[:80])
    saga: Any = SagaFactory(event=event, status="PendingRetry", attempt_count=1, final_error_code="http_500")
    JobFactory(saga=saga, status="Failed", error_code="http_500", response_snippet=text, worker_id=text[:60])
    visit = visitor(root)

    page = visit.open(rows.change("sagas_saga", saga.pk))

    assert page.locator("#content img, #content b, #content [x-init], #content pre *").count() == 0
    assert "<script>alert(1)</script>" in page.inner_text("#payload")
    page.click('[data-copy="#payload"]')
    page.wait_for_selector('[data-copy="#payload"]:has-text("Copied")')
    assert json.loads(page.evaluate("navigator.clipboard.readText()"))["n"] == [1, 2]
    assert visit.accessibility_errors() == []


def test_a_cut_payload_is_copied_and_downloaded_in_full(visitor: Callable[..., Visitor], root: User):
    words = [f"word {number} <b>" for number in range(60_000)]
    saga = SagaFactory.create(event=EventFactory(payload=json.dumps({"words": words})))
    visit = visitor(root)

    page = visit.open(rows.change("sagas_saga", saga.pk))
    page.click('[data-copy="#payload"]')

    page.wait_for_selector('[data-copy="#payload"]:has-text("Copied")')
    assert json.loads(page.evaluate("navigator.clipboard.readText()"))["words"] == words
    assert "more characters" in page.inner_text("#payload")
    with page.expect_download() as download:
        page.click("text=Download the payload")
    assert json.loads(download.value.path().read_text())["words"] == words


def test_the_language_is_chosen_from_the_menu(visitor: Callable[..., Visitor], root: User):
    visit = visitor(root)
    page = visit.open(reverse("admin:index"))

    page.click("text=root")
    page.click("button:has-text('繁體中文')")

    page.wait_for_selector("html[lang=zh-hant]")
    assert "成功率" in page.inner_text("#overview")
    assert visit.accessibility_errors() == []


def test_the_dark_theme_is_chosen_with_the_keyboard(visitor: Callable[..., Visitor], root: User):
    page = visitor(root).open(reverse("admin:index"))

    page.locator("[x-on\\:click='openUserLinks = !openUserLinks']").press("Enter")
    dark = page.locator("a:has-text('Dark')")
    expect(dark).to_be_visible()  # a hidden link ignores the key, and Enter would close the menu
    dark.press("Enter")

    page.wait_for_selector("html.dark")
