"""The dead letter API: list, show, requeue one, requeue all that match."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from api import pagination
from deadletters import bulk_requeue
from deadletters.create import NewDeadLetter, create_dead_letters
from deadletters.models import DeadLetter, Requeue
from deadletters.requeue import requeue
from sagas.models import Saga
from subscriptions.models import Subscription
from tests.conformance.world import Staff
from tests.deadletters.helpers import dead_letter_before_its_delivery_ends
from tests.factories import EventFactory, SagaFactory, SubscriptionFactory
from webhookhub.auditlog import actions
from webhookhub.auditlog.models import Entry
from webhookhub.db import clock

from .conftest import Program, iso

pytestmark = pytest.mark.django_db


@pytest.fixture
def letters() -> list[Any]:
    """24 dead letters of two sources, two types, three subscriptions and two error codes; the oldest first.

    Four at a time failed at the same time, and the ids are not in the order of failure.
    """
    subscriptions = [SubscriptionFactory() for _ in range(3)]
    first = clock.now() - timedelta(hours=10)
    letters = []
    for n in range(24):
        event: Any = EventFactory(
            source=("shop", "till")[n % 2], event_type=("order.created", "order.paid")[n // 12], payload=f'{{"n":{n}}}'
        )
        saga: Any = SagaFactory(event=event, subscription=subscriptions[n % 3], status="DeadLettered", attempt_count=3)
        letters.append(
            DeadLetter.objects.create(
                saga=saga,
                event=event,
                subscription=saga.subscription,
                final_error_code=("http_500", "timeout")[n % 4 == 3],
                failed_at=first + timedelta(minutes=(23 - n) // 4),
                payload_snapshot=event.payload,
            )
        )
    return sorted(letters, key=lambda letter: (letter.failed_at, letter.id))


FILTERS: dict[str, tuple[Callable[[list[Any]], dict[str, Any]], Callable[[Any, list[Any]], bool]]] = {
    "none": (lambda all: {}, lambda letter, all: True),
    "error code": (lambda all: {"error_code": "timeout"}, lambda letter, all: letter.final_error_code == "timeout"),
    "subscription": (
        lambda all: {"subscription": all[0].subscription_id},
        lambda letter, all: letter.subscription_id == all[0].subscription_id,
    ),
    "error code and subscription": (
        lambda all: {"subscription": all[0].subscription_id, "error_code": "timeout"},
        lambda letter, all: letter.subscription_id == all[0].subscription_id and letter.final_error_code == "timeout",
    ),
    "event type": (
        lambda all: {"event_type": "order.paid"},
        lambda letter, all: letter.event.event_type == "order.paid",
    ),
    "time": (
        lambda all: {"since": iso(all[5].failed_at), "until": iso(all[17].failed_at)},
        lambda letter, all: all[5].failed_at <= letter.failed_at <= all[17].failed_at,
    ),
    "time and error code": (
        lambda all: {"since": iso(all[5].failed_at), "error_code": "http_500"},
        lambda letter, all: all[5].failed_at <= letter.failed_at and letter.final_error_code == "http_500",
    ),
}


@pytest.mark.parametrize(
    ("window", "limit", "bound"), [(3, 1, False), (3, 200, True), (7, 5, True), (5000, 5, False), (5000, 200, False)]
)
def test_the_pages_list_each_match_once_latest_first(
    hub_wide: Program,
    shop: Program,
    letters: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    window: int,
    limit: int,
    bound: bool,
):
    monkeypatch.setattr(pagination, "WINDOW", window)
    for name, (parameters, holds) in FILTERS.items():
        expected = [
            letter.id
            for letter in reversed(letters)
            if holds(letter, letters) and (not bound or letter.event.source == "shop")
        ]

        ids = (shop if bound else hub_wide).ids("/dead-letters", **parameters(letters), limit=limit)

        assert ids == expected, name
        assert ids or bound, name


def test_a_dead_letter_has_its_payload_and_its_requeue(hub_wide: Program, letters: list[Any]):
    letter = letters[0]
    requeue([letter.id], by=Staff("ada"), reason="once more")

    shown = hub_wide.get(f"/dead-letters/{letter.id}").json()

    assert shown["payload"] == {"n": int(letter.payload_snapshot[5:-1])}
    assert (shown["requeued_by"], shown["requeue_reason"]) == ("ada", "once more")
    assert shown["delivery"] == letter.saga_id


@pytest.mark.requirement("R4-8.1d")
def test_a_requeue_of_one_creates_one_delivery(hub_wide: Program, letters: list[Any]):
    path = f"/dead-letters/{letters[0].id}/requeue"

    first = hub_wide.post(path, {"reason": "the endpoint is back"})
    again = hub_wide.post(path, {"reason": "again"})

    assert first.status_code == again.status_code == 200
    assert first.json()["created"]
    assert first.json() == again.json() | {"created": True}
    assert first.json()["requested_by"] == "API key everything"
    assert Saga.objects.get(id=first.json()["delivery"]).generation == 1
    assert Requeue.objects.get().reason == "the endpoint is back"


def test_a_producer_sees_and_requeues_only_its_own(shop: Program, letters: list[Any]):
    own, others = (
        next(letter.id for letter in letters if letter.event.source == source) for source in ("shop", "till")
    )

    assert shop.get(f"/dead-letters/{own}").status_code == 200
    assert shop.get(f"/dead-letters/{others}").status_code == 404
    assert shop.post(f"/dead-letters/{others}/requeue", {"reason": "x"}).status_code == 404
    assert not Requeue.objects.exists()
    assert shop.post("/dead-letters/requeue", {"reason": "x"}).json()["count"] == 12
    assert set(Requeue.objects.values_list("dead_letter__event__source", flat=True)) == {"shop"}


@pytest.mark.parametrize("body", [{}, {"reason": "  "}, {"reason": 5}, {"reason": "a\u202eb"}])
def test_a_requeue_without_a_reason_is_refused(hub_wide: Program, letters: list[Any], body: dict[str, Any]):
    for path in (f"/dead-letters/{letters[0].id}/requeue", "/dead-letters/requeue"):
        response = hub_wide.post(path, body)
        assert response.status_code == 422, path
        assert response.json()["errors"][0]["field"] == "reason"
    assert not Requeue.objects.exists()


@pytest.mark.parametrize(("filters", "window"), [*((filters, 3) for filters in FILTERS), ("none", 1000)])
def test_a_dry_run_counts_what_a_bulk_requeue_requeues_once(
    hub_wide: Program, letters: list[Any], monkeypatch: pytest.MonkeyPatch, filters: str, window: int
):
    monkeypatch.setattr(bulk_requeue, "WINDOW", window)
    parameters, holds = FILTERS[filters]
    body = parameters(letters)
    expected = {letter.id for letter in letters if holds(letter, letters)}

    preview = hub_wide.post("/dead-letters/requeue", body | {"dry_run": True}).json()
    assert not Requeue.objects.exists()
    first = hub_wide.post("/dead-letters/requeue", body | {"reason": "back"}).json()
    again = hub_wide.post("/dead-letters/requeue", body | {"reason": "back"}).json()

    assert preview["count"] == first["count"] == len(expected)
    assert {item["id"] for item in preview["sample"]} <= expected
    assert len(preview["sample"]) == min(10, len(expected))
    assert set(Requeue.objects.values_list("dead_letter_id", flat=True)) == expected
    assert Saga.objects.filter(generation=1).count() == len(expected)
    assert again["count"] == 0
    assert hub_wide.post("/dead-letters/requeue", body | {"dry_run": True}).json()["count"] == 0


@pytest.mark.parametrize("window", [5, 1000])
def test_a_bulk_requeue_has_a_limit_and_a_cursor(
    hub_wide: Program, letters: list[Any], monkeypatch: pytest.MonkeyPatch, window: int
):
    monkeypatch.setattr(bulk_requeue, "WINDOW", window)
    counts, body = [], {"reason": "back", "limit": 10}
    for _ in range(4):
        done = hub_wide.post("/dead-letters/requeue", body).json()
        counts.append(done["count"])
        assert done["more"] is (done["next"] is not None)
        if done["next"] is None:
            break
        body["cursor"] = done["next"]

    assert counts[:3] == [10, 10, 4]
    order = list(Requeue.objects.order_by("id").values_list("dead_letter_id", flat=True))
    assert set(order[:10]) == {letter.id for letter in letters[:10]}


@pytest.mark.parametrize("window", [3, 1000])
def test_the_same_idempotency_key_requeues_the_same_dead_letters(
    hub_wide: Program, letters: list[Any], monkeypatch: pytest.MonkeyPatch, window: int
):
    monkeypatch.setattr(bulk_requeue, "WINDOW", window)
    body: dict[str, Any] = {"reason": "back", "limit": 10}
    key = {"Idempotency_Key": "one"}

    first, again = (hub_wide.post("/dead-letters/requeue", body, **key).json() for _ in range(2))

    assert first["count"] == again["count"] == 10
    assert set(Requeue.objects.values_list("dead_letter_id", flat=True)) == {letter.id for letter in letters[:10]}
    assert Entry.objects.filter(action=actions.REQUEUE_MATCHING).count() == 1
    # Another cursor or another key makes another request.
    on = body | {"cursor": first["next"]}
    for _ in range(2):
        assert hub_wide.post("/dead-letters/requeue", on, **key).json()["count"] == 10
    assert Requeue.objects.count() == 20
    assert hub_wide.post("/dead-letters/requeue", body, Idempotency_Key="").status_code == 422
    assert hub_wide.post("/dead-letters/requeue", body, Idempotency_Key="two").json()["count"] == 4


def test_the_same_idempotency_key_requeues_no_later_dead_letters(hub_wide: Program, letters: list[Any]):
    body, key = {"reason": "back", "limit": 1000}, {"Idempotency_Key": "one"}
    assert hub_wide.post("/dead-letters/requeue", body, **key).json()["count"] == 24
    saga: Any = SagaFactory(status="DeadLettered", attempt_count=3)
    create_dead_letters([NewDeadLetter(saga.id, saga.event_id, saga.subscription_id, "http_500", clock.now())])

    assert hub_wide.post("/dead-letters/requeue", body, **key).json()["count"] == 24

    assert Requeue.objects.count() == 24


def test_a_cursor_excludes_later_dead_letters(hub_wide: Program, letters: list[Any]):
    first = hub_wide.post("/dead-letters/requeue", {"reason": "back", "limit": 10}).json()
    for saga in Saga.objects.filter(generation=1):
        Saga.objects.filter(id=saga.id).update(status="DeadLettered", attempt_count=3)
        create_dead_letters([NewDeadLetter(saga.id, saga.event_id, saga.subscription_id, "http_500", clock.now())])
    body = {"reason": "back", "limit": 5000, "cursor": first["next"]}

    preview = hub_wide.post("/dead-letters/requeue", body | {"dry_run": True}).json()
    rest, again = (hub_wide.post("/dead-letters/requeue", body).json() for _ in range(2))

    assert (preview["count"], rest["count"], again["count"]) == (14, 14, 0)
    assert not Saga.objects.filter(generation=2).exists()
    assert hub_wide.post("/dead-letters/requeue", {"reason": "a new run"}).json()["count"] == 10


def test_a_request_that_examines_too_many_rows_returns_a_cursor(
    hub_wide: Program, letters: list[Any], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(bulk_requeue, "WINDOW", 4)
    monkeypatch.setattr(bulk_requeue, "MAX_EXAMINED", 8)
    body: dict[str, Any] = {"reason": "back", "event_type": "order.created"}

    counts = []
    while True:
        done = hub_wide.post("/dead-letters/requeue", body).json()
        counts.append(done["count"])
        if not done["next"]:
            break
        body["cursor"] = done["next"]

    assert counts == [0, 4, 8, 0]
    assert hub_wide.post("/dead-letters/requeue", {"dry_run": True}).json()["more"]


def test_a_dry_run_counts_up_to_a_limit(hub_wide: Program, letters: list[Any], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bulk_requeue, "MAX_COUNTED", 7)

    preview = hub_wide.post("/dead-letters/requeue", {"dry_run": True}).json()

    assert (preview["count"], preview["more"]) == (7, True)


def test_a_dead_letter_whose_delivery_has_not_ended_is_a_conflict(hub_wide: Program):
    letter = dead_letter_before_its_delivery_ends()

    response = hub_wide.post(f"/dead-letters/{letter.pk}/requeue", {"reason": "back"})

    assert response.status_code == 409
    assert "has not ended yet; wait a minute and try again" in response.json()["detail"]
    assert not Requeue.objects.exists()


def test_a_bulk_requeue_skips_and_counts_those_whose_deliveries_have_not_ended(hub_wide: Program, letters: list[Any]):
    waiting = dead_letter_before_its_delivery_ends()

    preview = hub_wide.post("/dead-letters/requeue", {"dry_run": True}).json()
    done = hub_wide.post("/dead-letters/requeue", {"reason": "back"}).json()

    assert (preview["count"], preview["not_ended"]) == (done["count"], done["not_ended"]) == (len(letters), 1)
    assert not Requeue.objects.filter(dead_letter=waiting).exists()


def test_a_requeue_that_would_wait_is_a_conflict_unless_allowed(hub_wide: Program, letters: list[Any]):
    Subscription.objects.filter(id=letters[0].subscription_id).update(active=False)

    one, many = f"/dead-letters/{letters[0].id}/requeue", "/dead-letters/requeue"
    for path, message in ((one, "is paused: the new delivery would wait"), (many, "8 new deliveries would wait")):
        response = hub_wide.post(path, {"reason": "back"})
        assert response.status_code == 409
        assert message in response.json()["detail"]
        assert "Set allow_waiting to requeue anyway." in response.json()["detail"]
    assert not Requeue.objects.exists()
    for path in (one, many):
        assert hub_wide.post(path, {"reason": "back", "allow_waiting": True}).status_code == 200
    assert Requeue.objects.count() == 24


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"limit": 0}, "limit"),
        ({"limit": 5001}, "limit"),
        ({"subscription": -1}, "subscription"),
        ({"error_code": "HTTP 500"}, "error_code"),
        ({"until": 5}, "until"),
        ({"until": "5"}, "until"),
        ({"dry_run": "yes"}, "dry_run"),
        ({"subscription_id": 1}, "subscription_id"),
        ({"cursor": "x"}, "cursor"),
    ],
)
def test_an_invalid_parameter_is_named_and_nothing_is_requeued(
    hub_wide: Program, letters: list[Any], body: dict[str, Any], field: str
):
    response = hub_wide.post("/dead-letters/requeue", {"reason": "x"} | body)

    assert response.status_code == 422
    assert response.json()["errors"][0]["field"] == field
    assert not Requeue.objects.exists()
