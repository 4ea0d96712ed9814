"""A process refuses to start on an unsuitable database or with unsuitable settings, with one line that says why."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from django.db import connection

from tests.factories import SubscriptionFactory
from webhookhub.crypto import new_key
from webhookhub.db import vendors
from webhookhub.models import Process
from workflows.models import UsedDefinition

from .support import Processes, database_url

UNFIT = 78


@pytest.fixture
def empty_database(tmp_path: Path, transactional_db: None):
    """The URL of a database without a table, on the same engine."""
    if not vendors.is_server(connection):
        yield f"sqlite:///{tmp_path / 'empty.sqlite3'}"
        return
    name = f"{connection.settings_dict['NAME']}_empty"
    with connection.cursor() as cursor:
        cursor.execute(f"DROP DATABASE IF EXISTS {name}")
        cursor.execute(f"CREATE DATABASE {name}")
    yield database_url().rpartition("/")[0] + f"/{name}"
    with connection.cursor() as cursor:
        cursor.execute(f"DROP DATABASE {name}")


def test_no_loop_starts_on_a_database_that_is_not_migrated(processes: Processes, empty_database: str):
    router = processes.start("run_router", DATABASE_URL=empty_database)

    assert router.wait() == UNFIT
    [line] = router.errors.splitlines()
    assert line.startswith("CommandError: The hub cannot use this database: ")
    assert "migrations are not applied" in line
    assert line.endswith("(run manage.py upgrade).")


@pytest.mark.requirement("R4-1.1b")
@pytest.mark.mysql_family
def test_no_loop_starts_on_tables_without_transactions(processes: Processes):
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE hub_processes ENGINE=MyISAM")
    try:
        router = processes.start("run_router")
        assert router.wait() == UNFIT
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE hub_processes ENGINE=InnoDB")
    [line] = router.errors.splitlines()
    assert "table hub_processes uses the engine MyISAM (it must be InnoDB: ALTER TABLE … ENGINE=InnoDB)" in line
    assert "FOR UPDATE SKIP LOCKED returns rows that another connection has locked" in line
    assert not Process.objects.exists(), "a process that did not start is not listed"


def test_a_lease_that_does_not_outlast_a_request_is_refused(processes: Processes):
    refused = processes.start("run_hub", WEBHOOKHUB_LEASE="2")

    assert refused.wait() == UNFIT
    assert "WEBHOOKHUB_LEASE is 2 s: it must be longer than WEBHOOKHUB_REQUEST_TIMEOUT" in refused.errors
    assert "Traceback" not in refused.errors


@pytest.mark.usefixtures("committed")
def test_a_worker_refuses_to_start_without_the_key_of_the_stored_secrets(processes: Processes):
    SubscriptionFactory.create()

    worker = processes.start("run_worker", WEBHOOKHUB_ENCRYPTION_KEYS=new_key())

    assert worker.wait() == UNFIT
    assert "none of WEBHOOKHUB_ENCRYPTION_KEYS opens the stored secrets" in worker.errors
    assert not Process.objects.exists()


@pytest.mark.usefixtures("committed")
def test_a_definition_that_was_changed_after_its_use_is_named(processes: Processes, tmp_path: Path):
    used = {"name": "mine", "version": 1, "starts": ["a"], "steps": [{"key": "one", "done": ["b"]}]}
    UsedDefinition.objects.create(name="mine", version=1, fingerprint="another", document=json.dumps(used))
    (tmp_path / "mine.toml").write_text(
        'name = "mine"\nversion = 1\nstarts = ["a"]\n[[steps]]\nkey = "one"\ndone = ["a"]\n'
    )

    refused = processes.start("run_workflows", WEBHOOKHUB_WORKFLOW_DEFINITIONS=str(tmp_path))

    assert refused.wait() == UNFIT
    assert "A definition is not valid: workflow definition mine version 1 (mine.toml): version has" in refused.errors
    assert "The hub cannot use this database" not in refused.errors
    assert "Traceback" not in refused.errors
    assert not Process.objects.filter(kind="workflows").exists(), "a process that did not start is not listed"
