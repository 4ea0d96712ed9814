"""The replay of a run in a browser."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.urls import reverse

from tests.workflows import shop
from workflows.models import Instance
from workflows.registry import SAMPLES, load

from .visitor import Visitor


@pytest.fixture
def run(tmp_path: Path, hub_settings: Any) -> Instance:
    """Failed at the payment; version 2 does not read that failure."""
    text = (SAMPLES / "order_submission_1.toml").read_text()
    (tmp_path / "order_1.toml").write_text(text)
    hub_settings(workflow_definitions=(tmp_path,))
    load.cache_clear()
    found = shop.declined("o-1")
    text = text.replace("version = 1", "version = 2").replace('failed = ["payment.failed"]\n', "")
    (tmp_path / "order_2.toml").write_text(text)
    load.cache_clear()
    return found


def address(run: Instance, query: str = "") -> str:
    return reverse("admin:workflows_instance_replay", args=[run.pk]) + query


@pytest.mark.requirement("R5-9d")
def test_it_goes_forward_and_back_without_scripts(visitor: Callable[..., Visitor], root: User, run: Instance):
    page = visitor(root, scripts=False).open(address(run, "?position=1"))

    page.click("a[rel=next]")
    assert "After fact 2 of" in page.inner_text("#content-main")
    page.click("a[rel=next]")
    assert "After fact 3 of" in page.inner_text("#content-main")
    page.click("a[rel=prev]")
    assert "After fact 2 of" in page.inner_text("#content-main")
    page.click("text=Compare with version 2")
    assert "Version 2, simulated" in page.inner_text("#content-main")
    assert page.locator(".hub-diagram svg").count() == 2


@pytest.mark.parametrize(
    ("dark", "width", "language"),
    [(False, 1280, "en-US"), (True, 1280, "zh-TW"), (False, 390, "en-US")],
    ids=["desktop", "dark Chinese", "phone"],
)
def test_it_is_accessible(
    visitor: Callable[..., Visitor], root: User, run: Instance, dark: bool, width: int, language: str
):
    visit = visitor(root, dark=dark, width=width, language=language)

    for query in ("?position=2", "?version=2"):
        visit.open(address(run, query))
        visit.check_accessibility()
        assert visit.overflow() <= 0
