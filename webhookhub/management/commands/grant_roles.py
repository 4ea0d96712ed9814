import re
from argparse import ArgumentTypeError
from collections.abc import Iterator
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError, connection

from webhookhub.db import grants, vendors
from webhookhub.db.role_grants import UnknownUser, User, public_statements, role_statements, user_statements
from webhookhub.db.roles import BY_NAME, ROLES

NAME = re.compile(r"[A-Za-z0-9_$-]+")
USER = re.compile(r"(?P<role>\w+)=(?P<name>[A-Za-z0-9_.-]{1,32})(?:@(?P<host>[A-Za-z0-9_.:%/-]+))?")
LONGEST_ROLE = max(len(role.name) for role in ROLES)


class Command(BaseCommand):
    help = (
        "Makes the hub's database roles be what is declared, no less and no more, and gives each named user its role. "
        "Prints every statement; says so when there is nothing to change."
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
            help="an existing database user that gets this role and loses whatever else it holds; repeatable",
        )
        parser.add_argument("--database", help="the hub's database, if it is not that of DATABASE_URL")
        parser.add_argument("--prefix", help="what the roles' names begin with: by default the database's name")

    def handle(self, *args: Any, **options: Any) -> None:
        if not vendors.is_server(connection):
            raise CommandError("The embedded database has no users: roles are for a database server.")
        database = _valid("--database", options["database"] or connection.settings_dict["NAME"])
        prefix = _valid("--prefix", options["prefix"] or database)
        if len(prefix) + 1 + LONGEST_ROLE > vendors.ACCOUNT_LENGTH:
            raise CommandError(
                f"Roles that begin with {prefix!r} would have names that are too long: "
                f"give a --prefix of at most {vendors.ACCOUNT_LENGTH - 1 - LONGEST_ROLE} characters."
            )
        users: list[User] = options["users"]
        try:
            _refuse_mistakes(database, prefix, users)
            unbidden = list(public_statements(connection, database))
            # All of them before the first is executed: a mistake in the last user changes nothing.
            statements = list(_statements(database, prefix, users))
            for statement in statements:
                self.stdout.write(f"{statement};")
                if not options["dry_run"]:
                    with connection.cursor() as cursor:
                        cursor.execute(statement, None)
        except UnknownUser as error:
            raise CommandError(
                f"There is no database user {error}: make it first, with CREATE USER {error} IDENTIFIED BY '…'."
            ) from None
        except DatabaseError as error:
            if not vendors.is_denied(error) and not vendors.is_refused(error):
                raise
            raise CommandError(
                f"The user of DATABASE_URL may not do this; take one that may create roles, read the grants of "
                f"others and grant these: {error.args[-1]}"
            ) from None
        if unbidden:
            self.stderr.write(
                f"Every user of this server can get at database {database}, whatever its role: what is granted to "
                f"{vendors.everybody(connection)} is granted to all. This command leaves it alone, for others may "
                "rely on it. These would end it:"
            )
            self.stderr.writelines(f"{statement};\n" for statement in unbidden)
        elif not statements:
            self.stderr.write("Nothing to change: every role is as declared.")


def _statements(database: str, prefix: str, users: list[User]) -> Iterator[str]:
    for role in ROLES:
        yield from role_statements(connection, role, _account(prefix, role.name), database)
    for user in users:
        yield from user_statements(connection, user, _account(prefix, user.role))


def _account(prefix: str, role: str) -> str:
    return grants.account(f"{prefix}_{role}")


def _refuse_mistakes(database: str, prefix: str, users: list[User]) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT table_name FROM information_schema.tables WHERE table_schema = %s", [database])
        missing = {table for role in ROLES for table in role.tables} - {row[0] for row in cursor.fetchall()}
    if missing:
        raise CommandError(
            f"Database {database} has no table {min(missing)} that this user may see: run manage.py migrate first, or "
            "connect as a user that may grant."
        )
    # Servers take the one for the other where only the name is given: the user would lose what it holds.
    names = {f"{prefix}_{role.name}" for role in ROLES}
    taken = [(user.name, user.host) for user in users if user.name in names]
    for name, host in taken or vendors.users_named(connection, sorted(names)):
        raise CommandError(
            f"User {grants.account(name, host)} has the name of a role: choose another name for the user, or another "
            "--prefix for the roles."
        )
    accounts = [user.account for user in users]
    for user in users:
        if user.account == grants.me(connection):
            raise CommandError(f"{user.account} is the user that grants: it would lose its own privileges.")
        # One of the servers can give a user only one role from its log-in on.
        if accounts.count(user.account) > 1:
            raise CommandError(f"{user.account} is named twice: a user has one role.")


def _user(text: str) -> User:
    match = USER.fullmatch(text)
    if match is None:
        raise ArgumentTypeError(f"{text!r} is not of the form role=name@host")
    if match["role"] not in BY_NAME:
        raise ArgumentTypeError(f"there is no role {match['role']!r}; the roles are {', '.join(BY_NAME)}")
    return User(match["name"], match["host"] or "%", match["role"])


def _valid(option: str, name: str) -> str:
    if not NAME.fullmatch(name):
        raise CommandError(f"{option}: {name!r} is not a name of letters, digits, dashes and underscores.")
    return name
