"""Every list and filter of the API reads along an index, on tables of a hundred thousand rows."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from api import pagination
from deadletters import bulk_requeue
from deadletters.filters import DeadLetterFilter
from deadletters.models import DeadLetter
from deadletters.requeue import requeue
from events import lookup
from events.backfill import backfill
from sagas.models import Saga
from tests.conformance.rivals import unquoted
from tests.conformance.test_plans import (  # noqa: F401  # the rows are a fixture
    Plan,
    _many_rows,
    plans,
)
from webhookhub.db import clock
from webhookhub.terminal import Operator

from .conftest import Program, iso

pytestmark = [pytest.mark.mysql_family, pytest.mark.django_db]

DEAD = """INSERT INTO dead_letters (saga_id, event_id, subscription_id, final_error_code, failed_at, payload_snapshot)
    SELECT id, event_id, subscription_id, ELT(1 + id % 3, 'http_500', 'timeout', 'dns_error'),
           UTC_TIMESTAMP(6) - INTERVAL id SECOND, '{}' FROM webhook_delivery_sagas
    WHERE id % 5 = 0 AND id <= 100000"""
LIMIT = 50
# A page reads its window once in the list and a few times in events, sagas and requests.
MAX_READ = 4 * pagination.WINDOW + 500


@pytest.fixture(scope="module", autouse=True)
def _dead_letters(_many_rows: None, django_db_blocker: Any) -> None:  # noqa: F811
    with django_db_blocker.unblock():
        if connection.features.has_select_for_update_skip_locked:
            with connection.cursor() as cursor:
                cursor.execute(DEAD)
                # Some of the deliveries have ended otherwise; only one that is DeadLettered can be requeued.
                cursor.execute(
                    "UPDATE webhook_delivery_sagas SET status = 'DeadLettered' WHERE id % 5 = 0 AND id <= 100000"
                )
                cursor.execute("ANALYZE TABLE dead_letters, webhook_delivery_sagas, events")
                cursor.fetchall()


@pytest.fixture
def _current_statistics() -> None:
    """MySQL goes on counting rows that an earlier test has rolled back."""
    own = connection.copy()  # ANALYZE TABLE would commit the test's transaction
    with own.cursor() as cursor:
        cursor.execute("ANALYZE TABLE dead_letter_requeues")
        cursor.fetchall()
    own.close()


def reads(work: Callable[[], object]) -> list[Plan]:
    return plans(work, lambda sql: sql.startswith("SELECT") and any(f"FROM {table}" in sql for table in GROWING))


GROWING = ("events", "webhook_delivery_sagas", "webhook_delivery_jobs", "dead_letters", "dead_letter_requeues")


def check(queries: list[Plan], max_read: int = MAX_READ) -> None:
    assert queries
    for plan in queries:
        for row in plan.rows:
            # A small table may be scanned, and so may a list of values, which becomes a temporary table.
            temporary = str(row["table"]).startswith(("<", "tvc", "None"))
            assert row["type"] != "ALL" or temporary or int(row["rows"]) < 2000, plan
            ordered = "ORDER BY" not in plan.sql or "filesort" not in (row["extra"] or "")
            assert ordered or " IN (" in plan.sql, plan
        assert plan.rows_read <= max_read, (plan.rows_read, plan)


def ago(hours: float) -> str:
    return iso(clock.now() - timedelta(hours=hours))


DELIVERIES: dict[str, Callable[[], dict[str, Any]]] = {
    "none": dict,
    "rare status": lambda: {"status": "DeadLettered"},
    "common status": lambda: {"status": "Completed"},
    "subscription": lambda: {"subscription": 3},
    "subscription without any": lambda: {"subscription": 999},
    "subscription and rare status": lambda: {"subscription": 3, "status": "Pending"},
    "subscription and common status": lambda: {"subscription": 3, "status": "Completed"},
    "customer without any": lambda: {"customer": "acme"},
    "event type": lambda: {"event_type": "order.created"},
    "event type without any": lambda: {"event_type": "order.unknown"},
    "correlation id": lambda: {"correlation_id": "none such"},
    "since": lambda: {"since": ago(1)},
    "until": lambda: {"until": ago(1)},
    "since and status": lambda: {"since": ago(1), "status": "DeadLettered"},
    "since and type": lambda: {"since": ago(1), "event_type": "order.unknown"},
}
# One index covers these: a page reads little more than it shows.
EXACT = {"none", "rare status", "common status", "subscription", "subscription without any", "correlation id"}
EXACT |= {"customer without any"}


BOUND = ("none", "rare status", "since and type")


@pytest.mark.requirement("R1-10.1a")
@pytest.mark.parametrize(
    ("filters", "bound"), [*((name, False) for name in DELIVERIES), *((name, True) for name in BOUND)]
)
def test_a_page_of_deliveries_goes_by_an_index(hub_wide: Program, shop: Program, filters: str, bound: bool):
    program = shop if bound else hub_wide
    parameters = DELIVERIES[filters]() | {"limit": LIMIT}
    responses: list[Any] = []

    first = reads(lambda: responses.append(program.get("/deliveries", **parameters)))

    assert responses[0].status_code == 200
    check(first, 6 * LIMIT + 50 if filters in EXACT and not bound else MAX_READ)
    if cursor := responses[0].json()["next"]:
        check(reads(lambda: program.get("/deliveries", **parameters, cursor=cursor)))


def test_the_deliveries_of_an_event_and_a_delivery_itself_go_by_an_index(hub_wide: Program):
    saga: Any = Saga.objects.select_related("event").get(id=50_000)

    check(reads(lambda: hub_wide.get(f"/events/{saga.event.uid}")), 100)
    check(reads(lambda: hub_wide.get("/deliveries", event=str(saga.event.uid))), 100)
    check(reads(lambda: hub_wide.get("/deliveries", correlation_id=saga.event.correlation_id or "x")), 100)
    check(reads(lambda: hub_wide.get("/deliveries/50000")), 100)


def test_the_events_of_a_correlation_id_and_a_source_go_by_the_correlation_id():
    queries = reads(lambda: lookup.of_correlation("none such", "shop", 1001))

    check(queries, 100)
    assert [row["key"] for plan in queries for row in plan.rows] == ["idx_event_correlation"]


DEAD_LETTERS: dict[str, Callable[[], dict[str, Any]]] = {
    "none": dict,
    "error code": lambda: {"error_code": "timeout"},
    "error code without any": lambda: {"error_code": "tls_error"},
    "subscription": lambda: {"subscription": 5},
    "subscription without any": lambda: {"subscription": 2},
    "error code and subscription": lambda: {"error_code": "timeout", "subscription": 5},
    "event type without any": lambda: {"event_type": "order.unknown"},
    "since": lambda: {"since": ago(1)},
    "time": lambda: {"since": ago(20), "until": ago(5)},
    "time and error code": lambda: {"since": ago(20), "until": ago(5), "error_code": "timeout"},
    "time and subscription": lambda: {"since": ago(20), "until": ago(5), "subscription": 5},
}
EXACT_DEAD = set(DEAD_LETTERS) - {"error code and subscription", "event type without any"}


@pytest.mark.parametrize("filters", DEAD_LETTERS)
def test_a_page_of_dead_letters_goes_by_an_index(hub_wide: Program, filters: str):
    parameters = DEAD_LETTERS[filters]() | {"limit": LIMIT}
    responses: list[Any] = []

    first = reads(lambda: responses.append(hub_wide.get("/dead-letters", **parameters)))

    check(first, 6 * LIMIT + 50 if filters in EXACT_DEAD else MAX_READ)
    if cursor := responses[0].json()["next"]:
        check(reads(lambda: hub_wide.get("/dead-letters", **parameters, cursor=cursor)))


@pytest.mark.usefixtures("_current_statistics")
@pytest.mark.parametrize("filters", DEAD_LETTERS)
def test_a_bulk_requeue_goes_by_an_index(hub_wide: Program, filters: str):
    body = DEAD_LETTERS[filters]() | {"allow_waiting": True}
    oldest = list(DeadLetter.objects.order_by("failed_at").values_list("id", flat=True)[:300])
    requeue(oldest, by=Operator(), reason="r")

    check(reads(lambda: hub_wide.post("/dead-letters/requeue", body | {"dry_run": True})))
    check(reads(lambda: hub_wide.post("/dead-letters/requeue", body | {"reason": "x", "limit": 100})))


@pytest.mark.parametrize("narrowed", ["event", "delivery", "search", "search for nothing"])
@pytest.mark.parametrize("filters", ["none", "error code and subscription", "time"])
def test_a_search_for_dead_letters_goes_by_an_index(narrowed: str, filters: str):
    letter: Any = DeadLetter.objects.select_related("event").get(saga_id=50_000)
    narrowing: dict[str, Any] = {
        "event": {"event_id": letter.event_id},
        "delivery": {"saga_id": letter.saga_id},
        "search": {"search": str(letter.event.uid)},
        "search for nothing": {"search": "none such"},
    }
    conditions: dict[str, dict[str, Any]] = {
        "none": {},
        "error code and subscription": {"error_code": "timeout", "subscription_id": 5},
        "time": {"since": clock.now() - timedelta(hours=20), "until": clock.now()},
    }
    letter_filter = DeadLetterFilter(**conditions[filters], **narrowing[narrowed])

    listed = reads(lambda: letter_filter.newest_first(None, 2000))
    selected = plans(lambda: bulk_requeue.preview(letter_filter, limit=5000), lambda sql: "dead_letter" in sql)

    # A sort is allowed for so few rows.
    assert listed
    assert selected
    assert all(plan.rows_read <= 200 for plan in [*listed, *selected]), [*listed, *selected]


def test_a_backfill_goes_by_the_type_and_the_time():
    since = clock.now() - timedelta(days=30)

    queries = reads(lambda: backfill(3, since, limit=2000))

    check(queries, 4 * 500 + 100)
    assert any("idx_event_type" in str(plan.rows) for plan in queries)
    assert all(unquoted(plan.sql) for plan in queries)


def test_a_key_is_found_by_its_id(hub_wide: Program):
    queries = plans(lambda: hub_wide.get("/deliveries/1"), lambda sql: "FROM api_keys" in sql)

    assert queries
    assert all(row["type"] in ("const", "ref", "eq_ref") or row["key"] for plan in queries for row in plan.rows)
