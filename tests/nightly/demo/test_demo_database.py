"""The demo explains what to do with a database of another version; other errors are shown unchanged."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.processes.support import Processes
from tools.demo import database

SECONDS = 60


@pytest.fixture
def file(processes: Processes, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of a migrated database, which is created once, because that takes long."""
    migrated, file = tmp_path_factory.getbasetemp() / "migrated.sqlite3", tmp_path / "old.sqlite3"
    processes.environment["WEBHOOKHUB_SECRET_KEY"] = "only for tests"
    if not migrated.exists():
        url = f"sqlite:///{migrated}"
        assert processes.start("migrate", "--verbosity", "0", DATABASE_URL=url).wait(SECONDS) == 0
    processes.environment["DATABASE_URL"] = f"sqlite:///{file}"
    shutil.copy(migrated, file)
    return file


def errors_of_a_run(processes: Processes, folder: Path) -> str:
    demo = processes.execute(["-m", "tools.demo", "--folder", str(folder), "--events", "1"])
    assert demo.wait(SECONDS) == 1
    return demo.errors.strip()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        # A migration that was renamed: its tables exist.
        ("DELETE FROM django_migrations WHERE app = 'auditlog'", "already exists"),
        # A migration that creates more than before.
        (
            "ALTER TABLE api_keys RENAME COLUMN last_used_at TO earlier",
            "column last_used_at of table api_keys is missing",
        ),
        # A migration that now depends on another.
        ("DELETE FROM django_migrations WHERE app = 'events' AND name = '0001_initial'", "is applied before"),
    ],
)
def test_a_database_of_another_version_is_refused_in_one_line(
    processes: Processes, file: Path, tmp_path: Path, change: str, reason: str
):
    with sqlite3.connect(file) as old:
        old.execute(change)

    [message] = errors_of_a_run(processes, tmp_path / "demo").splitlines()

    assert message.startswith("The database was created by another version of the hub (")
    assert reason in message
    assert message.endswith("set DATABASE_URL to an empty database.")


def test_a_file_that_is_not_a_database_is_another_error(processes: Processes, file: Path, tmp_path: Path):
    file.write_bytes(b"no database" * 1000)

    message = errors_of_a_run(processes, tmp_path / "demo")

    assert "another version" not in message
    assert "file is not a database" in message


def test_for_the_embedded_database_the_message_names_make_clean(settings: Any):
    settings.EMBEDDED = True

    assert str(database._outdated("x")).endswith("run `make clean`, which removes it with all its data, and try again.")
