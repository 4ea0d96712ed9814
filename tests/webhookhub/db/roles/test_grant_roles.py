"""manage.py grant_roles gives the roles and users on the server exactly the declared privileges."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import DatabaseError, connection, connections

from webhookhub.db import vendors
from webhookhub.db.roles import ROLES

from .accounts import connected_as, execute, grant_roles, prefix, role_account, user_name

server_only = pytest.mark.mysql_family


def grants_of(account: str) -> set[str]:
    with connection.cursor() as cursor:
        cursor.execute(f"SHOW GRANTS FOR {account}", None)
        return {line for (line,) in cursor.fetchall()}


def all_grants() -> dict[str, set[str]]:
    accounts = [f"`{user_name(role.name)}`@`%`" for role in ROLES] + [role_account(role.name) for role in ROLES]
    return {account: grants_of(account) for account in accounts}


@pytest.fixture
def declared(granted: None, transactional_db: None) -> Iterator[dict[str, set[str]]]:
    """The grants of every role and user after the first run. test_matrix.py shows that they are the declared ones."""
    yield all_grants()
    grant_roles()


def database() -> str:
    return str(connection.settings_dict["NAME"])


@server_only
def test_a_second_run_leaves_the_same_grants(declared: dict[str, set[str]]):
    first = grant_roles()

    assert grant_roles() == first
    assert all_grants() == declared


@server_only
def test_a_dry_run_prints_the_statements_and_executes_none(users: None, transactional_db: None):
    execute(*(f"DROP ROLE IF EXISTS {role_account(role.name)}" for role in ROLES))

    printed = grant_roles("--dry-run")

    with pytest.raises(DatabaseError):
        grants_of(role_account("worker"))
    assert printed == grant_roles()
    assert f"CREATE ROLE IF NOT EXISTS {role_account('worker')};" in printed
    on = f"`{database()}`.`routing_inbox`"
    assert f"GRANT SELECT, DELETE ON {on} TO {role_account('router_worker')};" in printed
    on = f"`{database()}`.`webhook_delivery_jobs`"
    columns = "status, lease_until, lease_resets"
    assert f"GRANT SELECT, UPDATE ({columns}) ON {on} TO {role_account('lease_cleaner')};" in printed
    assert f"GRANT {role_account('console')} TO `{user_name('console')}`@`%`;" in printed


TOO_MUCH = {
    "another word on a table": "GRANT DELETE ON `{db}`.`webhook_delivery_sagas` TO {role}",
    "the whole table instead of columns": "GRANT UPDATE ON `{db}`.`webhook_delivery_jobs` TO {role}",
    "another column": "GRANT UPDATE (`saga_id`) ON `{db}`.`webhook_delivery_jobs` TO {role}",
    "a column besides its whole table": "GRANT SELECT (`id`) ON `{db}`.`webhook_delivery_jobs` TO {role}",
    "another table": "GRANT SELECT ON `{db}`.`auth_user` TO {role}",
    "the whole database": "GRANT ALL PRIVILEGES ON `{db}`.* TO {role}",
    "another database": "GRANT SELECT ON `hub_roles_elsewhere`.* TO {role}",
    "the whole server": "GRANT PROCESS, SELECT ON *.* TO {role}",
    "passing it on": "GRANT SELECT ON `{db}`.`events` TO {role} WITH GRANT OPTION",
    "to the user itself": "GRANT SELECT, UPDATE (`status`) ON `{db}`.`webhook_delivery_sagas` TO {user}",
    "the whole server to the user itself": "GRANT ALL PRIVILEGES ON *.* TO {user} WITH GRANT OPTION",
    "another role": "GRANT {other} TO {user}",
    "passing the role on": "GRANT {role} TO {user} WITH ADMIN OPTION",
    "another role to the role": "GRANT {other} TO {role}",
}


@server_only
@pytest.mark.parametrize("excess", TOO_MUCH)
def test_excess_privileges_are_revoked(declared: dict[str, set[str]], excess: str):
    names = {
        "db": database(),
        "role": role_account("worker"),
        "other": role_account("console"),
        "user": f"`{user_name('worker')}`@`%`",
    }
    execute(TOO_MUCH[excess].format(**names))
    assert all_grants() != declared

    grant_roles()

    assert all_grants() == declared


@server_only
def test_missing_privileges_are_granted_again(declared: dict[str, set[str]]):
    execute(
        f"REVOKE UPDATE (`status`) ON `{database()}`.`webhook_delivery_jobs` FROM {role_account('worker')}",
        f"REVOKE {role_account('console')} FROM `{user_name('console')}`@`%`",
    )
    assert all_grants() != declared

    grant_roles()

    assert all_grants() == declared


@server_only
def test_a_user_that_is_not_named_keeps_its_role(declared: dict[str, set[str]]):
    grant_roles(users=False)

    assert all_grants() == declared


@server_only
def test_a_user_has_its_role_from_log_in(declared: dict[str, set[str]]):
    with connected_as("worker") as other, other.cursor() as cursor:
        cursor.execute("SELECT CURRENT_ROLE()")
        assert f"{prefix()}_worker" in cursor.fetchone()[0]


def refusal(*arguments: str) -> str:
    with pytest.raises(CommandError) as caught:
        call_command("grant_roles", *arguments, stdout=StringIO(), stderr=StringIO())
    return str(caught.value)


@server_only
def test_mistakes_are_refused_before_anything_is_changed(declared: dict[str, set[str]]):
    named = f"--prefix={prefix()}"
    me = connection.settings_dict["USER"]

    assert "would lose its own privileges" in refusal(named, f"--user=worker={me}")
    assert "a user has one role" in refusal(named, *[f"--user={role}=hub_roles_x" for role in ("worker", "console")])
    assert "Database user `hub_roles_nobody`@`10.%` does not exist: create it first" in refusal(
        named, "--user=worker=hub_roles_nobody@10.%"
    )
    assert "Database hub_roles_nowhere has no table" in refusal(named, "--database=hub_roles_nowhere")
    assert "at most 11 characters" in refusal("--prefix=a-very-long-name")
    assert "is not a name" in refusal("--prefix=a`b")
    assert "is not a name" in refusal(named, "--database=a`b")
    assert "there is no role 'wroker'; the roles are event_ingest_writer" in refusal("--user=wroker=x")
    assert "not of the form role=name@host" in refusal("--user=worker=a'b")
    assert all_grants() == declared


@pytest.fixture
def namesake(declared: dict[str, set[str]]) -> Iterator[str]:
    """A prefix for which a user has the name of a role that does not exist yet."""
    other = prefix().replace("roles", "names")
    execute(
        f"CREATE USER `{other}_worker`@`%` IDENTIFIED BY 'a long one'",
        f"GRANT SELECT ON `{database()}`.`events` TO `{other}_worker`@`%`",
    )
    yield other
    execute(f"DROP USER `{other}_worker`@`%`")
    execute(*(f"DROP ROLE IF EXISTS `{other}_{role.name}`" for role in ROLES))


@server_only
@pytest.mark.parametrize("named", [True, False])
def test_a_user_with_the_name_of_a_role_is_refused_and_keeps_its_privileges(namesake: str, named: bool):
    user = f"`{namesake}_worker`@`%`"
    before = grants_of(user)

    message = refusal(f"--prefix={namesake}", *([f"--user=worker={namesake}_worker"] if named else []))

    assert message.startswith(f"User {user} has the name of a role: choose another name for the user, or another --pre")
    assert grants_of(user) == before


@server_only
def test_a_user_is_not_given_the_name_of_an_existing_role(declared: dict[str, set[str]]):
    message = refusal(f"--prefix={prefix()}", f"--user=worker={prefix()}_worker@10.%")

    assert f"User `{prefix()}_worker`@`10.%` has the name of a role" in message
    assert all_grants() == declared


@server_only
def test_grants_to_public_are_named(declared: dict[str, set[str]]):
    if not vendors.is_mariadb(connection):
        pytest.skip("this server has no PUBLIC")
    on = f"`{database()}`.`webhook_delivery_jobs`"
    execute(f"GRANT SELECT ON {on} TO PUBLIC", f"GRANT {role_account('worker')} TO PUBLIC")
    err = StringIO()
    try:
        call_command("grant_roles", f"--prefix={prefix()}", "--dry-run", stdout=StringIO(), stderr=err)
    finally:
        execute(f"REVOKE SELECT ON {on} FROM PUBLIC", f"REVOKE {role_account('worker')} FROM PUBLIC")

    heading, *lines = err.getvalue().splitlines()
    assert heading.endswith(f"Check that none of them covers database {database()}:")
    assert f"GRANT SELECT ON {on} TO PUBLIC;" in lines
    assert f"GRANT {role_account('worker')} TO PUBLIC;" in lines


@server_only
def test_a_user_that_may_not_grant_is_refused(declared: dict[str, set[str]]):
    default = connections["default"]
    with connected_as("console") as other:
        connections["default"] = other
        try:
            assert "may not do this; use one that may create roles" in refusal(f"--prefix={prefix()}")
        finally:
            connections["default"] = default


@pytest.mark.every_engine
@pytest.mark.sqlite_only
def test_the_embedded_database_has_no_roles(db: Any):
    assert refusal() == "The embedded database has no users: roles are for a database server."
