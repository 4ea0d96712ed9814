"""The database's roles, and a user for each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection

from tests.processes.conftest import processes
from webhookhub.db import vendors

from . import accounts

__all__ = ["processes"]


@pytest.fixture(scope="module")
def users(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """A user for each role, without any privilege yet."""
    if not vendors.is_server(connection):
        pytest.skip("needs a MySQL-family server")
    with django_db_blocker.unblock():
        accounts.drop_all()
        accounts.create_users()
        yield
        accounts.drop_all()
        connection.close()


@pytest.fixture(scope="module")
def granted(users: None, django_db_blocker: Any) -> None:
    """Each user has its role."""
    with django_db_blocker.unblock():
        accounts.grant_roles()
