"""Fixtures shared by all tests. `db` wraps a test in a transaction; `committed` is for tests with several connections
or processes, which see only what is committed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import Group, User
from django.db import connection
from django.test import Client, TransactionTestCase
from django.test.utils import setup_databases, teardown_databases
from hypothesis import HealthCheck, settings
from pytest_django.plugin import DjangoDbBlocker

from demo import certificates
from demo.receiver import Receiver
from webhookhub.conf import hub
from webhookhub.db import vendors

# A machine that is busy with other things is slow, which is no finding.
settings.register_profile("suite", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")


@pytest.fixture(scope="session")
def certificate_files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A private authority and a server certificate for loopback."""
    names = ("localhost", "hooks.localhost", "127.0.0.1", "::1")
    return certificates.write(tmp_path_factory.mktemp("certificates"), names)


@pytest.fixture
def hub_settings(settings: Any) -> Callable[..., None]:
    """Changes settings of the hub for one test: hub_settings(max_retry_limit=2)."""

    def change(**values: Any) -> None:
        settings.WEBHOOKHUB = replace(hub(), **values)

    return change


@pytest.fixture
def receiver(certificate_files: tuple[Path, Path], hub_settings: Callable[..., None]) -> Iterator[Receiver]:
    """A real HTTPS endpoint that the hub trusts."""
    authority, server = certificate_files
    hub_settings(ca_bundle=str(authority))
    with Receiver(server) as running:
        yield running


@pytest.fixture
def member() -> Callable[[str], Client]:
    """Logs somebody of a group into the console: member("support")."""

    def log_in(group: str) -> Client:
        user = User.objects.create_user(group, is_staff=True)
        user.groups.add(Group.objects.get(name=group))
        client = Client()
        client.force_login(user)
        return client

    return log_in


@pytest.fixture
def committed(transactional_db: None) -> Iterator[None]:
    """A test whose writes are committed; the tables are emptied after it."""
    yield
    empty_tables()


@pytest.fixture(autouse=True)
def _mysql_family_only(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("mysql_family") and not vendors.is_server(connection):
        pytest.skip("needs a MySQL-family server")


@pytest.fixture(scope="session")
def django_db_setup(django_test_environment: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """In any case. pytest-django leaves the database out if no test asks for `db`, and those that talk to a running hub
    do not: by themselves they would find no tables."""
    # Emptying tables between tests must get past the triggers that protect them.
    TransactionTestCase._fixture_teardown = lambda self: empty_tables()  # type: ignore[attr-defined]
    with django_db_blocker.unblock():
        made = setup_databases(verbosity=0, interactive=False, serialized_aliases=())
    yield
    with django_db_blocker.unblock():
        teardown_databases(made, verbosity=0)


def empty_tables() -> None:
    """Empty the hub's own tables and users, triggers or not."""
    own = [model._meta.db_table for model in apps.get_models() if model._meta.app_label in OWN_APPS]
    own += ["auth_user_user_permissions", "auth_user_groups", "django_admin_log", "django_session", "auth_user"]
    with connection.cursor() as cursor:
        if vendors.is_server(connection):
            cursor.execute("SET FOREIGN_KEY_CHECKS = 0")
            for table in own:
                cursor.execute(f"SELECT 1 FROM {table} LIMIT 1")
                if cursor.fetchall():
                    cursor.execute(f"TRUNCATE TABLE {table}")
            cursor.execute("SET FOREIGN_KEY_CHECKS = 1")
            return
        cursor.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
        triggers = cursor.fetchall()
        for name, _ in triggers:
            cursor.execute(f"DROP TRIGGER {name}")
        for table in own:
            cursor.execute(f"DELETE FROM {table}")
        for _, sql in triggers:
            cursor.execute(sql, None)


OWN_APPS = {
    "webhookhub",
    "events",
    "subscriptions",
    "sagas",
    "jobs",
    "deadletters",
    "figures",
    "trail",
    "api",
    "workflows",
}
