"""One database user for each role, created for the tests and dropped after them."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from urllib.parse import urlsplit
from zlib import crc32

from django.core.management import call_command
from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper

from tests.processes.support import database_url
from webhookhub.db.roles import ROLES

PASSWORD = secrets.token_hex(8)


def prefix() -> str:
    """Short, and different for each database of a parallel test run."""
    return f"hub_roles{crc32(connection.settings_dict['NAME'].encode()) % 100:02}"


def role_account(role: str) -> str:
    return f"`{prefix()}_{role}`"


def user_name(role: str) -> str:
    """Not the role's name: users and roles share one namespace on some servers."""
    return f"{prefix()}_u_{role[:18]}"


def grant_roles(*arguments: str, users: bool = True) -> list[str]:
    """The statements that the command has printed."""
    out = StringIO()
    named = [f"--user={role.name}={user_name(role.name)}@%" for role in ROLES] if users else []
    call_command("grant_roles", *named, f"--prefix={prefix()}", *arguments, stdout=out, stderr=StringIO())
    return out.getvalue().splitlines()


def execute(*statements: str) -> None:
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement, None)


def create_users() -> None:
    execute(*(f"CREATE USER `{user_name(role.name)}`@`%` IDENTIFIED BY '{PASSWORD}'" for role in ROLES))


def drop_all() -> None:
    execute(*(f"DROP USER IF EXISTS `{user_name(role.name)}`@`%`" for role in ROLES))
    execute(*(f"DROP ROLE IF EXISTS {role_account(role.name)}" for role in ROLES))


@contextmanager
def connected_as(role: str) -> Iterator[BaseDatabaseWrapper]:
    other = connection.copy()
    other.settings_dict |= {"USER": user_name(role), "PASSWORD": PASSWORD}
    try:
        yield other
    finally:
        other.close()


def url_of(role: str) -> str:
    parts = urlsplit(database_url())
    return parts._replace(netloc=f"{user_name(role)}:{PASSWORD}@{parts.hostname}:{parts.port}").geturl()
