"""The floor for single events: the fewest statements, and the same rows as the hub's."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection

from events.models import RoutingInbox
from jobs.models import Job
from sagas.models import Saga
from tests.factories import SubscriptionFactory
from tests.nightly.bench.test_floor import RecordingConnection, shapes
from tools.bench.endpoint import Endpoint, run_endpoint
from tools.bench.load import event_types
from tools.bench.scenarios.floor_single import Cleanup, SingleFloor

pytestmark = [pytest.mark.mysql_family, pytest.mark.usefixtures("committed")]
SAGAS, JOBS = "webhook_delivery_sagas", "webhook_delivery_jobs"


class RecordingDatabase(SimpleNamespace):
    """Like tools.bench.database.Server, on Django's connection."""

    def __init__(self) -> None:
        super().__init__(connection=FullConnection())

    def execute(self, sql: str, parameters: list[Any] | None = None) -> list[tuple[Any, ...]]:
        with self.connection.connection.cursor() as cursor:
            self.connection.statements.append(sql)
            cursor.execute(sql, parameters)
            return list(cursor.fetchall())


class FullConnection(RecordingConnection):
    @property
    def connection(self) -> Any:
        return self._connection

    def affected_rows(self) -> int:
        return int(self._connection.affected_rows())

    def insert_id(self) -> int:
        return int(self._connection.insert_id())


@pytest.fixture
def endpoint(certificate_files: tuple[Path, Path]) -> Iterator[Endpoint]:
    with run_endpoint(certificate_files[1]) as running:
        SubscriptionFactory(event_type=event_types(1)[0], callback_url=running.url)
        yield running


@pytest.fixture
def database(committed: None) -> RecordingDatabase:
    connection.ensure_connection()
    return RecordingDatabase()


@pytest.fixture
def floor(database: Any, endpoint: Endpoint, certificate_files: tuple[Path, Path]) -> Iterator[SingleFloor]:
    floor = SingleFloor(database, str(certificate_files[0]), Cleanup(2))
    database.connection.statements.clear()
    yield floor
    floor.close()


def test_an_event_needs_ten_statements(floor: SingleFloor, database: RecordingDatabase, endpoint: Endpoint):
    floor.deliver()

    assert len(endpoint.take()) == 1
    statements = database.connection.statements
    assert len(statements) == 10
    writes, reads = shapes(statements)
    assert writes == [
        ("INSERT", ("events",)),
        ("INSERT", (SAGAS,)),
        ("INSERT", (JOBS, SAGAS)),
        ("UPDATE", (SAGAS,)),
        ("UPDATE", (JOBS,)),
        ("UPDATE", (JOBS,)),
        ("UPDATE", (SAGAS,)),
    ]
    assert reads == {
        ("SELECT", ("routing_inbox",)): 1,
        ("SELECT", ("subscription_version",)): 1,
        ("SELECT", ("events", "subscriptions", JOBS, SAGAS)): 1,
    }


def test_the_inbox_and_the_marks_are_written_for_several_events(floor: SingleFloor, database: RecordingDatabase):
    floor.deliver()
    assert (RoutingInbox.objects.count(), Job.objects.filter(settled_at=None).count()) == (1, 1)

    floor.deliver()

    assert (RoutingInbox.objects.count(), Job.objects.filter(settled_at=None).count()) == (0, 0)
    assert len(database.connection.statements) == 2 * 10 + 2


def test_the_rows_are_as_consistent_as_those_of_the_hub(floor: SingleFloor):
    for _ in range(4):
        floor.deliver()

    assert list(Saga.objects.values_list("status", "attempt_count")) == [("Completed", 1)] * 4
    assert set(Job.objects.values_list("status", "response_status")) == {("Completed", 200)}
    call_command("audit", stdout=StringIO())  # raises if there is a violation
