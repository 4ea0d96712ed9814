"""Pages show rows that only SQL can have written, as far as they can."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse

from deadletters.models import DeadLetter
from events.models import Event
from jobs.models import Job
from sagas.models import Saga
from tests.factories import JobFactory, SagaFactory
from tests.support import rows
from tests.support.unchecked import unchecked

pytestmark = [pytest.mark.every_engine, pytest.mark.usefixtures("committed")]
MISSING = 10**9
UNREADABLE = ["", "not json <b>", "NaN", "1e999", "1" * 5000, "[" * 100_000]


def page(client: Client, url: str) -> str:
    response = client.get(url)
    assert response.status_code == 200, (url, response.status_code)
    return response.content.decode()


def insert_event(payload: str = "{}", created_at: str = "2026-11-18 00:00:00") -> Event:
    with unchecked(), connection.cursor() as cursor:
        sql = "INSERT INTO events (event_type, external_id, payload, created_at) VALUES ('a', 'x', %s, %s)"
        cursor.execute(sql, [payload, created_at])
    return Event.objects.latest("id")


def orphan(**columns: int) -> Any:
    """A delivery that refers to rows that do not exist."""
    known: Any = SagaFactory(status="PendingRetry", final_error_code="timeout")
    saga: Any = SagaFactory.build(event=None, subscription=None, generation=1)
    saga.event_id, saga.subscription_id = known.event_id, known.subscription_id
    for name, value in columns.items():
        setattr(saga, name, value)
    saga.save(force_insert=True)
    return saga


def pages_of(saga: Saga) -> list[str]:
    jobs = Job.objects.filter(saga_id=saga.pk).values_list("pk", flat=True)
    letters = DeadLetter.objects.filter(saga_id=saga.pk).values_list("pk", flat=True)
    return [
        reverse("admin:index"),
        *(rows.listing(name) for name in rows.ALL),
        *(f"{reverse('admin:search')}?q={term}" for term in (saga.pk, "timeout", "x")),
        rows.listing("sagas_saga", f"?event={saga.event_id}"),
        rows.change("sagas_saga", saga.pk),
        *(rows.change("jobs_job", pk) for pk in jobs),
        *(rows.change("deadletters_deadletter", pk) for pk in letters),
        *(f"{reverse('admin:deadletters_deadletter_requeue')}?ids={pk}" for pk in letters),
        reverse("admin:deadletters_deadletter_requeue_matching") + "?error_code=timeout",
    ]


@pytest.mark.parametrize("text", UNREADABLE)
def test_a_payload_that_is_not_json(superuser: Client, text: str):
    event = insert_event(text)
    saga: Any = SagaFactory(event=event)

    for url in pages_of(saga):
        page(superuser, url)
    page(superuser, rows.change("events_event", event.pk))
    assert superuser.get(reverse("admin:event_payload", args=[event.pk])).content.decode() == text
    assert superuser.get(reverse("admin:event_body", args=[event.pk])).status_code == 200


@pytest.mark.mysql_family
def test_an_event_without_a_time(superuser: Client):
    event = insert_event(created_at="0000-00-00 00:00:00")
    saga: Any = SagaFactory(event=event)

    for url in [*pages_of(saga), rows.change("events_event", event.pk)]:
        page(superuser, url)


@pytest.mark.parametrize(
    "missing",
    [
        {"event_id": MISSING},
        {"subscription_id": MISSING},
        {"event_id": MISSING, "subscription_id": MISSING},
    ],
)
def test_a_delivery_whose_event_or_subscription_does_not_exist(superuser: Client, missing: dict[str, int]):
    saga = orphan(**missing)
    JobFactory(saga=saga, status="Failed", error_code="timeout")
    DeadLetter.objects.create(
        saga_id=saga.pk,
        event_id=saga.event_id,
        subscription_id=saga.subscription_id,
        final_error_code="timeout",
        failed_at=saga.created_at,
        payload_snapshot='{"n":"snapshot"}',
    )

    for url in pages_of(saga):
        page(superuser, url)
    delivery = page(superuser, rows.change("sagas_saga", saga.pk))
    for name in missing:
        kind = name.removesuffix("_id")
        assert f"The {kind} of this delivery does not exist: {MISSING}." in delivery
    assert "Attempt 1 failed" in delivery
    assert "snapshot" in page(superuser, rows.change("deadletters_deadletter", DeadLetter.objects.get().pk))


def test_an_attempt_and_a_dead_letter_whose_delivery_does_not_exist(superuser: Client):
    saga: Any = SagaFactory()
    job = JobFactory.build(saga=None, status="Failed", error_code="timeout")
    job.saga_id = MISSING
    job.save(force_insert=True)
    letter = DeadLetter.objects.create(
        saga_id=MISSING,
        event_id=saga.event_id,
        subscription_id=saga.subscription_id,
        final_error_code="timeout",
        failed_at=saga.created_at,
        payload_snapshot="{}",
    )

    for url in [
        *pages_of(saga),
        rows.change("jobs_job", job.pk),
        rows.change("deadletters_deadletter", letter.pk),
        f"{reverse('admin:deadletters_deadletter_requeue')}?ids={letter.pk}",
    ]:
        page(superuser, url)
