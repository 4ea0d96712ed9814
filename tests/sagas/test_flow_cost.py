"""A waiting delivery costs nothing: a turn of the orchestrator is the same with a hundred and with thousands parked."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from events.intake import NewEvent, Published, publish_many
from sagas.models import PARKED, Saga
from sagas.orchestrator import Orchestrator
from sagas.windows import SMALLEST
from subscriptions.models import Subscription
from tests.conformance.test_plans import rows_read
from tests.factories import SubscriptionFactory
from webhookhub.db import vendors

from .test_flow import finish

pytestmark = [pytest.mark.every_engine, pytest.mark.django_db]
BATCH = 100
SAVEPOINT = re.compile(r"_x\d+")  # its number
FEW, MANY = 100, 2_000
# Inner pages of an index may have to be read, too.
ROWS_TOLERANCE = 20


def fill_park(subscription: Subscription, count: int) -> None:
    published = [event for _ in range(0, count, 100) for event in publish_many([NewEvent("order.parked", {})] * 100)]
    events = [event for event in published if isinstance(event, Published)]
    policy: dict[str, Any] = {"max_retry_limit": 3, "base_delay": timedelta(hours=1)}
    Saga.objects.bulk_create(
        [Saga(event_id=event.id, subscription=subscription, next_attempt_at=PARKED, **policy) for event in events],
        batch_size=500,
    )
    assert Saga.objects.filter(parked_subscription_id=subscription.id).count() == count


def turn(orchestrator: Orchestrator) -> tuple[list[str], int]:
    """The statements of a turn that reads the park, and how many rows they read (on a server)."""
    orchestrator._flow._sweep_at = 0.0
    is_server = vendors.is_server(connection)
    before = rows_read() if is_server else 0
    with CaptureQueriesContext(connection) as captured:
        orchestrator.run(BATCH)
    statements = [SAVEPOINT.sub("", query["sql"])[:80] for query in captured.captured_queries]
    return statements, rows_read() - before if is_server else 0


def turns(count: int, *, active: bool) -> list[tuple[list[str], int]]:
    """With so many parked: while the window is full, and then with two results, so that others are admitted."""
    with transaction.atomic():
        subscription = SubscriptionFactory.create(event_type="order.parked")
        fill_park(subscription, count)
        Subscription.objects.filter(pk=subscription.pk).update(active=active)
        orchestrator = Orchestrator()
        orchestrator.run(BATCH)
        full = turn(orchestrator)
        results = finish()
        assert len(results) == (SMALLEST if active else 0)
        orchestrator.hint("results", results)
        opened = turn(orchestrator)
        transaction.set_rollback(True)
    return [full, opened]


@pytest.mark.parametrize("active", [True, False])
def test_a_turn_costs_the_same_however_many_deliveries_are_parked(active: bool):
    few, many = turns(FEW, active=active), turns(MANY, active=active)
    for (statements, rows), (more_statements, more_rows) in zip(few, many, strict=True):
        assert len(statements) > 3
        assert more_statements == statements
        assert more_rows <= rows + ROWS_TOLERANCE
