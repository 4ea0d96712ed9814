"""`migrate` refuses a user that may not create triggers before it creates the first table."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from django.db import connection, connections

from webhookhub.db import requirements, trigger_check, vendors

from .support import Processes, database_url

NEEDED = "SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, INDEX, ALTER, REFERENCES"

pytestmark = pytest.mark.mysql_family


def execute(*statements: str) -> None:
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement, None)


def tables(database: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = %s", [database])
        return int(cursor.fetchone()[0])


@pytest.fixture
def bare(committed: None) -> Iterator[str]:
    """An empty database whose user may create tables but no triggers."""
    name = f"{connection.settings_dict['NAME']}_bare"
    gone = [f"DROP DATABASE IF EXISTS {name}", f"DROP USER IF EXISTS {name}", f"DROP ROLE IF EXISTS {name}_r"]
    execute(*gone, f"CREATE DATABASE {name} CHARACTER SET utf8mb4", f"CREATE USER {name} IDENTIFIED BY 'm'")
    execute(f"GRANT {NEEDED} ON {name}.* TO {name}")
    if vendors.distrusts_trigger_creators(connection):
        execute(f"GRANT SUPER ON *.* TO {name}")  # needed in addition to the TRIGGER privilege
    yield name
    execute(*gone)


def problems(bare: str) -> list[requirements.Problem]:
    """The problems that this user has."""
    return _as_user(bare, bare)[0]


def _as_user(user: str, database: str) -> tuple[list[requirements.Problem], bool]:
    default, other = connections["default"], connection.copy()
    other.settings_dict |= {"USER": user, "PASSWORD": "m", "NAME": database}
    connections["default"] = other
    try:
        return list(requirements.migration_problems()), trigger_check.can_see_triggers(other)
    finally:
        connections["default"] = default
        other.close()


def test_migrate_refuses_a_user_without_the_trigger_privilege(processes: Processes, bare: str):
    parts = urlsplit(database_url())
    url = parts._replace(netloc=f"{bare}:m@{parts.hostname}:{parts.port}", path=f"/{bare}").geturl()

    refused = processes.start("migrate", DATABASE_URL=url)

    assert refused.wait() == 1
    assert "(webhookhub.E021) there are triggers to create (on audit_log_entries, " in refused.errors
    assert f"HINT: GRANT TRIGGER ON `{bare}`.* TO this user" in refused.errors
    assert "Traceback" not in refused.errors
    assert tables(bare) == 0


ENOUGH = {
    "on the database": ["GRANT TRIGGER ON {db}.* TO {db}"],
    "everything on the database": ["GRANT ALL ON {db}.* TO {db}"],
    "on databases of such names": ["GRANT TRIGGER ON `{pattern}`.* TO {db}"],
    "on the server": ["GRANT TRIGGER ON *.* TO {db}"],
    "by a role": ["CREATE ROLE {db}_r", "GRANT TRIGGER ON {db}.* TO {db}_r", "GRANT {db}_r TO {db}"],
}


@pytest.mark.parametrize("way", ENOUGH)
def test_the_privilege_is_enough_from_any_grant(bare: str, way: str):
    [problem] = problems(bare)
    assert problem.id == "webhookhub.E021"

    pattern = bare.replace("_", r"\_").removesuffix("bare") + "b%"
    execute(*(statement.format(db=bare, pattern=pattern) for statement in ENOUGH[way]))
    if way == "by a role":
        execute(vendors.default_role_statement(connection, f"{bare}_r", bare))

    assert problems(bare) == []


def test_a_migrated_database_needs_no_trigger_privilege(bare: str):
    database = connection.settings_dict["NAME"]
    execute(f"GRANT SELECT ON {database}.* TO {bare}")

    assert _as_user(bare, database) == ([], False)


def test_a_user_that_may_not_read_the_migrations_has_no_problem(bare: str):
    database = connection.settings_dict["NAME"]
    execute(f"GRANT SELECT ON {database}.events TO {bare}")

    assert _as_user(bare, database) == ([], False)


def test_a_user_with_the_privilege_through_a_role_can_see_triggers(bare: str):
    database = connection.settings_dict["NAME"]
    execute(f"CREATE ROLE {bare}_r", f"GRANT SELECT, TRIGGER ON {database}.* TO {bare}_r", f"GRANT {bare}_r TO {bare}")
    execute(vendors.default_role_statement(connection, f"{bare}_r", bare))
    other = connection.copy()
    other.settings_dict |= {"USER": bare, "PASSWORD": "m"}
    try:
        assert trigger_check.can_see_triggers(other)
        assert list(trigger_check.wrong_triggers(other)) == []
    finally:
        other.close()
