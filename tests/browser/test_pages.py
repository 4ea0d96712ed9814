"""Pages without stored rows: login, errors and forms."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.urls import reverse

from tests.support import rows

from .visitor import Visitor


@pytest.mark.parametrize(("dark", "width"), [(False, 1280), (True, 390)], ids=["desktop", "dark phone"])
def test_error_pages_are_accessible(visitor: Callable[..., Visitor], root: User, dark: bool, width: int):
    for user in (root, None):
        visit = visitor(user, dark=dark, width=width)
        visit.page.goto(visit.home + "/nothing/")
        # The browser logs the status itself.
        assert [error for error in visit.errors if "404" not in error] == []
        visit.errors.clear()
        assert "Page not found" in visit.page.inner_text("h1")
        assert visit.accessibility_errors() == []
        assert visit.overflow() <= 0


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_login_page_is_accessible(visitor: Callable[..., Visitor], root: User, dark: bool):
    visit = visitor(None, dark=dark)
    page = visit.open(reverse("admin:login"))
    assert visit.accessibility_errors() == []

    page.fill("[name=username]", "root")
    page.fill("[name=password]", "only for tests")
    page.click("#login-form button[type=submit]")

    page.wait_for_url(f"**{reverse('admin:index')}")


def test_the_fields_of_the_api_key_form_are_visible(visitor: Callable[..., Visitor], root: User):
    page = visitor(root).open(rows.add("api_apikey"))

    for name in ("name", "source", "expires_at", "events_per_second"):
        field = page.locator(f"input[name={name}]")
        assert field.evaluate("(field) => parseFloat(getComputedStyle(field).borderTopWidth)") > 0, name


@pytest.mark.parametrize("key", ["Control+k", "Meta+k"])
def test_the_command_palette_is_disabled(visitor: Callable[..., Visitor], root: User, key: str):
    page = visitor(root).open(reverse("admin:index"))
    boxes = page.locator("input[type=search]:visible").count()

    page.keyboard.press(key)

    page.evaluate("() => new Promise((shown) => requestAnimationFrame(() => requestAnimationFrame(shown)))")
    assert page.locator("input[type=search]:visible").count() == boxes
    assert page.locator("[hx-get*='/search/']").count() == 0


def test_inline_scripts_do_not_run(visitor: Callable[..., Visitor], root: User):
    visit = visitor(root)
    page = visit.open(reverse("admin:index"))

    page.evaluate(
        """() => {
            const script = document.createElement("script");
            script.textContent = "window.intruder = true";
            document.body.append(script);
        }"""
    )

    assert page.evaluate("window.intruder") is None
    assert [error for error in visit.errors if "Content Security Policy" in error]
    visit.errors.clear()
