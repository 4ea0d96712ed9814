"""The pages of a subscription's credentials: set, shown without secrets, removed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.urls import reverse

from subscriptions.models import Subscription
from tests.factories import SubscriptionFactory
from tests.support.client_certificates import DAY, ClientAuthority

from .visitor import Visitor

FOLDER = os.environ.get("TEST_PICTURES", "")


def address(name: str, subscription: Subscription) -> str:
    return reverse(f"admin:subscriptions_subscription_{name}", args=[subscription.pk])


@pytest.mark.parametrize(
    ("dark", "width", "language"),
    [(False, 1280, "en-US"), (True, 390, "zh-TW")],
    ids=["desktop", "dark phone in Chinese"],
)
def test_credentials_are_set_in_the_console(
    visitor: Callable[..., Visitor], root: User, dark: bool, width: int, language: str
):
    subscription = SubscriptionFactory.create()
    pair = ClientAuthority().pair("hub of acme", valid=(-DAY, 20 * DAY))
    visit = visitor(root, dark=dark, width=width, language=language)

    page = visit.open(address("client_certificate", subscription))
    page.fill("[name=certificate]", pair.certificate)
    page.fill("[name=private_key]", "hello")
    page.fill("[name=reason]", "asked for")
    page.click("#content-main button.hub-primary")
    assert "PEM" in page.inner_text(".errorlist")
    assert page.input_value("[name=private_key]") == ""
    check(visit, "certificate")
    page.fill("[name=private_key]", pair.key)
    page.click("#content-main button.hub-primary")
    page.wait_for_url(f"**{address('change', subscription)}")

    page = visit.open(address("oauth2_client", subscription))
    check(visit, "oauth2")
    for name, value in {"token_url": "https://login.example.com/token", "client_id": "hub"}.items():
        page.fill(f"[name={name}]", value)
    page.fill("[name=client_secret]", "s3cret-of-the-client")
    page.fill("[name=reason]", "asked for")
    page.click("#content-main button.hub-primary")
    page.wait_for_url(f"**{address('change', subscription)}")
    shown = page.inner_text("#credentials")
    assert "CN=hub of acme" in shown
    assert "https://login.example.com/token" in shown
    assert "s3cret" not in page.content()
    check(visit, "subscription")

    page = visit.open(address("remove_oauth2_client", subscription))
    check(visit, "remove")
    page.fill("[name=reason]", "no longer needed")
    page.click("#content-main button.hub-danger")
    page.wait_for_url(f"**{address('change', subscription)}")
    assert "login.example.com" not in page.inner_text("#credentials")


def check(visit: Visitor, name: str) -> None:
    visit.check_accessibility()
    assert visit.overflow() <= 0
    if FOLDER:
        kind = visit.page.evaluate("document.documentElement.lang")
        visit.page.screenshot(path=Path(FOLDER) / f"{name}-{kind}.png", full_page=True)
