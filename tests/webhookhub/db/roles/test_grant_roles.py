"""manage.py grant_roles makes the server's grants be those of the declaration, and says what it does."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection, connections

from webhookhub.db import grants, vendors
from webhookhub.db.roles import ROLES

from .accounts import connected_as, execute, grant_roles, prefix, role_account, user_name

server_only = pytest.mark.mysql_family


@pytest.fixture
def fit(granted: None, transactional_db: None) -> Iterator[None]:
    yield
    grant_roles()


def held(account: str) -> grants.Held:
    found = grants.held_by(connection, account)
    assert found is not None
    return found


def database() -> str:
    return str(connection.settings_dict["NAME"])


def is_as_declared() -> bool:
    return all(
        held(role_account(role.name)) == grants.Held(role.privileges(database()))
        and held(f"`{user_name(role.name)}`@`%`") == grants.Held(roles=frozenset({role_account(role.name)}))
        for role in ROLES
    )


@server_only
def test_each_role_gets_what_is_declared_and_each_user_its_role(fit: None):
    assert is_as_declared()


@server_only
def test_a_second_run_changes_nothing_and_says_so(fit: None):
    said = StringIO()
    call_command("grant_roles", f"--prefix={prefix()}", stdout=said, stderr=said)

    assert grant_roles() == []
    assert said.getvalue() == "Nothing to change: every role is as declared.\n"


@server_only
def test_a_dry_run_prints_the_statements_and_executes_none(users: None, transactional_db: None):
    execute(*(f"DROP ROLE IF EXISTS {role_account(role.name)}" for role in ROLES))

    printed = grant_roles("--dry-run")

    assert grants.held_by(connection, role_account("worker")) is None
    assert printed == grant_roles()
    assert f"CREATE ROLE IF NOT EXISTS {role_account('worker')};" in printed
    on = f"`{database()}`.`routing_inbox`"
    assert f"GRANT SELECT, DELETE ON {on} TO {role_account('router_worker')};" in printed
    on = f"`{database()}`.`webhook_delivery_jobs`"
    columns = "`lease_resets`, `lease_until`, `status`"
    assert f"GRANT SELECT, UPDATE ({columns}) ON {on} TO {role_account('lease_cleaner')};" in printed
    assert f"GRANT {role_account('console')} TO `{user_name('console')}`@`%`;" in printed
    assert is_as_declared()


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
def test_what_is_too_much_is_revoked(fit: None, excess: str):
    names = {
        "db": database(),
        "role": role_account("worker"),
        "other": role_account("console"),
        "user": f"`{user_name('worker')}`@`%`",
    }
    execute(TOO_MUCH[excess].format(**names))
    assert not is_as_declared()

    printed = grant_roles()

    assert printed
    assert any(line.startswith("REVOKE ") for line in printed)
    assert is_as_declared()
    assert grant_roles() == []


@server_only
def test_what_is_missing_is_granted_again(fit: None):
    execute(
        f"REVOKE UPDATE (`status`) ON `{database()}`.`webhook_delivery_jobs` FROM {role_account('worker')}",
        f"REVOKE {role_account('console')} FROM `{user_name('console')}`@`%`",
    )

    printed = grant_roles()

    on = f"`{database()}`.`webhook_delivery_jobs`"
    assert f"GRANT UPDATE (`status`) ON {on} TO {role_account('worker')};" in printed
    assert f"GRANT {role_account('console')} TO `{user_name('console')}`@`%`;" in printed
    assert is_as_declared()


@server_only
def test_a_user_has_its_role_from_its_log_in_on(fit: None):
    with connected_as("worker") as other, other.cursor() as cursor:
        cursor.execute("SELECT CURRENT_ROLE()")
        assert f"{prefix()}_worker" in cursor.fetchone()[0]


def refusal(*arguments: str) -> str:
    with pytest.raises(CommandError) as caught:
        call_command("grant_roles", *arguments, stdout=StringIO(), stderr=StringIO())
    return str(caught.value)


@server_only
def test_mistakes_are_refused_before_anything_is_changed(fit: None):
    named = f"--prefix={prefix()}"
    me = connection.settings_dict["USER"]

    assert "would lose its own privileges" in refusal(named, f"--user=worker={me}")
    assert "a user has one role" in refusal(named, *[f"--user={role}=hub_roles_x" for role in ("worker", "console")])
    assert "There is no database user `hub_roles_nobody`@`10.%`: make it first" in refusal(
        named, "--user=worker=hub_roles_nobody@10.%"
    )
    assert "Database hub_roles_nowhere has no table" in refusal(named, "--database=hub_roles_nowhere")
    assert "at most 11 characters" in refusal("--prefix=a-very-long-name")
    assert "is not a name" in refusal("--prefix=a`b")
    assert "is not a name" in refusal(named, "--database=a`b")
    assert "there is no role 'wroker'; the roles are event_ingest_writer" in refusal("--user=wroker=x")
    assert "not of the form role=name@host" in refusal("--user=worker=a'b")
    assert is_as_declared()


@pytest.fixture
def namesake(fit: None) -> Iterator[str]:
    """A prefix of roles that do not exist yet, the name of one of which is that of a user with a privilege."""
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
def test_a_user_with_the_name_of_a_role_is_refused_and_keeps_what_it_holds(namesake: str, named: bool):
    user = f"`{namesake}_worker`@`%`"
    before = held(user)

    said = refusal(f"--prefix={namesake}", *([f"--user=worker={namesake}_worker"] if named else []))

    assert said.startswith(f"User {user} has the name of a role: choose another name for the user, or another --prefix")
    assert held(user) == before
    assert before.privileges
    assert grants.held_by(connection, f"`{namesake}_console`") is None


@server_only
def test_a_user_is_not_given_the_name_of_an_existing_role(fit: None):
    said = refusal(f"--prefix={prefix()}", f"--user=worker={prefix()}_worker@10.%")

    assert f"User `{prefix()}_worker`@`10.%` has the name of a role" in said
    assert is_as_declared()


def said_and_printed(*arguments: str) -> tuple[str, str]:
    out, err = StringIO(), StringIO()
    call_command("grant_roles", f"--prefix={prefix()}", *arguments, stdout=out, stderr=err)
    return err.getvalue(), out.getvalue()


TO_EVERYBODY = {
    "the database": ("SELECT", "`{db}`.*"),
    "databases of such names": ("SELECT, DELETE", "`{pattern}`.*"),
    "a table": ("SELECT, UPDATE (`status`)", "`{db}`.`webhook_delivery_jobs`"),
}


@server_only
@pytest.mark.parametrize("what", TO_EVERYBODY)
def test_what_everybody_may_do_to_the_database_is_named_with_the_statement_that_ends_it(fit: None, what: str):
    everybody = vendors.everybody(connection)
    if everybody is None:
        pytest.skip("this server has no privileges of everybody")
    privileges, on = TO_EVERYBODY[what]
    pattern = database().replace("_", r"\_")[:-1] + "%"
    on = on.format(db=database(), pattern=pattern)
    execute(f"GRANT {privileges} ON {on} TO {everybody}")
    ending = f"REVOKE {privileges} ON {on} FROM {everybody}"
    try:
        said, printed = said_and_printed()
        assert said.startswith(f"Every user of this server can get at database {database()}")
        assert said.splitlines()[1:] == [f"{ending};"]
        assert "Nothing to change" not in said
        assert printed == ""
    finally:
        execute(ending)
    assert said_and_printed() == ("Nothing to change: every role is as declared.\n", "")


@server_only
def test_a_role_that_everybody_has_is_named(fit: None):
    everybody = vendors.everybody(connection)
    if everybody is None:
        pytest.skip("this server has no privileges of everybody")
    execute(f"GRANT {role_account('worker')} TO {everybody}")
    ending = f"REVOKE {role_account('worker')} FROM {everybody}"
    try:
        said, _ = said_and_printed("--dry-run")
        assert said.splitlines()[1:] == [f"{ending};"]
    finally:
        execute(ending)
    assert said_and_printed("--dry-run")[0].startswith("Nothing to change")


@server_only
def test_a_user_that_may_not_grant_is_told_so(fit: None):
    default = connections["default"]
    with connected_as("console") as other:
        connections["default"] = other
        try:
            assert "may not do this; take one that may create roles" in refusal(f"--prefix={prefix()}")
        finally:
            connections["default"] = default


@pytest.mark.every_engine
@pytest.mark.sqlite_only
def test_the_embedded_database_has_no_roles(db: Any):
    assert refusal() == "The embedded database has no users: roles are for a database server."
