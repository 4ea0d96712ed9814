"""Idempotent inserts and updates with a value per row."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import DatabaseError, transaction

from events.models import Event
from jobs.models import Job
from tests.factories import JobFactory
from webhookhub.db import clock
from webhookhub.db.statements import insert_new, update_each
from webhookhub.ids import new_uid

pytestmark = pytest.mark.django_db


def row(external_id: str, payload: str = "1") -> dict[str, object]:
    return {
        "uid": new_uid(),
        "event_type": "a",
        "source": "s",
        "external_id": external_id,
        "correlation_id": "c",
        "payload": payload,
    }


def test_of_a_key_that_a_batch_holds_twice_the_first_row_is_kept():
    insert_new(Event, [row("x", "1"), row("y", "2"), row("x", "3"), row("y", "4"), row("z", "5")])

    assert dict(Event.objects.values_list("external_id", "payload")) == {"x": "1", "y": "2", "z": "5"}


def test_a_row_that_exists_is_kept_and_the_others_are_inserted():
    insert_new(Event, [row("x", "1")])
    before = Event.objects.get()

    insert_new(Event, [row("w", "0"), row("x", "3"), row("z", "5")])

    assert Event.objects.get(external_id="x").uid == before.uid
    assert set(Event.objects.values_list("external_id", flat=True)) == {"w", "x", "z"}


def test_a_value_that_does_not_fit_is_an_error_and_not_a_warning():
    bad = row("x") | {"uid": None}

    with pytest.raises(DatabaseError), transaction.atomic():
        insert_new(Event, [bad])
    assert not Event.objects.exists()


def test_an_update_sets_each_row_to_its_own_value_and_only_where_all_matches():
    jobs = [JobFactory.create(status="Leased", lease_token=token, lease_until=None) for token in ("a", "b", "c")]
    done = JobFactory.create(status="Pending", lease_token="d", lease_until=None)
    until = clock.now() + timedelta(hours=1)
    rows = [
        {"id": jobs[0].id, "lease_token": "a", "worker_id": "one", "lease_until": until},
        {"id": jobs[1].id, "lease_token": "another", "worker_id": "two", "lease_until": until},
        {"id": jobs[2].id, "lease_token": "c", "worker_id": "three", "lease_until": None},
        {"id": done.id, "lease_token": "d", "worker_id": "four", "lease_until": until},
    ]

    matched = update_each(
        Job,
        rows,
        match=["id", "lease_token"],
        where="webhook_delivery_jobs.status = 'Leased'",
        values={"lease_resets": "webhook_delivery_jobs.lease_resets + 1"},
    )

    assert matched == 2
    stored = Job.objects.order_by("id").values_list("worker_id", "lease_until", "lease_resets")
    assert list(stored) == [("one", until, 1), ("", None, 0), ("three", None, 1), ("", None, 0)]


def test_nothing_to_write_is_no_statement(django_assert_num_queries):
    with django_assert_num_queries(0):
        insert_new(Event, [])
        assert update_each(Job, [], match=["id"], where="1 = 1") == 0


def test_thousands_of_rows_go_in_one_statement(django_assert_num_queries):
    with django_assert_num_queries(1):
        insert_new(Event, [row(str(n)) for n in range(3000)])

    assert Event.objects.count() == 3000
