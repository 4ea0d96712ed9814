"""Every list uses an index: with forty thousand runs, a page reads a bounded number of rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client

from api import keys
from tests.conformance.test_plans import plans
from tests.conftest import empty_tables
from tools.bench.workflow_pages import API_PATHS, CONSOLE_PATHS, fill
from webhookhub.db import vendors
from workflows import versions
from workflows.models import Instance
from workflows.registry import SAMPLES, load

pytestmark = [pytest.mark.mysql_family, pytest.mark.django_db]

# The read limit of a page, and the facts of a thousand runs.
MOST_READ = 15_000
GROWING = ("saga_instances", "saga_facts", "events", "webhook_delivery_sagas")


@pytest.fixture(scope="module", autouse=True)
def _forty_thousand_workflows(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    if not vendors.is_server(connection):
        yield
        return
    with django_db_blocker.unblock():
        empty_tables()
        fill(40_000)
    yield
    with django_db_blocker.unblock():
        empty_tables()
        connection.close()


@pytest.fixture
def program() -> Client:
    return Client(headers={"Authorization": f"Bearer {keys.create('reader', ['read'], by='tests')[1]}"})


@pytest.fixture
def person() -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    return client


def check(client: Client, address: str) -> None:
    def open_page() -> None:
        assert client.get(address).status_code == 200

    found = plans(open_page, lambda sql: sql.startswith("SELECT") and any(f"FROM {table}" in sql for table in GROWING))

    assert found
    for plan in found:
        assert all(row["type"] != "ALL" or str(row["table"]).startswith("<") for row in plan.rows), plan
    assert sum(plan.rows_read for plan in found) <= MOST_READ, [(plan.rows_read, plan.sql[:200]) for plan in found]


@pytest.mark.parametrize("path", API_PATHS)
def test_lists_of_the_api_read_a_bounded_number_of_rows(program: Client, path: str):
    check(program, f"/api/v1/sagas{path}")


@pytest.mark.parametrize("path", CONSOLE_PATHS)
def test_lists_of_the_console_read_a_bounded_number_of_rows(person: Client, path: str):
    check(person, f"/admin/workflows/instance/{path}")


@pytest.mark.parametrize("address", ["/admin/workflows/instance/", "/admin/search/"])
def test_searches_read_a_bounded_number_of_rows(person: Client, address: str):
    run = Instance.objects.order_by("id")[777]
    versions.remember([load((SAMPLES,)).latest[run.saga_type]])

    for term in (run.saga_id, run.correlation_key, run.aggregate_id):
        check(person, f"{address}?q={term}")
