"""The console in a real browser: Debian's chromium, headless, with a page of its own for each test.

Whatever a test opens, the page may write no error to the browser's console and ask no other host for anything.
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
from .visitor import PATIENCE_MS, Visitor

expect.set_options(timeout=PATIENCE_MS)
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("needs a browser: neither chromium nor chromium-browser is installed (apt-get install chromium)")
    # Playwright keeps an event loop in this thread; Django would take its presence for code that must not wait.
    before = os.environ.get("DJANGO_ALLOW_ASYNC_UNSAFE")
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
    try:
        with sync_playwright() as playwright:
            # A container has no place for chromium's own sandbox, and a small /dev/shm.
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
    """Opens a browser for somebody: visitor(user), visitor(user, width=390), visitor(None, dark=True)."""
    visitors: list[Visitor] = []

    def come(user: User | None = None, **looks: object) -> Visitor:
        visitors.append(Visitor(browser, live_server.url, user, **looks))  # type: ignore[arg-type]
        return visitors[-1]

    yield come
    for each in visitors:
        each.leave()
    assert [fault for each in visitors for fault in each.faults] == []


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
    """The hub in processes, once for a file of tests, for it takes seconds to start; what they store stays so long."""
    with django_db_blocker.unblock():
        try:
            with stacks.running(tmp_path_factory.mktemp("stack"), certificate_files) as running:
                yield running
        finally:
            empty_tables()


@pytest.fixture
def log_in(browser: Browser, stack: Stack) -> Iterator[Callable[[str], Visitor]]:
    """Somebody of a group in front of the running hub, with name and password: log_in("support")."""
    visitors: list[Visitor] = []

    def come(group: str) -> Visitor:
        name = stacks.member(group).get_username()
        visitors.append(Visitor(browser, stack.home))
        page = visitors[-1].open("/admin/login/")
        page.fill("input[name=username]", name)
        page.fill("input[name=password]", stacks.PASSWORD)
        page.press("input[name=password]", "Enter")
        page.wait_for_url("**/admin/")
        return visitors[-1]

    yield come
    for each in visitors:
        each.leave()
    assert [fault for each in visitors for fault in each.faults] == []
