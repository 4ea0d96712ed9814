"""The overview and the search use indexes and stop at their limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User

from events.models import Event
from tests.conformance import test_plans as plans
from tests.conformance.test_plans import Plan
from webhookhub.console import overview, search
from webhookhub.db import clock

pytestmark = [pytest.mark.mysql_family, pytest.mark.django_db]
LIMIT = 500
# Tables that do not grow with the deliveries.
SMALL = {"hub_processes", "stats_periods", "subscriptions", "auth_user", "workflow_definitions"}

_many_rows = plans._many_rows


def read_by(action: Callable[[], Any]) -> Iterator[tuple[dict[str, Any], Plan]]:
    """Each growing table that an action reads, with the plan it is part of."""
    for plan in plans.plans(action, lambda sql: " FROM " in sql):
        for row in plan.rows:
            table = str(row["table"])
            if row["table"] and not table.startswith("<") and table not in SMALL | {"subquery", "found"}:
                yield row, plan


@pytest.mark.requirement("R1-10.1a")
def test_the_overview_reads_at_most_the_limit_of_waiting_rows(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(overview, "LIMIT", LIMIT)

    seen = set()
    for row, plan in read_by(lambda: overview.deliveries(overview.HOUR, clock.now())):
        seen.add(row["table"])
        assert row["key"], plan
        assert "filesort" not in (row["extra"] or ""), plan
        assert plan.rows_read <= 3 * LIMIT + 50, plan
    assert {"webhook_delivery_sagas", "routing_inbox"} <= seen


@pytest.mark.parametrize("kind", ["uid", "correlation_id", "number", "http_503"])
def test_a_search_reads_a_bounded_number_of_rows_by_an_index(kind: str):
    event = Event.objects.order_by("id")[0]
    term = {"uid": str(event.uid), "correlation_id": event.correlation_id or "x", "number": "17"}.get(kind, kind)
    user = User.objects.create_superuser("root")

    found = list(read_by(lambda: search.find(term, user)))

    assert found
    for row, plan in found:
        assert row["key"] or "optimized away" in (row["extra"] or ""), plan
        assert plan.rows_read <= 3000, plan
