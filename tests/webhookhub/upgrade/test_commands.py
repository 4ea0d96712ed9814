"""`manage.py upgrade` and `manage.py version`."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from webhookhub import __version__
from webhookhub.crypto import new_key
from webhookhub.db import clock, requirements, trigger_check, vendors
from webhookhub.db.requirements import UnsuitableDatabase
from webhookhub.models import Process
from webhookhub.upgrade.processes import running_versions

pytestmark = pytest.mark.every_engine

APP, NAME = "webhookhub", "0002_process_version"
[(_, LAST)] = MigrationLoader(None).graph.leaf_nodes(APP)


def run(*arguments: str) -> str:
    out = io.StringIO()
    call_command(*arguments, stdout=out)
    return out.getvalue()


def register(version: str, name: str = "loop") -> None:
    now = clock.now()
    Process.objects.create(
        name=name, kind="router", host="here", pid=1, version=version, started_at=now, heartbeat_at=now
    )


@pytest.fixture
def before(committed: None) -> Iterator[None]:
    """The database as the version before has left it."""
    call_command("migrate", APP, "0001", verbosity=0)
    yield
    call_command("migrate", verbosity=0)


@pytest.fixture
def contract(monkeypatch: pytest.MonkeyPatch) -> None:
    migration = import_module(f"{APP}.migrations.{LAST}").Migration
    monkeypatch.setattr(migration, "contract", True, raising=False)


def test_the_plan_names_tables_rows_and_sql_and_changes_nothing(before: None):
    plan = run("upgrade", "--plan")

    assert f"{APP}.{NAME}  (expand" in plan
    assert "Processes record their version" in plan
    assert "on hub_processes, about 0 rows" in plan
    assert '"version" varchar(30)' in run("upgrade", "--plan", "--verbosity=2").replace("`", '"')
    assert "3. Replace the processes" in plan
    with pytest.raises(UnsuitableDatabase):
        requirements.require_migrated()


def test_upgrade_expands_the_database(before: None):
    assert f"ready for version {__version__}" in run("upgrade", "--verbosity=0")

    requirements.require_migrated()
    assert run("upgrade", "--plan") == f"Nothing to do: the database is that of version {__version__}.\n"


def test_a_migration_to_contract_waits_for_the_flag(before: None, contract: None):
    assert f"then run `upgrade --contract` for {APP}.{LAST}" in run("upgrade", "--verbosity=0")
    assert "(contract: " in run("upgrade", "--plan")
    assert "4. `upgrade --contract`" in run("upgrade", "--plan")
    # Processes of this version start without it.
    requirements.require_migrated()

    assert "is that of version" in run("upgrade", "--contract", "--verbosity=0")
    assert "Nothing to do" in run("upgrade", "--plan")


def test_contract_is_refused_while_another_version_runs(committed: None, contract: None):
    recorder = MigrationRecorder(connection)
    register("0.1.0")
    register(__version__, "other")
    recorder.record_unapplied(APP, LAST)
    try:
        with pytest.raises(CommandError, match=r"1 of version 0\.1\.0\. Replace them"):
            run("upgrade", "--contract")
    finally:
        recorder.record_applied(APP, LAST)


def test_a_migration_that_needs_a_contract_first_is_not_applied(
    before: None, contract: None, monkeypatch: pytest.MonkeyPatch
):
    """Both would only be safe one version after the other."""
    loader = MigrationLoader(connection)
    leaf = loader.graph.leaf_nodes("stats")[0]
    migration = type(loader.disk_migrations[leaf])
    recorder = MigrationRecorder(connection)
    recorder.record_unapplied(*leaf)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(migration, "dependencies", [*migration.dependencies, (APP, LAST)])
            with pytest.raises(CommandError, match=rf"{leaf[0]}\.{leaf[1]} needs a migration to contract first"):
                run("upgrade", "--verbosity=0")
            with pytest.raises(UnsuitableDatabase):
                requirements.require_migrated()
    finally:
        recorder.record_applied(*leaf)


def test_processes_of_the_version_before_are_counted_before_the_upgrade(before: None):
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO hub_processes (name, kind, host, pid, started_at, heartbeat_at) "
            f"VALUES ('old', 'router', 'here', 1, {vendors.utc_now_sql(connection)}, {vendors.utc_now_sql(connection)})"
        )

    assert running_versions() == {"0.1.0": 1}
    assert f"not applied\n{'':<14}{APP}.{NAME}" in run("version")


def test_version_names_the_database_and_what_runs(committed: None):
    register("")
    register(__version__, "other")

    text = run("version")
    assert text.startswith(f"hub         {__version__}\n")
    assert vendors.server_name(connection) in text
    assert ", 0 not applied\n" in text
    assert f"1 of 0.1.0, 1 of {__version__}" in text


def test_the_command_line_prints_the_version_of_the_hub(tmp_path: Path):
    environment = {
        "DATABASE_URL": f"sqlite:///{tmp_path}/hub.sqlite3",
        "WEBHOOKHUB_SECRET_KEY": "only for tests",
        "WEBHOOKHUB_ENCRYPTION_KEYS": new_key(),
    }
    for argument in ("version", "--version"):
        command = [sys.executable, str(settings.BASE_DIR / "manage.py"), argument]
        printed = subprocess.run(command, capture_output=True, text=True, env=environment)
        assert (printed.returncode, printed.stdout.split("\n")[0].split()[-1]) == (0, __version__), printed.stderr


def test_a_database_of_a_newer_version_is_left_to_it(committed: None, monkeypatch: pytest.MonkeyPatch):
    """A process of the version before can be started again: it does not compare triggers that it does not know."""
    recorder = MigrationRecorder(connection)
    recorder.record_applied("sagas", "9999_newer")
    monkeypatch.setattr(trigger_check, "declared", lambda without: pytest.fail("compares triggers"))
    try:
        requirements.require_migrated()
        assert list(requirements._wrong_triggers()) == []
        assert "sagas.9999_newer" in run("version")
        for command in ("upgrade", "create_triggers"):
            with pytest.raises(CommandError, match=r"newer.*sagas\.9999_newer"):
                run(command)
    finally:
        recorder.record_unapplied("sagas", "9999_newer")
