"""A browser session that records errors of the pages."""

from __future__ import annotations

from typing import Any

from axe_playwright_python.sync_playwright import Axe
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from playwright.sync_api import Browser, Page, Request

from webhookhub.console.middleware import COOKIE

TIMEOUT_MS = 20_000
SEVERE = {"serious", "critical"}
# Faster without the passed rules.
ONLY_VIOLATIONS = {"resultTypes": ["violations"]}


class Visitor:
    def __init__(
        self,
        browser: Browser,
        home: str,
        user: User | None = None,
        *,
        width: int = 1280,
        dark: bool = False,
        language: str = "en-US",
        time_zone: str = "Asia/Taipei",
        has_cookie: bool = True,
        scripts: bool = True,
    ) -> None:
        self.home = home
        self.errors: list[str] = []
        self._context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if dark else "light",
            locale=language,
            timezone_id=time_zone,
            reduced_motion="reduce",
            java_script_enabled=scripts,
        )
        self._context.set_default_timeout(TIMEOUT_MS)
        self._context.grant_permissions(["clipboard-read", "clipboard-write"])
        if has_cookie:
            # As if console.js had run on an earlier page.
            self._context.add_cookies([{"name": COOKIE, "value": time_zone, "url": home}])
        if user is not None:
            self._context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": _session_of(user), "url": home}])
        self.page: Page = self._context.new_page()
        self.page.on("console", self._on_console)
        self.page.on("pageerror", lambda error: self.errors.append(f"{self.page.url}: {error}"))
        self.page.on("request", self._on_request)
        self.page.on("dialog", self._on_dialog)

    def open(self, address: str) -> Page:
        response = self.page.goto(self.home + address, wait_until="load")
        assert response is not None
        assert response.status == 200, f"{address} responded with {response.status}"
        return self.page

    def accessibility_errors(self) -> list[str]:
        """The violations on this page that axe-core calls serious or critical."""
        violations: Any = Axe().run(self.page, options=ONLY_VIOLATIONS).response["violations"]
        return [
            f"{self.page.url}: {violation['id']} ({violation['help']}): {node['html'][:300]}"
            for violation in violations
            if violation["impact"] in SEVERE
            for node in violation["nodes"]
        ]

    def check_accessibility(self) -> None:
        """Adds the accessibility errors of the current page to `errors`, which fail the test at its end."""
        self.errors += self.accessibility_errors()

    def send(self, address: str, form: dict[str, str]) -> int:
        """Posts a form with the session's CSRF token; returns the status."""
        token = next(
            cookie["value"] for cookie in self._context.cookies() if cookie["name"] == settings.CSRF_COOKIE_NAME
        )
        response = self.page.request.post(self.home + address, form={"csrfmiddlewaretoken": token, **form})
        return response.status

    def overflow(self) -> int:
        """By how many pixels the page is wider than the window."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth"))

    def forget(self, cookie: str) -> None:
        self._context.clear_cookies(name=cookie)

    def close(self) -> None:
        self._context.close()

    def _on_console(self, message: Any) -> None:
        if message.type == "error":
            self.errors.append(f"{self.page.url}: {message.text}")

    def _on_dialog(self, dialog: Any) -> None:
        self.errors.append(f"{self.page.url} opens a dialog: {dialog.message}")
        dialog.dismiss()

    def _on_request(self, request: Request) -> None:
        if not request.url.startswith((self.home, "data:", "blob:")):
            self.errors.append(f"{self.page.url} requests {request.url}")


def _session_of(user: User) -> str:
    client = Client()
    client.force_login(user)
    return str(client.cookies[settings.SESSION_COOKIE_NAME].value)
