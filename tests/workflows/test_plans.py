"""Polling queries of trackers and monitors use an index."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection

from tests.conformance.test_plans import plans
from tests.workflows.lives import ORDER
from tests.workflows.support import catch_up, expire, tell, tracked
from webhookhub.db import clock
from workflows import backtest, lookup
from workflows.filters import RunFilter, soonest_due
from workflows.models import Instance
from workflows.registry import registry
from workflows.services import new_run
from workflows.tracker import Tracker

# Committed: ANALYZE TABLE ends a transaction.
pytestmark = [pytest.mark.every_engine, pytest.mark.mysql_family, pytest.mark.usefixtures("committed")]
SAGAS = 2_000
FEW = 200


@pytest.fixture
def _many(committed: None) -> None:
    later = clock.now() + timedelta(hours=1)
    keys = [f"k-{number}" for number in range(SAGAS)]
    rows = [Instance(**new_run(ORDER, key), deadline=later, aggregate_id=key) for key in keys]
    for number, run in enumerate(rows):
        if number % 10:
            run.status, run.deadline = ("FAILED" if number % 10 == 1 else "COMPLETED"), None
    Instance.objects.bulk_create(rows, batch_size=1000)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE TABLE saga_instances, saga_facts")
        cursor.fetchall()


@pytest.mark.requirement("R5-1f")
@pytest.mark.usefixtures("_many")
def test_polling_queries_use_their_indexes():
    tracked()
    for number in range(3):
        tell(ORDER, ("order", "done"), f"new-{number}")
    run = Instance.objects.get(correlation_key="k-11")
    questions = [
        lambda: Tracker(registry()).track(50),
        expire,
        lambda: RunFilter(status="FAILED").newest_first(1, None, 50),
        lambda: RunFilter(status="FAILED").newest_first(1, run.pk, 50),
        lambda: soonest_due(None, 50),
        lambda: lookup.find("k-5", 50),
        lambda: Instance.objects.get(saga_id=run.saga_id),
    ]
    for question in questions:
        for plan in plans(question, lambda sql: "saga_" in sql or "workflow_" in sql):
            assert plan.rows_read <= FEW, plan
    catch_up()


@pytest.mark.usefixtures("_many")
def test_runs_of_a_period_are_read_along_the_index_by_time(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(backtest, "CHUNK", 50)
    now = clock.now()

    def two_pieces() -> None:
        pieces = backtest._started("order_submission", now - timedelta(hours=1), now + timedelta(hours=1))
        assert [len(next(pieces)) for _ in range(2)] == [50, 50]

    found = plans(two_pieces, lambda sql: "saga_instances" in sql)

    assert [plan.rows[0]["key"] for plan in found] == ["idx_instance_started"] * 2
    for plan in found:
        assert "filesort" not in (plan.rows[0]["extra"] or ""), plan
        assert plan.rows_read <= FEW, plan
