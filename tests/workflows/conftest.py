"""Definitions in a folder of the test's own."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.workflows.trips import Write, definition, restart
from workflows import create
from workflows.registry import load


@pytest.fixture
def folder(tmp_path: Path, hub_settings: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No other process is about to begin anything, so a new version need not wait before it takes over."""
    monkeypatch.setattr(create, "SETTLING", timedelta(0))
    hub_settings(workflow_definitions=(tmp_path,))
    load.cache_clear()
    return tmp_path


@pytest.fixture
def write(folder: Path) -> Write:
    """A version goes into the folder, and the processes are started anew."""

    def into(version: int, correlation: str = "correlation_id", **changes: str) -> None:
        (folder / f"trip_{version}.toml").write_text(definition(version, correlation, **changes))
        restart()

    return into
