"""Linters, types, migrations and system checks find no problem."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize(
    "command",
    [
        ["-m", "ruff", "check", "."],
        ["-m", "ruff", "format", "--check", "."],
        ["-m", "mypy", "."],
        ["manage.py", "makemigrations", "--check", "--dry-run"],
        ["manage.py", "check", "--fail-level", "WARNING"],
    ],
    ids=" ".join,
)
def test_check_finds_no_problem(command: list[str]):
    environment = {name: value for name, value in os.environ.items() if not name.endswith("DATABASE_URL")}

    done = subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env=environment | {"DJANGO_SETTINGS_MODULE": "tests.settings"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
