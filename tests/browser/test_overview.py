"""The overview in a browser updates without a reload."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import User
from django.urls import reverse

from tests.factories import SubscriptionFactory
from webhookhub.db import clock
from webhookhub.stats import attempts
from webhookhub.stats.attempts import AttemptResult

from .visitor import Visitor


def test_the_overview_updates_without_a_reload(visitor: Callable[..., Visitor], root: User):
    subscription: Any = SubscriptionFactory()
    page = visitor(root).open(reverse("admin:index"))
    page.evaluate("window.samePage = true")
    assert page.locator(".hub-delivered").count() == 1  # the legend alone

    at = clock.now() - timedelta(minutes=1)
    attempts.add([AttemptResult(subscription.pk, "completed", None, at, at, 30)] * 7)
    # Triggers the periodic update at once.
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")

    page.wait_for_selector("svg .hub-delivered")
    assert "7" in page.locator(".hub-tile", has_text="Delivered").first.inner_text()
    assert page.evaluate("window.samePage")
    assert "GMT+8" in page.locator("#overview time").last.inner_text()
