"""Rows that only SQL can have written are shown as they are, and spoil no list."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection

from deadletters.models import DeadLetter
from events.models import Event
from tests.api.conftest import Program
from tests.factories import EventFactory, JobFactory, SagaFactory
from tests.support import rows
from tests.support.unchecked import unchecked

pytestmark = [pytest.mark.every_engine, pytest.mark.usefixtures("committed")]

# Not JSON; or JSON that Python, or the response, cannot represent.
UNREADABLE = ["", "not json", "{'a': 1}", "NaN", "1e999", "1" * 5000, "[" * 100_000]
MISSING = 10**9


def insert_event(payload: str = "{}", created_at: str = "2026-11-18 00:00:00") -> Event:
    with unchecked(), connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO events (event_type, external_id, source, payload, created_at) "
            "VALUES ('a', 'x', 'shop', %s, %s)",
            [payload, created_at],
        )
    return Event.objects.latest("id")


@pytest.mark.parametrize("text", UNREADABLE)
def test_a_payload_that_is_not_json_is_shown_as_text(hub_wide: Program, text: str):
    event = insert_event(text)
    SagaFactory(event=event)

    response = hub_wide.get(f"/events/{event.uid}")

    assert response.status_code == 200
    assert (response.json()["payload"], response.json()["payload_text"]) == (None, text)
    assert len(response.json()["deliveries"]) == 1


def test_a_payload_that_is_json_has_no_text(hub_wide: Program):
    event = EventFactory.create(payload='{"a": null}')

    content = hub_wide.get(f"/events/{event.uid}").json()

    assert (content["payload"], content["payload_text"]) == ({"a": None}, None)


@pytest.mark.parametrize("text", UNREADABLE)
def test_a_repeat_of_an_event_whose_payload_is_not_json_is_a_conflict(shop: Program, text: str):
    event = insert_event(text)

    response = shop.post("/events", {"event_type": "a", "external_id": "x", "payload": None})

    assert (response.status_code, response.json()["uid"]) == (409, str(event.uid))


@pytest.mark.parametrize("text", UNREADABLE)
def test_a_snapshot_that_is_not_json_is_shown_as_text(hub_wide: Program, text: str):
    letter = rows.dead_letter()
    with unchecked(), connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO dead_letters (saga_id, event_id, subscription_id, final_error_code, failed_at, "
            "payload_snapshot) VALUES (%s, %s, %s, 'timeout', '2026-11-18 00:00:00', %s)",
            [MISSING, letter.event_id, letter.subscription_id, text],
        )
    pk = DeadLetter.objects.latest("id").pk

    response = hub_wide.get(f"/dead-letters/{pk}")

    assert response.status_code == 200
    assert (response.json()["payload"], response.json()["payload_text"]) == (None, text)
    assert hub_wide.ids("/dead-letters") == [letter.pk, pk] or hub_wide.ids("/dead-letters") == [pk, letter.pk]


@pytest.mark.mysql_family
def test_an_event_without_a_time_is_shown(hub_wide: Program):
    event = insert_event(created_at="0000-00-00 00:00:00")

    response = hub_wide.get(f"/events/{event.uid}")

    assert (response.status_code, response.json()["created_at"]) == (200, None)


def orphan(**columns: int) -> Any:
    """A delivery without its event, its subscription or both."""
    saga: Any = SagaFactory.build(event=None, subscription=None)
    known: Any = SagaFactory()
    saga.event_id, saga.subscription_id = known.event_id, known.subscription_id
    for name, value in columns.items():
        setattr(saga, name, value)
    saga.save(force_insert=True)
    return saga


def test_a_delivery_whose_event_does_not_exist_is_listed_and_shown(hub_wide: Program):
    saga = orphan(event_id=MISSING, subscription_id=MISSING)
    JobFactory(saga=saga)

    shown = hub_wide.get(f"/deliveries/{saga.pk}")

    assert saga.pk in hub_wide.ids("/deliveries")
    assert (shown.status_code, shown.json()["event"], shown.json()["event_type"]) == (200, None, None)
    assert len(shown.json()["attempts"]) == 1


def test_a_dead_letter_whose_event_does_not_exist_is_listed_and_shown(hub_wide: Program):
    letter = DeadLetter.objects.create(
        saga_id=MISSING,
        event_id=MISSING,
        subscription_id=MISSING,
        final_error_code="timeout",
        failed_at="2026-11-18T00:00:00Z",
        payload_snapshot="{}",
    )

    shown = hub_wide.get(f"/dead-letters/{letter.pk}")

    assert hub_wide.ids("/dead-letters") == [letter.pk]
    assert (shown.status_code, shown.json()["event"], shown.json()["payload"]) == (200, None, {})
    refused = hub_wide.post(f"/dead-letters/{letter.pk}/requeue", {"reason": "r"})
    many = hub_wide.post("/dead-letters/requeue", {"reason": "r"})
    for response in (refused, many):
        assert response.status_code == 409
        assert f"dead letter {letter.pk} refers to a delivery, an event or a subscription" in response.json()["detail"]
