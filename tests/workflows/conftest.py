"""Definitions in a folder of the test's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.workflows.trips import Write, definition, restart
from workflows.registry import load


@pytest.fixture
def folder(tmp_path: Path, hub_settings: Any) -> Path:
    hub_settings(workflow_definitions=(tmp_path,))
    load.cache_clear()
    return tmp_path


@pytest.fixture
def write(folder: Path) -> Write:
    """Writes a version into the folder and restarts the processes."""

    def into(version: int, **changes: str) -> None:
        (folder / f"trip_{version}.toml").write_text(definition(version, **changes))
        restart()

    return into
