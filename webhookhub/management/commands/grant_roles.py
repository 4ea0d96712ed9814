import re
from argparse import ArgumentTypeError
from collections.abc import Iterator
from typing import Any, NamedTuple

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError, connection

from webhookhub.db import vendors
from webhookhub.db.errors import Kind, kind_of
from webhookhub.db.roles import BY_NAME, ROLES

NAME = re.compile(r"[A-Za-z0-9_$-]+")
USER = re.compile(r"(?P<role>\w+)=(?P<name>[A-Za-z0-9_.-]{1,32})(?:@(?P<host>[A-Za-z0-9_.:%/-]+))?")
LONGEST_ROLE = max(len(role.name) for role in ROLES)


class User(NamedTuple):
    """A database user that gets one role and nothing else."""

    role: str
    name: str
    host: str

    @property
    def account(self) -> str:
        return f"`{self.name}`@`{self.host}`"


class Command(BaseCommand):
    help = (
        "Creates the hub's database roles with exactly the declared privileges and gives each named user its role. "
        "Prints every statement. Safe to repeat. Stop the hub first: each role and user is revoked and granted again, "
        "and a process that uses the database between the two stops for lack of a privilege."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="print the statements, change nothing")
        parser.add_argument(
            "--user",
            action="append",
            type=_user,
            default=[],
            dest="users",
            metavar="ROLE=NAME@HOST",
            help="an existing database user that gets this role and loses all other privileges; repeatable",
        )
        parser.add_argument("--database", help="the hub's database (default: the database of DATABASE_URL)")
        parser.add_argument("--prefix", help="prefix of the role names (default: the database's name)")

    def handle(self, *args: Any, **options: Any) -> None:
        if not vendors.is_server(connection):
            raise CommandError("The embedded database has no users: roles are for a database server.")
        database = _valid("--database", options["database"] or connection.settings_dict["NAME"])
        prefix = _valid("--prefix", options["prefix"] or database)
        if len(prefix) + 1 + LONGEST_ROLE > vendors.ACCOUNT_LENGTH:
            raise CommandError(
                f"Role names with the prefix {prefix!r} are too long: "
                f"choose a --prefix of at most {vendors.ACCOUNT_LENGTH - 1 - LONGEST_ROLE} characters."
            )
        users: list[User] = options["users"]
        try:
            _check(database, prefix, users)
            for statement in _statements(database, prefix, users):
                self.stdout.write(f"{statement};")
                if not options["dry_run"]:
                    with connection.cursor() as cursor:
                        cursor.execute(statement, None)
            public = vendors.public_grants(connection)
        except DatabaseError as error:
            if kind_of(error) not in (Kind.DENIED, Kind.LOGIN):
                raise
            raise CommandError(
                "The user of DATABASE_URL may not do this; use one that may create roles, read the accounts and "
                f"grant these privileges: {error.args[-1]}"
            ) from None
        if public:
            self.stderr.write(
                f"Every user also has the privileges of PUBLIC. Check that none of them covers database {database}:"
            )
            self.stderr.writelines(f"{line};\n" for line in public)


def _statements(database: str, prefix: str, users: list[User]) -> Iterator[str]:
    """Idempotent: each account is emptied right before it gets its privileges."""
    for role in ROLES:
        account = f"`{prefix}_{role.name}`"
        yield f"CREATE ROLE IF NOT EXISTS {account}"
        yield from _revoke_all(account, f"{prefix}_{role.name}", vendors.role_host(connection))
        for table, privileges in role.tables.items():
            yield f"GRANT {privileges} ON `{database}`.`{table}` TO {account}"
    for user in users:
        role_account = f"`{prefix}_{user.role}`"
        yield from _revoke_all(user.account, user.name, user.host)
        yield f"GRANT {role_account} TO {user.account}"
        yield vendors.default_role_statement(connection, role_account, user.account)


def _revoke_all(account: str, name: str, host: str) -> Iterator[str]:
    for role in vendors.roles_of(connection, name, host):
        yield f"REVOKE {role} FROM {account}"
    yield f"REVOKE ALL PRIVILEGES, GRANT OPTION FROM {account}"


def _check(database: str, prefix: str, users: list[User]) -> None:
    """Refuses mistakes before the first statement is executed."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT table_name FROM information_schema.tables WHERE table_schema = %s", [database])
        missing = {table for role in ROLES for table in role.tables} - {row[0] for row in cursor.fetchall()}
        cursor.execute("SELECT CURRENT_USER()")
        own_name, _, own_host = str(cursor.fetchone()[0]).rpartition("@")
    if missing:
        raise CommandError(
            f"Database {database} has no table {min(missing)} that this user may see: run manage.py migrate first, or "
            "connect as a user that may grant."
        )
    role_names = {f"{prefix}_{role.name}" for role in ROLES}
    existing = vendors.users_named(connection, [*role_names, *(user.name for user in users)])
    # Servers confuse a user and a role of the same name: the user would lose its privileges.
    for name, host in [*existing, *((user.name, user.host) for user in users)]:
        if name in role_names:
            raise CommandError(
                f"User `{name}`@`{host}` has the name of a role: choose another name for the user, or another "
                "--prefix for the roles."
            )
    accounts = [user.account for user in users]
    for user in users:
        if (user.name, user.host) == (own_name, own_host):
            raise CommandError(f"{user.account} is the user that grants: it would lose its own privileges.")
        if accounts.count(user.account) > 1:
            raise CommandError(f"{user.account} is named twice: a user has one role.")
        if (user.name, user.host) not in existing:
            raise CommandError(
                f"Database user {user.account} does not exist: create it first, with "
                f"CREATE USER {user.account} IDENTIFIED BY '…'."
            )


def _user(text: str) -> User:
    match = USER.fullmatch(text)
    if match is None:
        raise ArgumentTypeError(f"{text!r} is not of the form role=name@host")
    if match["role"] not in BY_NAME:
        raise ArgumentTypeError(f"there is no role {match['role']!r}; the roles are {', '.join(BY_NAME)}")
    return User(match["role"], match["name"], match["host"] or "%")


def _valid(option: str, name: str) -> str:
    if not NAME.fullmatch(name):
        raise CommandError(f"{option}: {name!r} is not a name of letters, digits, dashes and underscores.")
    return name
