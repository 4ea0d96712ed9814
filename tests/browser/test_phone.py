"""Tables on a phone: unbroken words, in a box that scrolls."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.urls import reverse
from playwright.sync_api import Page

from deadletters import requeue
from tests.support import rows
from tests.workflows import shop
from webhookhub.db import clock
from webhookhub.stats import attempts
from webhookhub.stats.attempts import AttemptResult

from .visitor import Visitor

PHONE = 390
LINE = 20
# Words of a table that are broken over lines, except long texts.
BROKEN_WORDS = """() => [...document.querySelectorAll(".hub-table td")].flatMap((cell) => {
    const broken = [], texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        for (const word of texts.currentNode.data.matchAll(/[\\w.]{2,20}/g)) {
            const range = document.createRange();
            range.setStart(texts.currentNode, word.index);
            range.setEnd(texts.currentNode, word.index + word[0].length);
            if (new Set([...range.getClientRects()].map((box) => box.top)).size > 1) broken.push(word[0]);
        }
    }
    return broken;
})"""


def addresses(user: User) -> list[str]:
    letters = [rows.dead_letter(code) for code in ("http_503", "connection_lost", "timeout")]
    requeue.requeue([letters[0].pk], by=user, reason="fixed")
    subscription, now = letters[0].subscription_id, clock.now()
    attempts.add([AttemptResult(subscription, attempts.RETRIED, "http_503", now, now, 45)])
    rows.process("worker")
    run = shop.failed("o-2")
    return [
        reverse("admin:index"),
        reverse("admin:search") + "?q=http_503",
        reverse("admin:search") + "?q=127.0.0.1",
        requeue_page(*(letter.pk for letter in letters)),
        reverse("admin:deadletters_deadletter_requeue_matching"),
        rows.change("subscriptions_subscription", subscription),
        rows.change("events_event", letters[0].event_id),
        rows.listing("workflows_instance"),
        reverse("admin:workflows_instance_definitions"),
        reverse("admin:workflows_instance_definition", args=["order_submission"]),
        reverse("admin:workflows_instance_replay", args=[run.pk]),
    ]


def requeue_page(*ids: int) -> str:
    return reverse("admin:deadletters_deadletter_requeue") + "?ids=" + ",".join(map(str, ids))


def height(page: Page, selector: str) -> float:
    box = page.locator(selector).bounding_box()
    assert box
    return box["height"]


def test_no_table_breaks_a_word_or_makes_the_page_wider(visitor: Callable[..., Visitor], root: User):
    visit = visitor(root, width=PHONE)
    errors = []
    for address in addresses(root):
        page = visit.open(address)
        assert page.locator(".hub-table").count(), address
        errors += [f"{address} breaks {word}" for word in page.evaluate(BROKEN_WORDS)]
        if visit.overflow() > 0:
            errors.append(f"{address} is {visit.overflow()} pixels wider than a phone")

    assert not errors, "\n".join(errors)


def test_an_earlier_requeue_is_visible_without_scrolling(visitor: Callable[..., Visitor], root: User):
    letter = rows.dead_letter("connection_lost")
    requeue.requeue([letter.pk], by=root, reason="fixed")

    page = visitor(root, width=PHONE).open(requeue_page(letter.pk, rows.dead_letter("timeout").pk))

    box = page.get_by_text("Already requeued by root as delivery").bounding_box()
    assert box
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= PHONE


@pytest.mark.parametrize("width", [PHONE, 1280])
def test_a_long_error_does_not_squeeze_the_other_columns(visitor: Callable[..., Visitor], root: User, width: int):
    shop.order("o-9", *shop.DONE[:2], "payment.failed", reason="E" * 500)

    page = visitor(root, width=width).open(rows.listing("workflows_instance"))

    assert height(page, ".hub-table tbody tr") <= 8 * LINE
    assert "E" * 119 + "…" in page.inner_text(".hub-table")
