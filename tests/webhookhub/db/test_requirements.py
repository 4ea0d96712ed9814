"""A database that lacks something that the hub relies on is detected."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest
from django.core.management import call_command
from django.db import connection, connections
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from webhookhub.checks import database_is_fit
from webhookhub.db import clock, requirements
from webhookhub.db.requirements import UnsuitableDatabase
from webhookhub.db.triggers import declared
from webhookhub.db.vendors import is_mariadb
from webhookhub.models import Process

pytestmark = pytest.mark.every_engine

TABLE = Process._meta.db_table


@pytest.fixture
def session(committed: None) -> Iterator[None]:
    """A session that the test may change: it is closed after the test."""
    yield
    connection.close()


@pytest.fixture
def probe(session: None) -> str:
    Process.objects.create(
        name="probe", kind="test", host="here", pid=1, started_at=clock.now(), heartbeat_at=clock.now()
    )
    return "probe"


def execute(sql: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql)


def problem_ids() -> set[str]:
    return {problem.id for problem in requirements.server_problems()}


@pytest.mark.requirement("R4-1.1c")
def test_the_database_of_the_tests_is_fit(probe: str):
    assert requirements.server_problems() == []
    requirements.require(probe)
    requirements.require_migrated()


@pytest.mark.requirement("R1-10.2a")
@pytest.mark.mysql_family
@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE", "READ UNCOMMITTED"])
def test_another_isolation_is_unfit(probe: str, level: str):
    execute(f"SET SESSION TRANSACTION ISOLATION LEVEL {level}")

    [problem] = requirements.server_problems()
    assert problem.id == "webhookhub.E011"
    assert level.replace(" ", "-") in problem.message
    with pytest.raises(UnsuitableDatabase, match="they must be READ COMMITTED"):
        requirements.require(probe)


@pytest.mark.requirement("R4-1.1c")
@pytest.mark.mysql_family
@pytest.mark.parametrize("zone", ["+01:00", "-11:30", "SYSTEM"])
def test_another_time_zone_is_unfit(probe: str, zone: str):
    execute(f"SET time_zone = '{zone}'")

    assert problem_ids() == {"webhookhub.E012"}
    with pytest.raises(UnsuitableDatabase, match="time zone"):
        requirements.require(probe)


@pytest.mark.mysql_family
@pytest.mark.parametrize("mode", ["", "NO_ENGINE_SUBSTITUTION"])
def test_a_mode_that_is_not_strict_is_unfit(probe: str, mode: str):
    execute(f"SET sql_mode = '{mode}'")

    assert problem_ids() == {"webhookhub.E013"}
    with pytest.raises(UnsuitableDatabase, match="not strict"):
        requirements.require(probe)


@pytest.mark.mysql_family
def test_either_strict_mode_is_fit(session: None):
    execute("SET sql_mode = 'STRICT_ALL_TABLES'")

    assert requirements.server_problems() == []


@pytest.mark.requirement("R4-1.1b")
@pytest.mark.mysql_family
def test_a_table_of_another_engine_is_unfit(probe: str):
    execute(f"ALTER TABLE {TABLE} ENGINE = MyISAM")
    try:
        [problem] = requirements.server_problems()
        assert problem.id == "webhookhub.E016"
        assert TABLE in problem.message
        assert "MyISAM" in problem.message
    finally:
        execute(f"ALTER TABLE {TABLE} ENGINE = InnoDB")


@pytest.mark.requirement("R4-1.1b")
@pytest.mark.mysql_family
def test_an_old_server_is_unfit(session: None):
    version = (10, 5, 99) if is_mariadb(connection) else (8, 0, 12)
    default = connections["default"]
    was = default.mysql_version  # type: ignore[attr-defined]
    # Without such a server, only the reported version is replaced.
    default.__dict__["mysql_version"] = version
    try:
        assert "webhookhub.E010" in problem_ids()
    finally:
        default.__dict__["mysql_version"] = was


def test_a_database_that_is_not_migrated_is_unfit(probe: str):
    recorder = MigrationRecorder(connection)
    [(_, last)] = MigrationLoader(None).graph.leaf_nodes("jobs")
    recorder.record_unapplied("jobs", last)
    try:
        with pytest.raises(
            UnsuitableDatabase, match=rf"1 migrations are not applied, starting with jobs\.{last} .*manage"
        ):
            requirements.require_migrated()
        with pytest.raises(UnsuitableDatabase, match="not applied"):
            requirements.require(probe)
    finally:
        recorder.record_applied("jobs", last)


@pytest.mark.requirement("R2-2.2c")
@pytest.mark.requirement("R4-1.2c")
@pytest.mark.mysql_family
def test_a_locked_row_is_skipped_by_another_connection(probe: str):
    other = connection.copy()
    try:
        assert requirements.skips_locked_rows(connection, other, probe)
        assert connection.get_autocommit()
        assert other.get_autocommit()
    finally:
        other.close()


@pytest.mark.mysql_family
def test_an_ignored_lock_is_detected(probe: str):
    # One connection is both holder and seeker, like an engine that ignores SKIP LOCKED.
    assert not requirements.skips_locked_rows(connection, connection, probe)
    assert connection.get_autocommit()


@pytest.mark.mysql_family
def test_a_probe_without_its_row_fails(session: None):
    with pytest.raises(UnsuitableDatabase, match="SKIP LOCKED"):
        requirements.require("there is no such row")


@pytest.mark.mysql_family
def test_the_probe_leaves_no_lock_behind(probe: str):
    requirements.require(probe)
    other = connection.copy()
    try:
        with other.cursor() as cursor:
            cursor.execute(f"SELECT name FROM {TABLE} WHERE name = %s FOR UPDATE NOWAIT", [probe])
            assert cursor.fetchall()
    finally:
        other.close()


@pytest.mark.parametrize("name", ["trg_event_inbox", "trg_saga_changed"])
def test_a_missing_trigger_is_named(committed: None, name: str):
    """As after a dump restored without its triggers."""
    [trigger] = [trigger for trigger in declared() if trigger.name == name]
    assert list(requirements._wrong_triggers()) == []
    with connection.cursor() as cursor:
        cursor.execute(f"DROP TRIGGER {name}")
        try:
            [problem] = requirements._wrong_triggers()
        finally:
            cursor.execute(trigger.create_sql(connection), None)
    assert problem.id == "webhookhub.E017"
    assert name in problem.message
    assert "manage.py create_triggers" in problem.hint


DIFFERENT = {
    "another body": ("{timing} {event} ON {table}", "UPDATE hub_processes SET pid = pid WHERE 1 = 0"),
    "another event": ("{timing} INSERT ON {table}", None),
    "another timing": ("AFTER {event} ON {table}", None),
    "another table": ("{timing} {event} ON dead_letters", None),
}


@pytest.mark.parametrize("difference", DIFFERENT)
def test_a_different_trigger_of_the_same_name_is_named(probe: str, difference: str):
    head, body = DIFFERENT[difference]
    [trigger] = [trigger for trigger in declared() if trigger.name == "trg_job_no_delete"]
    where = head.format(timing="BEFORE", event="DELETE", table=trigger.table)
    text = trigger.create_sql(connection).partition(" FOR EACH ROW ")[2]
    execute("DROP TRIGGER trg_job_no_delete")
    execute(f"CREATE TRIGGER trg_job_no_delete {where} FOR EACH ROW " + (f"BEGIN {body}; END" if body else text))
    try:
        [problem] = requirements._wrong_triggers()
        [warning] = requirements.trigger_problems()
        [warning_message] = [each for each in database_is_fit(["default"]) if each.id == problem.id]
        with pytest.raises(UnsuitableDatabase, match="trg_job_no_delete"):
            requirements.require(probe)
    finally:
        execute("DROP TRIGGER trg_job_no_delete")
        execute(trigger.create_sql(connection))
    assert problem == warning
    assert not warning_message.is_serious()  # an error would stop migrate
    assert problem.id == "webhookhub.E018"
    assert "trg_job_no_delete" in problem.message
    assert "manage.py create_triggers" in problem.hint
    assert list(requirements._wrong_triggers()) == []


def test_line_breaks_in_a_trigger_make_no_difference(committed: None):
    [trigger] = [trigger for trigger in declared() if trigger.name == "trg_job_no_delete"]
    execute("DROP TRIGGER trg_job_no_delete")
    execute(trigger.create_sql(connection).replace(" BEGIN ", "\n  BEGIN\n\t").replace("; END", ";\nEND"))
    try:
        assert list(requirements._wrong_triggers()) == []
    finally:
        execute("DROP TRIGGER trg_job_no_delete")
        execute(trigger.create_sql(connection))


def test_the_remedy_restores_missing_and_different_triggers(committed: None):
    execute("DROP TRIGGER trg_job_changed")
    execute("DROP TRIGGER trg_job_no_delete")
    body = "BEGIN UPDATE hub_processes SET pid = pid WHERE 1 = 0; END"
    execute(f"CREATE TRIGGER trg_job_no_delete BEFORE DELETE ON webhook_delivery_jobs FOR EACH ROW {body}")
    assert [problem.id for problem in requirements._wrong_triggers()] == ["webhookhub.E017", "webhookhub.E018"]

    call_command("create_triggers", stdout=io.StringIO())

    assert list(requirements._wrong_triggers()) == []
