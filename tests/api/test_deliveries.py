"""The delivery API: pages, filters, and which key may see which delivery."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from api import pagination
from sagas import filters
from sagas.parking import park
from subscriptions.models import Subscription
from tests.factories import EventFactory, JobFactory, SagaFactory, SubscriptionFactory
from webhookhub.db import clock

from .conftest import Program, iso

pytestmark = pytest.mark.django_db

STATUSES = ["Pending", "InProgress", "Completed", "DeadLettered", "Completed"]


@pytest.fixture
def sagas() -> list[Any]:
    """30 deliveries of two sources, two types, three subscriptions, ten correlation ids and five statuses.

    Each was created a minute after the one before.
    """
    subscriptions = [SubscriptionFactory() for _ in range(3)]
    first = clock.now() - timedelta(hours=10)
    sagas = []
    for n in range(30):
        event = EventFactory(
            source=("shop", "till")[n % 2],
            event_type=("order.created", "order.paid")[n // 15],
            correlation_id=f"case-{n // 3}",
        )
        saga = SagaFactory(
            event=event,
            subscription=subscriptions[n % 3],
            status=STATUSES[n % 5],
            created_at=first + timedelta(minutes=n),
        )
        sagas.append(saga)
    return sagas


FILTERS: dict[str, tuple[Callable[[list[Any]], dict[str, Any]], Callable[[Any, list[Any]], bool]]] = {
    "none": (lambda all: {}, lambda saga, all: True),
    "status": (lambda all: {"status": "Completed"}, lambda saga, all: saga.status == "Completed"),
    "subscription": (
        lambda all: {"subscription": all[0].subscription_id},
        lambda saga, all: saga.subscription_id == all[0].subscription_id,
    ),
    "status and subscription": (
        lambda all: {"subscription": all[0].subscription_id, "status": "DeadLettered"},
        lambda saga, all: saga.subscription_id == all[0].subscription_id and saga.status == "DeadLettered",
    ),
    "completed and subscription": (
        lambda all: {"subscription": all[0].subscription_id, "status": "Completed"},
        lambda saga, all: saga.subscription_id == all[0].subscription_id and saga.status == "Completed",
    ),
    "event type": (lambda all: {"event_type": "order.paid"}, lambda saga, all: saga.event.event_type == "order.paid"),
    "event": (lambda all: {"event": all[4].event.uid}, lambda saga, all: saga.event_id == all[4].event_id),
    "correlation id": (
        lambda all: {"correlation_id": "case-2"},
        lambda saga, all: saga.event.correlation_id == "case-2",
    ),
    "correlation id and status": (
        lambda all: {"correlation_id": "case-2", "status": "Completed"},
        lambda saga, all: saga.event.correlation_id == "case-2" and saga.status == "Completed",
    ),
    "since": (
        lambda all: {"since": iso(all[11].created_at)},
        lambda saga, all: saga.created_at >= all[11].created_at,
    ),
    "time and type": (
        lambda all: {"since": iso(all[7].created_at), "until": iso(all[20].created_at), "event_type": "order.paid"},
        lambda saga, all: all[15].id <= saga.id <= all[20].id,
    ),
    "until and status": (
        lambda all: {"until": iso(all[20].created_at), "status": "Pending"},
        lambda saga, all: saga.id <= all[20].id and saga.status == "Pending",
    ),
}


@pytest.mark.parametrize(
    ("window", "limit", "bound"), [(3, 1, False), (3, 200, True), (7, 4, True), (5000, 4, False), (5000, 200, False)]
)
def test_the_pages_contain_each_matching_delivery_once_newest_first(
    hub_wide: Program,
    shop: Program,
    sagas: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    window: int,
    limit: int,
    bound: bool,
):
    monkeypatch.setattr(pagination, "WINDOW", window)
    monkeypatch.setattr(filters, "MAX_CLOCK_SKEW", timedelta(minutes=2))
    for name, (parameters, holds) in FILTERS.items():
        expected = [
            saga.id for saga in reversed(sagas) if holds(saga, sagas) and (not bound or saga.event.source == "shop")
        ]

        ids = (shop if bound else hub_wide).ids("/deliveries", **parameters(sagas), limit=limit)

        assert ids == expected, name
        assert ids or bound, name


def test_the_first_delivery_after_a_time_is_found_by_bisection(sagas: list[Any]):
    for minutes in (-1000, -1, 0, 0.5, 14, 29, 30, 1000):
        time = sagas[0].created_at + timedelta(minutes=minutes)
        later = [saga.id for saga in sagas if saga.created_at >= time]

        ids = filters.first_id_at(time)

        assert all(id >= ids for id in later)
        assert not any(ids <= saga.id for saga in sagas if saga.created_at < time)


def test_new_deliveries_do_not_shift_the_pages(hub_wide: Program, sagas: list[Any]):
    first = hub_wide.get("/deliveries", limit=10).json()
    SagaFactory()

    second = hub_wide.get("/deliveries", limit=10, cursor=first["next"]).json()

    assert [item["id"] for item in second["items"]] == [saga.id for saga in sagas[19:9:-1]]


def test_a_cursor_is_valid_for_its_own_list_only(hub_wide: Program, shop: Program, sagas: list[Any]):
    cursor = hub_wide.get("/deliveries", limit=1).json()["next"]

    for response in (
        hub_wide.get("/deliveries", cursor=cursor, status="Pending"),
        shop.get("/deliveries", cursor=cursor),
        hub_wide.get("/dead-letters", cursor=cursor),
        hub_wide.get("/subscriptions", cursor=cursor),
        hub_wide.get("/deliveries", cursor=cursor[:-1] + "~"),
        hub_wide.get("/deliveries", cursor="1"),
        hub_wide.get("/deliveries", cursor=""),
    ):
        assert response.status_code == 422
        assert response.json()["errors"][0]["field"] == "cursor"


@pytest.mark.parametrize(
    ("parameters", "field"),
    [
        ({"limit": "0"}, "limit"),
        ({"limit": "201"}, "limit"),
        ({"status": "Done"}, "status"),
        ({"statsu": "Completed"}, "statsu"),
        ({"subscription": "0"}, "subscription"),
        ({"subscription": str(2**63)}, "subscription"),
        ({"subscription": "9" * 5000}, "subscription"),
        ({"event": "x"}, "event"),
        ({"event_type": "a b"}, "event_type"),
        ({"event_type": "a\n"}, "event_type"),
        ({"correlation_id": ""}, "correlation_id"),
        ({"correlation_id": "x" * 201}, "correlation_id"),
        ({"since": "yesterday"}, "since"),
        ({"since": "2026-01-01T00:00:00"}, "since"),
        ({"since": "0001-01-01T00:00:00+14:00"}, "since"),
        ({"until": "9999-12-31T23:59:59-12:00"}, "until"),
        ({"status": ["Completed", "Pending"]}, "status"),
    ],
)
def test_an_invalid_filter_is_named(hub_wide: Program, parameters: dict[str, Any], field: str):
    response = hub_wide.get("/deliveries", **parameters)

    assert response.status_code == 422
    assert response.json()["errors"][0]["field"] == field


def test_a_correlation_id_with_too_many_events_is_refused(hub_wide: Program, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("api.deliveries.MAX_EVENTS", 2)
    for _ in range(3):
        EventFactory(correlation_id="all")

    response = hub_wide.get("/deliveries", correlation_id="all")

    assert response.status_code == 422
    assert "filter by `event` instead" in response.json()["detail"]


def test_another_producer_cannot_hide_deliveries_with_many_events_of_the_same_correlation_id(
    shop: Program, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("api.deliveries.MAX_EVENTS", 2)
    own: Any = SagaFactory(event=EventFactory(source="shop", correlation_id="all"))
    for _ in range(4):
        EventFactory(source="till", correlation_id="all")

    response = shop.get("/deliveries", correlation_id="all")

    assert [item["id"] for item in response.json()["items"]] == [own.id]


def test_a_delivery_is_shown_with_its_attempts(hub_wide: Program):
    saga: Any = SagaFactory(status="PendingRetry", attempt_count=2, final_error_code="http_500")
    for number in (2, 1):
        JobFactory(
            saga=saga,
            attempt_no=number,
            status="Failed",
            error_code="http_500",
            response_status=500,
            response_snippet="no",
        )

    shown = hub_wide.get(f"/deliveries/{saga.id}").json()

    assert shown["event"] == str(saga.event.uid)
    assert (shown["status"], shown["attempt_count"], shown["error_code"]) == ("PendingRetry", 2, "http_500")
    assert shown["next_attempt_at"] is not None
    assert [attempt["attempt_no"] for attempt in shown["attempts"]] == [1, 2]
    assert shown["attempts"][0]["response_snippet"] == "no"
    assert shown["dead_letter"] is None


def test_a_producer_reads_its_deliveries_without_the_endpoints_responses(shop: Program):
    own: Any = SagaFactory(event=EventFactory(source="shop"))
    others: Any = SagaFactory(event=EventFactory(source="till"))
    JobFactory(saga=own, status="Failed", response_snippet="for the operator")

    shown = shop.get(f"/deliveries/{own.id}")

    assert shown.json()["attempts"][0]["response_snippet"] is None
    assert shop.get(f"/deliveries/{others.id}").status_code == 404
    assert shop.get("/deliveries", event=str(others.event.uid)).json()["items"] == []
    assert shop.get("/deliveries", correlation_id=others.event.correlation_id).json()["items"] == []


def test_an_id_out_of_range_is_refused(hub_wide: Program):
    for number in ("0", "-1", str(2**63), "x", "1.5", "9" * 400):
        assert hub_wide.get(f"/deliveries/{number}").status_code == 422


def test_a_missing_object_is_not_found(hub_wide: Program):
    assert hub_wide.get("/deliveries/12345").status_code == 404
    assert hub_wide.get("/deliveries", event=str(uuid4())).json() == {"items": [], "next": None}


def test_a_page_takes_few_statements(hub_wide: Program, sagas: list[Any], django_assert_max_num_queries: Any):
    hub_wide.get("/deliveries")
    with django_assert_max_num_queries(5):
        hub_wide.get("/deliveries", event_type="order.paid")


def test_a_parked_delivery_says_what_it_waits_for_and_has_no_time(hub_wide: Program):
    saga = SagaFactory.create(next_attempt_at=clock.now() - timedelta(seconds=1))
    assert park([saga.id], "Pending") == 1

    shown = hub_wide.get(f"/deliveries/{saga.id}").json()

    assert (shown["next_attempt_at"], shown["waiting_for"]) == (None, "busy")
    Subscription.objects.update(active=False)
    [listed] = hub_wide.get("/deliveries").json()["items"]
    assert (listed["next_attempt_at"], listed["waiting_for"]) == (None, "paused")
