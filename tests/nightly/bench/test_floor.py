"""The floor must execute the same statements on the same tables as the code."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from events.routing import Router
from jobs.lease import lease
from jobs.report import Report, report
from sagas.dispatch import dispatch
from sagas.models import Saga
from sagas.settle import Settler
from tests.factories import EventFactory, SubscriptionFactory
from tools.bench.scenarios.floor_sql import Floor

pytestmark = [pytest.mark.mysql_family, pytest.mark.usefixtures("committed")]
TABLES = re.compile(
    r"\b(events|routing_inbox|subscriptions|subscription_version|webhook_delivery_sagas|webhook_delivery_jobs"
    r"|stats_counters|stats_periods)\b"
)
Shape = tuple[str, tuple[str, ...]]


class RecordingConnection:
    """A driver connection that records its statements."""

    def __init__(self) -> None:
        self._connection = connection.connection
        self.statements: list[str] = []

    def query(self, sql: bytes) -> None:
        self.statements.append(sql.decode())
        self._connection.query(sql)

    def store_result(self) -> Any:
        return self._connection.store_result()


def shapes(statements: list[str]) -> tuple[list[Shape], Counter[Shape]]:
    """Verb and tables of each statement: the writes in order, and the reads with their number."""
    all_shapes = [(sql.split()[0], tuple(sorted(set(TABLES.findall(sql))))) for sql in statements]
    writes = [shape for shape in all_shapes if shape[0] in ("INSERT", "UPDATE", "DELETE")]
    return writes, Counter(shape for shape in all_shapes if shape[0] == "SELECT" and shape[1])


@contextmanager
def three_events() -> Iterator[None]:
    SubscriptionFactory()
    for _ in range(3):
        EventFactory()
    yield
    assert set(Saga.objects.values_list("status", "attempt_count")) == {("Completed", 1)}


def stages_of_the_code() -> dict[str, list[str]]:
    router, settler = Router(), Settler()
    with three_events():
        router.route(1)  # reads the subscriptions, once
        jobs: list[Any] = []
        return {
            "route": captured(lambda: router.route(10)),
            "dispatch": captured(lambda: dispatch(10, ["Pending"])),
            "lease": captured(lambda: jobs.extend(lease("worker", 10))),
            "report": captured(lambda: report("worker", [Report(job, None, 200, 3) for job in jobs])),
            "settle": captured(lambda: settler.settle(10, ["Completed"])),
        }


def captured(step: Callable[[], Any]) -> list[str]:
    with CaptureQueriesContext(connection) as context:
        step()
    return [query["sql"] for query in context.captured_queries]


def stages_of_the_floor() -> dict[str, list[str]]:
    recorded = RecordingConnection()
    stages: dict[str, list[str]] = {}
    with three_events():
        floor = Floor(SimpleNamespace(connection=recorded), 10)  # type: ignore[arg-type]
        jobs: list[Any] = []
        steps: dict[str, Callable[[], Any]] = {
            "route": floor.route,
            "dispatch": floor.dispatch,
            "lease": lambda: jobs.extend(floor.lease()),
            "report": lambda: floor.report(job[0] for job in jobs),
            "settle": floor.settle,
        }
        for name, step in steps.items():
            recorded.statements.clear()
            step()
            stages[name] = list(recorded.statements)
    return stages


def test_the_floor_executes_the_same_statements_as_the_code(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.WARNING, "webhookhub")  # at INFO there are further statements for the log

    code = {name: shapes(statements) for name, statements in stages_of_the_code().items()}
    floor = {name: shapes(statements) for name, statements in stages_of_the_floor().items()}

    assert floor == code
