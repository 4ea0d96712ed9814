"""The console in headless chromium, with a new page for each test.

A test fails if a page writes an error to the browser's console or sends a request to another host.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Browser, expect, sync_playwright
from pytest_django.live_server_helper import LiveServer
from pytest_django.plugin import DjangoDbBlocker

from tests.conftest import empty_tables

from . import stack as stacks
from .stack import Stack
from .visitor import TIMEOUT_MS, Visitor

expect.set_options(timeout=TIMEOUT_MS)
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("needs a browser: neither chromium nor chromium-browser is installed (apt-get install chromium)")
    # Playwright runs an event loop in this thread, and Django refuses database calls in an event loop.
    before = os.environ.get("DJANGO_ALLOW_ASYNC_UNSAFE")
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
    try:
        with sync_playwright() as playwright:
            # In a container chromium's sandbox does not work, and /dev/shm is small.
            running = playwright.chromium.launch(
                executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
            )
            yield running
            running.close()
    finally:
        if before is None:
            del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]
        else:
            os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = before


@pytest.fixture
def visitor(browser: Browser, live_server: LiveServer, committed: None) -> Iterator[Callable[..., Visitor]]:
    """Opens a browser session: visitor(user), visitor(user, width=390), visitor(None, dark=True)."""
    visitors: list[Visitor] = []

    def open_session(user: User | None = None, **options: object) -> Visitor:
        visitors.append(Visitor(browser, live_server.url, user, **options))  # type: ignore[arg-type]
        return visitors[-1]

    yield open_session
    close(visitors)


def close(visitors: list[Visitor]) -> None:
    for visitor in visitors:
        visitor.close()
    assert [error for visitor in visitors for error in visitor.errors] == []


@pytest.fixture
def root(committed: None) -> User:
    return User.objects.create_superuser("root", password="only for tests")


@pytest.fixture(scope="module")
def stack(
    browser: Browser,
    certificate_files: tuple[Path, Path],
    tmp_path_factory: pytest.TempPathFactory,
    django_db_setup: None,
    django_db_blocker: DjangoDbBlocker,
) -> Iterator[Stack]:
    """A running hub for all tests of a module, because it takes seconds to start. Its rows are kept until the end."""
    with django_db_blocker.unblock():
        try:
            with stacks.running(tmp_path_factory.mktemp("stack"), certificate_files) as running:
                yield running
        finally:
            empty_tables()


@pytest.fixture
def log_in(browser: Browser, stack: Stack) -> Iterator[Callable[[str], Visitor]]:
    """Logs in to the running hub as a member of a group: log_in("support")."""
    visitors: list[Visitor] = []

    def open_session(group: str) -> Visitor:
        name = stacks.member(group).get_username()
        visitors.append(Visitor(browser, stack.home))
        page = visitors[-1].open("/admin/login/")
        page.fill("input[name=username]", name)
        page.fill("input[name=password]", stacks.PASSWORD)
        page.press("input[name=password]", "Enter")
        page.wait_for_url("**/admin/")
        return visitors[-1]

    yield open_session
    close(visitors)
