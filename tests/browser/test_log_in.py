"""The log-in with a second factor in a real browser, with chromium's virtual security key."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.urls import reverse
from playwright.sync_api import Page, expect

from webhookhub.accounts import log_in, passwords, second_factor
from webhookhub.accounts.models import SecondFactor

from .visitor import Visitor

PASSWORD = "only for tests"


@pytest.fixture(autouse=True)
def _new_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_in, "slots", passwords._Slots())


def enter_password(visit: Visitor) -> Page:
    page = visit.open(reverse("admin:login"))
    page.fill("[name=username]", "root")
    page.fill("[name=password]", PASSWORD)
    page.click("#login-form button[type=submit]")
    return page


def plug_in_key(visit: Visitor) -> tuple[Any, str]:
    session = visit.page.context.new_cdp_session(visit.page)
    session.send("WebAuthn.enable")
    options = {
        "protocol": "ctap2",
        "transport": "usb",
        "hasResidentKey": False,
        "hasUserVerification": False,
        "isUserVerified": False,
        "automaticPresenceSimulation": True,
    }
    return session, session.send("WebAuthn.addVirtualAuthenticator", {"options": options})["authenticatorId"]


def test_security_key(visitor: Callable[..., Visitor], root: User) -> None:
    visit = visitor(None)
    session, key = plug_in_key(visit)
    page = enter_password(visit)
    page.wait_for_url(f"**{reverse('admin:index')}")

    page = visit.open(reverse("admin:second_factor"))
    visit.check_accessibility()
    page.click("text=Add a security key")
    visit.check_accessibility()
    page.fill("[name=name]", "My key")
    page.click("form[data-webauthn] button")
    codes = page.locator("#codes").inner_text().split()
    assert len(codes) == 10
    visit.check_accessibility()
    page.click("text=Done")
    expect(page.locator("td", has_text="My key")).to_be_visible()
    visit.check_accessibility()

    # The same key once more: the browser refuses, because the hub names the keys that exist.
    page.click("text=Add a security key")
    page.click("form[data-webauthn] button")
    expect(page.locator("[data-webauthn-error]")).to_be_visible()
    assert SecondFactor.objects.count() == 1

    page.context.clear_cookies()
    page = enter_password(visit)
    page.wait_for_url(f"**{reverse('admin:verify')}")
    visit.check_accessibility()
    page.click("text=Use a security key")
    page.wait_for_url(f"**{reverse('admin:index')}")

    # Another key, which the hub does not know.
    credentials = session.send("WebAuthn.getCredentials", {"authenticatorId": key})["credentials"]
    session.send("WebAuthn.removeVirtualAuthenticator", {"authenticatorId": key})
    page.context.clear_cookies()
    page = enter_password(visit)
    plugged, other = plug_in_key(visit)
    page.click("text=Use a security key")
    expect(page.locator("[data-webauthn-error]")).to_be_visible()

    # A copy of the key: its counter is not larger than the last one.
    copied = {**credentials[0], "signCount": 0}
    plugged.send("WebAuthn.addCredential", {"authenticatorId": other, "credential": copied})
    page.click("text=Use a security key")
    expect(page.locator("[role=alert]", has_text="This code or key is not valid")).to_be_visible()

    # A recovery code instead.
    page.fill("[name=code]", codes[0])
    page.press("[name=code]", "Enter")
    page.wait_for_url(f"**{reverse('admin:index')}")


@pytest.mark.parametrize(("dark", "width"), [(False, 1280), (True, 390)], ids=["desktop", "dark phone"])
def test_authenticator_app(visitor: Callable[..., Visitor], root: User, dark: bool, width: int) -> None:
    visit = visitor(None, dark=dark, width=width)
    page = enter_password(visit)
    page.wait_for_url(f"**{reverse('admin:index')}")
    page = visit.open(reverse("admin:second_factor_app"))
    visit.check_accessibility()
    assert visit.overflow() <= 0
    # The picture is shown: the content security policy allows it.
    assert page.locator("#content-main img").evaluate("(image) => image.naturalWidth") > 100
    secret = page.locator("#secret").inner_text()
    assert re.fullmatch(r"[A-Z2-7]{32}", secret)
    step = int(time.time()) // 30
    page.fill("[name=code]", second_factor.code_at(secret, step))
    page.press("[name=code]", "Enter")
    expect(page.locator("#codes")).to_be_visible()

    page.context.clear_cookies()
    page = enter_password(visit)
    page.wait_for_url(f"**{reverse('admin:verify')}")
    visit.check_accessibility()
    assert visit.overflow() <= 0
    page.fill("[name=code]", "123")
    page.press("[name=code]", "Enter")
    expect(page.locator("[role=alert]", has_text="not valid")).to_be_visible()
    # The next one, because each works once.
    page.fill("[name=code]", second_factor.code_at(secret, max(step + 1, int(time.time()) // 30)))
    page.press("[name=code]", "Enter")
    page.wait_for_url(f"**{reverse('admin:index')}")
    visit.open(reverse("admin:second_factor"))
    assert visit.overflow() <= 0
