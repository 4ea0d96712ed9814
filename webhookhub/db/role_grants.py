"""From what an account holds to what is declared: the statements that make the difference, and no others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from django.db.backends.base.base import BaseDatabaseWrapper

from webhookhub.db import grants, vendors
from webhookhub.db.grants import GRANT_OPTION, Held, Privilege

from .roles import WORDS, Role


@dataclass(frozen=True)
class User:
    """A database user that is to have one role and nothing else."""

    name: str
    host: str
    role: str

    @property
    def account(self) -> str:
        return grants.account(self.name, self.host)


class UnknownUser(Exception):
    """There is no such database user."""


def role_statements(connection: BaseDatabaseWrapper, role: Role, account: str, database: str) -> Iterator[str]:
    held = grants.held_by(connection, account)
    if held is None:
        yield f"CREATE ROLE IF NOT EXISTS {account}"
        held = Held()
    yield from _exactly(account, held, role.privileges(database), set())


def user_statements(connection: BaseDatabaseWrapper, user: User, role_account: str) -> Iterator[str]:
    held = grants.held_by(connection, user.account)
    if held is None:
        raise UnknownUser(user.account)
    changes = list(_exactly(user.account, held, frozenset(), {role_account}))
    yield from changes
    # A role that is revoked and granted anew is nobody's default any more.
    default = vendors.default_roles(connection, user.name, user.host) == {role_account.strip("`")}
    if not default or f"REVOKE {role_account} FROM {user.account}" in changes:
        yield vendors.default_role_statement(connection, role_account, user.account)


def public_statements(connection: BaseDatabaseWrapper, database: str) -> Iterator[str]:
    """What would take from everybody the privileges that reach the database, and the roles that do."""
    everybody = vendors.everybody(connection)
    held = grants.held_by(connection, everybody) if everybody else None
    if held is None:
        return
    for role in sorted(held.roles):
        if _reaching(connection, role, database, set()):
            yield f"REVOKE {role} FROM {everybody}"
    for on, listed in _by_object(each for each in held.privileges if grants.reaches(each.object, database)):
        yield f"REVOKE {listed} ON {on} FROM {everybody}"


def _reaching(connection: BaseDatabaseWrapper, role: str, database: str, seen: set[str]) -> bool:
    """Whether the role, or one that it has, holds something on the database."""
    if role in seen:
        return False
    seen.add(role)
    held = grants.held_by(connection, role) or Held()
    return any(grants.reaches(each.object, database) for each in held.privileges) or any(
        _reaching(connection, other, database, seen) for other in held.roles
    )


def _exactly(account: str, held: Held, privileges: frozenset[Privilege], roles: set[str]) -> Iterator[str]:
    """Revokes first: a privilege on a whole table takes those on its columns along when it goes."""
    excess = held.privileges - privileges
    gone = {(each.object, each.name) for each in excess if not each.column}
    missing = {each for each in privileges if each not in held.privileges or (each.object, each.name) in gone}
    unwanted = {role for role in held.roles if role not in roles or role in held.passed_on}
    for role in sorted(unwanted):
        yield f"REVOKE {role} FROM {account}"
    for on, listed in _by_object(excess):
        yield f"REVOKE {listed} ON {on} FROM {account}"
    for on, listed in _by_object(missing):
        yield f"GRANT {listed} ON {on} TO {account}"
    for role in sorted(roles - (held.roles - unwanted)):
        yield f"GRANT {role} TO {account}"


def _by_object(privileges: Iterable[Privilege]) -> Iterator[tuple[str, str]]:
    objects: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for each in sorted(privileges):
        objects[each.object][each.name].append(each.column)
    for on, names in objects.items():
        option = names.pop(GRANT_OPTION, None)
        if names:
            yield on, ", ".join(_listed(name, names[name]) for name in sorted(names, key=_order))
        if option:
            yield on, GRANT_OPTION  # the servers take it on its own only


def _listed(name: str, columns: list[str]) -> str:
    whole = [name] if "" in columns else []
    some = [f"`{column}`" for column in columns if column]
    return ", ".join([*whole, *([f"{name} ({', '.join(some)})"] if some else [])])


def _order(name: str) -> tuple[int, str]:
    return (WORDS.index(name) if name in WORDS else len(WORDS), name)
