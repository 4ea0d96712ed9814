"""What a database account may do, as the server itself tells it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from django.db import DatabaseError
from django.db.backends.base.base import BaseDatabaseWrapper

from . import vendors

EVERYTHING = "*.*"
GRANT_OPTION = "GRANT OPTION"
ALL = "ALL PRIVILEGES"

_QUOTED = r"`[^`]*`(?:@`[^`]*`)?"
_WHO = rf"(?P<who>{_QUOTED}|PUBLIC)"
_PRIVILEGES = re.compile(rf"GRANT (?P<what>.+?) ON (?P<object>.+?) TO {_WHO}(?P<rest>.*)", re.DOTALL)
_ROLES = re.compile(rf"GRANT (?P<roles>{_QUOTED}(?:, ?{_QUOTED})*) TO {_WHO}(?P<rest>.*)")
_OBJECT = re.compile(r"`(?P<database>[^`]*)`\.(?:\*|`(?P<table>[^`]*)`)")
_PRIVILEGE = re.compile(r"(?P<name>[A-Z_][A-Z_ ]*[A-Z_])(?: \((?P<columns>[^)]*)\))?(?:, ?|$)")


@dataclass(frozen=True, order=True)
class Privilege:
    """`object` is written as the server writes it: *.*, `hub`.* or `hub`.`events`. No column: the whole object."""

    object: str
    name: str
    column: str = ""


@dataclass(frozen=True)
class Held:
    """`roles` as they are to be named in a statement; those that may be passed on are in `passed_on` too."""

    privileges: frozenset[Privilege] = frozenset()
    roles: frozenset[str] = frozenset()
    passed_on: frozenset[str] = frozenset()


def table(database: str, name: str) -> str:
    return f"`{database}`.`{name}`"


def account(name: str, host: str = "") -> str:
    """A user, or a role if there is no host, as the server writes it."""
    return f"`{name}`@`{host}`" if host else f"`{name}`"


def held_by(connection: BaseDatabaseWrapper, who: str) -> Held | None:
    """What the account holds itself, not through a role; None if there is no such account."""
    with connection.cursor() as cursor:
        try:
            cursor.execute(f"SHOW GRANTS FOR {who}", None)
        except DatabaseError as error:
            if vendors.is_unknown_account(error):
                return None
            raise
        return parse((row[0] for row in cursor.fetchall()), who)


def me(connection: BaseDatabaseWrapper) -> str:
    """The account that the server takes this connection's user for."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT CURRENT_USER()")
        name, _, host = str(cursor.fetchone()[0]).rpartition("@")
    return account(name, host)


def held_by_me(connection: BaseDatabaseWrapper) -> Held:
    """What this connection may do, its active roles and what everybody may do included."""
    with connection.cursor() as cursor:
        cursor.execute("SHOW GRANTS")
        return parse(row[0] for row in cursor.fetchall())


def parse(lines: Iterable[str], who: str | None = None) -> Held:
    """SHOW GRANTS in data; with `who`, only the lines that are about that very account."""
    held: set[Privilege] = set()
    roles: set[str] = set()
    passed_on: set[str] = set()
    for line in lines:
        given, named = _PRIVILEGES.fullmatch(line), _ROLES.fullmatch(line)
        found = named or given
        if found is None or (who is not None and _bare(found["who"]) != _bare(who)):
            continue
        if named:
            names = {_bare(name) for name in re.findall(_QUOTED, named["roles"])}
            roles |= names
            passed_on |= names if "WITH ADMIN OPTION" in named["rest"] else set()
        elif given:
            held |= set(privileges(given["what"], given["object"]))
            if "WITH GRANT OPTION" in given["rest"]:
                held.add(Privilege(given["object"], GRANT_OPTION))
    return Held(frozenset(held), frozenset(roles), frozenset(passed_on))


def privileges(what: str, on: str) -> Iterator[Privilege]:
    """`what` as it stands in a GRANT: SELECT, UPDATE (a, b)."""
    for match in _PRIVILEGE.finditer(what):
        if match["name"] == "USAGE":
            continue  # the server's word for none
        for column in re.findall(r"`?([^`, ]+)`?", match["columns"] or "") or [""]:
            yield Privilege(on, match["name"], column)


def reaches(on: str, database: str) -> bool:
    """Whether a privilege on `on` is one on this database or on something in it."""
    found = _OBJECT.fullmatch(on)
    return covers(on, database) or (found is not None and bool(found["table"]) and found["database"] == database)


def covers(on: str, database: str, table: str = "") -> bool:
    """Whether a privilege on `on` is one on this whole table, or on the whole database if none is named."""
    found = _OBJECT.fullmatch(on)
    if found is None:
        return on == EVERYTHING
    if found["table"] is None:
        return _like(found["database"], database)
    return bool(table) and (found["database"], found["table"]) == (database, table)


def may(held: Held, name: str, database: str, table: str = "") -> bool:
    """Whether the privilege `name` is held on this whole table, or on the whole database if none is named."""
    return any(
        each.name in (name, ALL) and not each.column and covers(each.object, database, table)
        for each in held.privileges
    )


def _like(pattern: str, name: str) -> bool:
    """A database's name in a grant is a pattern: % is any text, _ any letter, a backslash takes that from them."""
    wild = {"%": ".*", "_": "."}
    parts = re.findall(r"\\.|.", pattern, re.DOTALL)
    return re.fullmatch("".join(wild.get(part, re.escape(part[-1])) for part in parts), name, re.DOTALL) is not None


def _bare(account: str) -> str:
    """Without the host that is meant when none is named: one server writes it, the other does not."""
    return account.removesuffix("@`%`")
