"""In a lull the orchestrator asks one question a turn, and misses nothing by it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobs.models import Job
from sagas.management.commands.run_orchestrator import Command
from sagas.models import Saga
from tests.factories import JobFactory, SagaFactory
from webhookhub.db import clock
from webhookhub.runner.step import Step

pytestmark = [pytest.mark.every_engine, pytest.mark.django_db]


@pytest.fixture
def in_a_lull() -> Step:
    orchestrator = Command().make_step("orchestrator")
    assert orchestrator.run(100) == 0
    return orchestrator


def test_an_idle_turn_is_one_statement(in_a_lull: Step):
    with CaptureQueriesContext(connection) as captured:
        assert in_a_lull.run(100) == 0
    assert len(captured) == 1


def saga(status: str, after: timedelta = timedelta(0)) -> Callable[[], object]:
    return lambda: SagaFactory.create(status=status, next_attempt_at=clock.now() + after)


def finished(error_code: str | None) -> Callable[[], object]:
    return lambda: JobFactory.create(
        status="Failed" if error_code else "Completed",
        error_code=error_code,
        saga__status="InProgress",
        finished_at=clock.now(),
        lease_token="t",
        worker_id="w",
    )


@pytest.mark.requirement("R1-3b", "R1-4.1e", "R1-5.1a", "R1-7.2a")
@pytest.mark.parametrize(
    "make", [saga("Pending"), saga("PendingRetry"), finished(None), finished("http_500")], ids=range(4)
)
def test_every_kind_of_pending_work_is_found(in_a_lull: Step, make: Callable[[], object]):
    make()
    before = Saga.objects.values_list("status", "attempt_count").get()
    assert in_a_lull.run(100) == 1
    after, attempts = Saga.objects.values_list("status", "attempt_count").get()
    assert (after, attempts) != before
    assert Job.objects.count() == attempts + (after == "InProgress")


@pytest.mark.requirement("R1-5.3b")
def test_work_that_is_not_due_is_not_found(in_a_lull: Step):
    saga("PendingRetry", timedelta(hours=1))()
    with CaptureQueriesContext(connection) as captured:
        assert in_a_lull.run(100) == 0
    assert len([query for query in captured.captured_queries if query["sql"].startswith("SELECT EXISTS")]) == 1
    assert not Job.objects.filter(attempt_no=2).exists()
