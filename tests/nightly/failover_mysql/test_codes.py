"""Error codes that only a group of servers reports, each with the kind that the hub decides by."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import DatabaseError, InterfaceError
from django.db.backends.base.base import BaseDatabaseWrapper

from tools.support.mysql_group import Group, Member
from webhookhub.db.errors import Kind, code_of, kind_of
from webhookhub.runner.database import _connection

pytestmark = pytest.mark.timeout(300)

OFFLINE_MODE = {3032, 6400, 6401}


@contextmanager
def connected(member: Member) -> Iterator[BaseDatabaseWrapper]:
    """As the hub is, but through the socket file: this process is on no host of the network."""
    database = _connection("worker", "mysql://plain:plain@localhost/webhookhub")
    database.settings_dict["HOST"] = str(member.socket)
    yield database
    database.close()


def execute(database: BaseDatabaseWrapper, statement: str) -> None:
    with database.cursor() as cursor:
        cursor.execute(statement)


def error_of(work: Callable[[], Any]) -> Exception:
    with pytest.raises((DatabaseError, InterfaceError)) as raised:
        work()
    return raised.value


@pytest.fixture(autouse=True)
def _unblocked(django_db_blocker: Any) -> Iterator[None]:
    with django_db_blocker.unblock():
        yield


def test_a_replica_and_a_member_without_a_majority(group: Group):
    primary = group.primary
    others = [member for member in group.members if member is not primary]
    with connected(primary) as database, connected(others[0]) as replica:
        execute(database, "CREATE TABLE kept (id INT PRIMARY KEY)")
        group.wait_until_complete()
        refused = error_of(lambda: execute(replica, "INSERT INTO kept VALUES (1)"))
        # The table may not be there yet, but a replica refuses first.
        assert (code_of(refused), kind_of(refused)) == (1290, Kind.READ_ONLY)
        assert replica.connection is None

        primary.host.cut(*[member.host for member in others])
        cut_off = error_of(lambda: execute(database, "INSERT INTO kept VALUES (2)"))
        assert (code_of(cut_off), kind_of(cut_off)) == (3100, Kind.OFFLINE)
        assert database.connection is None
        offline = error_of(lambda: execute(database, "SELECT 1"))
        assert code_of(offline) in OFFLINE_MODE
        assert kind_of(offline) is Kind.OFFLINE
