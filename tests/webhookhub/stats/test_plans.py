"""A scrape goes by indexes and stops at its limit, with a hundred thousand rows behind it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from tests.conformance import test_plans as plans
from tests.conformance.test_plans import Plan
from webhookhub.db import clock
from webhookhub.stats import catalogue, endpoints, open_work, prometheus, queries

pytestmark = [pytest.mark.mysql_family, pytest.mark.django_db]
LIMIT = 500

_many_rows = plans._many_rows

INDEXES = {
    "webhook_delivery_sagas": {"PRIMARY", "idx_saga_status", "idx_saga_status_retry", "idx_saga_parked"},
    "webhook_delivery_jobs": {"idx_job_status_lease", "idx_job_settled"},
    "routing_inbox": {"PRIMARY"},
    "events": {"PRIMARY"},
    "stats_counters": {"PRIMARY"},
    "saga_instances": {"idx_instance_status", "idx_instance_due", "idx_instance_operator"},
    "workflow_inbox": {"PRIMARY"},
    "stats_periods": {"PRIMARY"},
}
# In the tables of the plans.
OPEN_ATTEMPTS = 2_000
INBOXES = {"routing_inbox", "workflow_inbox"}
SMALL = {"api_keys", "hub_processes", "stats_counters", "endpoint_health", "subscriptions"}
# Tables that a statement makes itself.
DERIVED = {"subquery", "parked", "oldest"}


@pytest.fixture(autouse=True)
def _low_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_work, "LIMIT", LIMIT)
    monkeypatch.setattr(endpoints, "LIMIT", LIMIT)


def scraped() -> Iterator[tuple[dict[str, Any], Plan]]:
    """Each table that a scrape reads, with the plan it is part of."""
    found = plans.plans(prometheus.text, lambda sql: " FROM " in sql)
    assert len(found) >= 15
    for plan in found:
        for row in plan.rows:
            if row["table"] and not str(row["table"]).startswith("<") and row["table"] not in DERIVED:
                yield row, plan


def test_every_count_of_a_scrape_goes_by_an_index_and_stops_at_its_limit():
    seen = set()
    for row, plan in scraped():
        table = str(row["table"])
        seen.add(table)
        if table in SMALL:
            continue
        assert row["key"] in INDEXES[table], plan
        # The park is read entry by entry from its index.
        is_park = row["key"] == "idx_saga_parked"
        assert row["type"] in ("ref", "range", "const", "eq_ref") or table in INBOXES or is_park, plan
        assert "filesort" not in (row["extra"] or ""), plan
        # Once from the index, once into and once out of what is counted. Windows limit the open attempts.
        counted = OPEN_ATTEMPTS if "COUNT(webhook_delivery_jobs.id)" in plan.sql else LIMIT
        assert plan.rows_read <= 3 * counted + 50, plan
    assert seen == set(INDEXES) | SMALL


def test_counts_stop_at_the_limit():
    gauges = open_work.read()
    assert gauges[catalogue.EVENTS_WAITING] == LIMIT
    deliveries = gauges[catalogue.DELIVERIES]
    assert isinstance(deliveries, dict)
    assert set(deliveries.values()) == {LIMIT}
    assert gauges[catalogue.PAST_DUE] == 2 * LIMIT


def test_the_stats_of_a_subscription_are_found_by_index():
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO stats_periods (period, starts_at, subscription_id, shard, attempts) "
            f"SELECT 'minute', UTC_TIMESTAMP(0) - INTERVAL n DIV 100 MINUTE, n % 100, 0, 1 FROM {plans.NUMBERS} "
            "WHERE n <= 50000"
        )
        cursor.execute("ANALYZE TABLE stats_periods")
        cursor.fetchall()
    now = clock.now()
    hour = now - timedelta(hours=1)
    [of_one] = plans.plans(
        lambda: queries.series(hour, now, timedelta(minutes=5), subscription_id=7),
        lambda sql: "stats_periods" in sql,
    )
    assert of_one.rows[0]["key"] in ("idx_period_subscription", "PRIMARY")
    assert of_one.rows_read <= 1000, of_one
    [of_all] = plans.plans(lambda: queries.by_subscription(hour, now), lambda sql: "stats_periods" in sql)
    assert of_all.rows[0]["key"] == "PRIMARY"
    assert of_all.rows_read <= 3 * 6100 + 1000, of_all
