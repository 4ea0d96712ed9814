"""A browser session that records errors of the pages."""

from __future__ import annotations

from typing import Any

from axe_playwright_python.sync_playwright import Axe
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from playwright.sync_api import Browser, Page, Request

from webhookhub.console.middleware import COOKIE

PATIENCE_MS = 20_000
GRAVE = {"serious", "critical"}
# Faster without the passed rules.
ONLY_FAULTS = {"resultTypes": ["violations"]}


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
        been_here: bool = True,
    ) -> None:
        self.home = home
        self.faults: list[str] = []
        self._context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if dark else "light",
            locale=language,
            timezone_id=time_zone,
            reduced_motion="reduce",
        )
        self._context.set_default_timeout(PATIENCE_MS)
        self._context.grant_permissions(["clipboard-read", "clipboard-write"])
        if been_here:
            # As if console.js had run on an earlier page.
            self._context.add_cookies([{"name": COOKIE, "value": time_zone, "url": home}])
        if user is not None:
            self._context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": _session_of(user), "url": home}])
        self.page: Page = self._context.new_page()
        self.page.on("console", self._hear)
        self.page.on("pageerror", lambda error: self.faults.append(f"{self.page.url}: {error}"))
        self.page.on("request", self._watch)
        self.page.on("dialog", self._refuse)

    def open(self, address: str) -> Page:
        response = self.page.goto(self.home + address, wait_until="load")
        assert response is not None
        assert response.status == 200, f"{address} answered {response.status}"
        return self.page

    def accessibility_faults(self) -> list[str]:
        """What axe-core calls serious or critical on this page."""
        found: Any = Axe().run(self.page, options=ONLY_FAULTS).response["violations"]
        return [
            f"{self.page.url}: {fault['id']} ({fault['help']}): {node['html'][:300]}"
            for fault in found
            if fault["impact"] in GRAVE
            for node in fault["nodes"]
        ]

    def look_closely(self) -> None:
        """What is wrong with this page is among the faults, in the place where it stands and however it was come to."""
        self.faults += self.accessibility_faults()

    def send(self, address: str, form: dict[str, str]) -> int:
        """Posts a form with the session's CSRF token; returns the status."""
        token = next(each["value"] for each in self._context.cookies() if each["name"] == settings.CSRF_COOKIE_NAME)
        response = self.page.request.post(self.home + address, form={"csrfmiddlewaretoken": token, **form})
        return response.status

    def overflow(self) -> int:
        """By how many pixels the page is wider than the window."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth"))

    def forget(self, cookie: str) -> None:
        self._context.clear_cookies(name=cookie)

    def leave(self) -> None:
        self._context.close()

    def _hear(self, message: Any) -> None:
        if message.type == "error":
            self.faults.append(f"{self.page.url}: {message.text}")

    def _refuse(self, dialog: Any) -> None:
        self.faults.append(f"{self.page.url} opens a dialogue: {dialog.message}")
        dialog.dismiss()

    def _watch(self, request: Request) -> None:
        if not request.url.startswith((self.home, "data:", "blob:")):
            self.faults.append(f"{self.page.url} asks for {request.url}")


def _session_of(user: User) -> str:
    client = Client()
    client.force_login(user)
    return str(client.cookies[settings.SESSION_COOKIE_NAME].value)
