"""Fixtures shared by all tests. `db` wraps a test in a transaction; `committed` is for tests with several connections
or processes, which see only committed rows."""

from __future__ import annotations

import gc
import io
import logging
import os
import shlex
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import Group, Permission, User
from django.db import connection
from django.test import Client, TransactionTestCase
from django.test.utils import setup_databases, teardown_databases
from hypothesis import HealthCheck, settings
from pytest_django.plugin import DjangoDbBlocker

from events import declarations
from sagas.create import correlation_ids, subscription_ids
from tests.support import guards
from tests.support.engines import MARIADB, SQLITE
from tests.support.suite import ENGINE_VARIABLE
from tools.demo import certificates
from tools.demo.endpoint import HttpsEndpoint
from webhookhub import logs
from webhookhub.conf import hub
from webhookhub.db import vendors

# A busy machine is slow, which is not a failure.
settings.register_profile("suite", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Starts mypy first: it takes longest, and the run would wait for it at the end."""
    items.sort(key=lambda item: "[-m mypy" not in item.nodeid)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Excludes the thousands of collected tests from garbage collection: they exist until the end."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Prints how to run each failed test alone, on the engine on which it failed."""
    reports = [report for kind in ("failed", "error") for report in terminalreporter.stats.get(kind, [])]
    if not reports:
        return
    engine = os.environ.get(ENGINE_VARIABLE) or (MARIADB if os.environ.get("TEST_DATABASE_URL") else SQLITE)
    terminalreporter.section("to run a failed test alone")
    for name in dict.fromkeys(report.nodeid for report in reports):
        terminalreporter.line(f".venv/bin/python -m tests --engine {engine} {shlex.quote(name)}")


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
def endpoint(certificate_files: tuple[Path, Path], hub_settings: Callable[..., None]) -> Iterator[HttpsEndpoint]:
    """A real HTTPS endpoint that the hub trusts."""
    authority, server = certificate_files
    hub_settings(ca_bundle=str(authority))
    with HttpsEndpoint(server) as running:
        yield running


@pytest.fixture
def log_stream() -> Iterator[io.StringIO]:
    """The JSON log, written by the product's own handler."""
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    logs.configure("INFO", "json")
    stream = io.StringIO()
    [handler] = root.handlers
    assert isinstance(handler, logging.StreamHandler)
    handler.setStream(stream)
    yield stream
    root.handlers = handlers
    root.setLevel(level)


VIEW = ["view_event", "view_saga", "view_job", "view_deadletter", "view_subscription", "view_process"]


@pytest.fixture
def staff(db: None) -> Callable[..., Client]:
    """Logs a staff member in: staff("anna", "view_event")."""

    def log_in(name: str, *permissions: str) -> Client:
        user = User.objects.create_user(name, is_staff=True)
        user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
        assert user.user_permissions.count() == len(permissions)
        client = Client()
        client.force_login(user)
        return client

    return log_in


@pytest.fixture
def viewer(staff: Callable[..., Client]) -> Client:
    return staff("viewer", *VIEW)


@pytest.fixture
def requeuer(staff: Callable[..., Client]) -> Client:
    return staff("requeuer", *VIEW, "requeue_deadletter", "bulk_requeue_deadletter")


@pytest.fixture
def superuser(db: None) -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    return client


@pytest.fixture
def member() -> Callable[[str], Client]:
    """Logs a member of a group in: member("support")."""

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


@pytest.fixture(scope="module", autouse=True)
def _guards(request: pytest.FixtureRequest) -> None:
    if not any(_uses_database(item) for item in request.session.items if item.path == request.path):
        return  # so that such tests run without creating a database
    request.getfixturevalue("django_db_setup")
    with request.getfixturevalue("django_db_blocker").unblock():
        guards.switch_for(request.node.nodeid)


def _uses_database(item: pytest.Item) -> bool:
    return "django_db_setup" in getattr(item, "fixturenames", ()) or item.get_closest_marker("django_db") is not None


@pytest.fixture(autouse=True)
def _new_ids() -> Iterator[None]:
    """Each test may use the ids and versions of another one again, which a hub never does."""
    correlation_ids.clear()
    subscription_ids.clear()
    declarations.clear()
    yield
    # Fixtures of the next module may publish events before its first test.
    declarations.clear()


@pytest.fixture(autouse=True)
def _right_engine(request: pytest.FixtureRequest) -> None:
    is_server = vendors.is_server(connection)
    if request.node.get_closest_marker("mysql_family") and not is_server:
        pytest.skip("needs a MySQL-family server")
    if request.node.get_closest_marker("sqlite_only") and is_server:
        pytest.skip("needs SQLite")


@pytest.fixture(scope="session")
def django_db_setup(django_test_environment: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """Creates the database even if no selected test uses `db`: tests of a running hub need its tables, too."""
    # Django's own clean-up is refused by the triggers that protect rows.
    TransactionTestCase._fixture_teardown = lambda self: empty_tables()  # type: ignore[attr-defined]
    with django_db_blocker.unblock():
        databases = setup_databases(verbosity=0, interactive=False, serialized_aliases=())
    yield
    with django_db_blocker.unblock():
        teardown_databases(databases, verbosity=0)


def empty_tables() -> None:
    """Empties the hub's tables and the users, in spite of triggers."""
    own = [model._meta.db_table for model in apps.get_models() if model._meta.app_label in OWN_APPS]
    own += ["auth_user_user_permissions", "auth_user_groups", "django_admin_log", "django_session", "auth_user"]
    with connection.cursor() as cursor:
        if vendors.is_server(connection):
            cursor.execute(" UNION ALL ".join(f"(SELECT '{table}' FROM {table} LIMIT 1)" for table in own))
            filled = [table for (table,) in cursor.fetchall()]
            cursor.execute("SET FOREIGN_KEY_CHECKS = 0")
            for table in filled:
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
    "accounts",
    "events",
    "subscriptions",
    "sagas",
    "jobs",
    "deadletters",
    "stats",
    "auditlog",
    "api",
    "workflows",
}
