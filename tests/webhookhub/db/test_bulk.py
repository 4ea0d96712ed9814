"""Idempotent inserts and updates with a value per row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import DatabaseError, IntegrityError, transaction

from deadletters.create import NewDeadLetter, create_dead_letters
from deadletters.models import DeadLetter
from events.models import Event
from jobs.models import Job
from tests.factories import JobFactory, SagaFactory
from webhookhub.db import clock
from webhookhub.db.bulk import insert_new, update_each
from webhookhub.ids import new_uid

pytestmark = [pytest.mark.every_engine, pytest.mark.django_db]


def row(external_id: str | None, payload: str = "1") -> dict[str, object]:
    return {
        "uid": new_uid(),
        "event_type": "a",
        "source": "s",
        "external_id": external_id,
        "correlation_id": "c",
        "payload": payload,
    }


def insert(*rows: dict[str, object], key: Sequence[str] = ("source", "external_id"), **options: bool) -> None:
    insert_new(Event, rows, key=key, **options)


def stored() -> dict[str | None, str]:
    return dict(Event.objects.values_list("external_id", "payload"))


either_way = pytest.mark.parametrize("look_first", [False, True])


@either_way
def test_the_first_row_of_a_repeated_key_is_inserted(look_first: bool):
    rows = [row("x", "1"), row("y", "2"), row("x", "3"), row("y", "4"), row("z", "5")]
    insert(*rows, look_first=look_first)

    assert stored() == {"x": "1", "y": "2", "z": "5"}


@either_way
def test_a_batch_inserted_again_changes_nothing(look_first: bool):
    rows = [row(str(n), str(n)) for n in range(20)]
    insert(*rows)
    before = list(Event.objects.order_by("id").values())

    insert(*(other | {"uid": new_uid(), "payload": "0"} for other in rows), look_first=look_first)

    assert list(Event.objects.order_by("id").values()) == before


@either_way
@pytest.mark.parametrize("there", [[7, 8, 9], [0, 2, 4, 6, 8]])
def test_the_missing_rows_of_a_batch_are_inserted(there: list[int], look_first: bool):
    insert(*(row(str(n), "1") for n in there))

    insert(*(row(str(n), "2") for n in range(10)), look_first=look_first)

    assert stored() == {str(n): "1" if n in there else "2" for n in range(10)}


@either_way
def test_a_null_key_equals_no_other(look_first: bool):
    insert(row("x"), row(None, "1"), row(None, "2"))

    insert(row("x"), row(None, "3"), look_first=look_first)

    assert sorted(Event.objects.values_list("payload", flat=True)) == ["1", "1", "2", "3"]


def test_a_duplicate_of_another_key_is_an_error_and_not_a_loop(django_assert_max_num_queries):
    first, second = row("x"), row("y")
    insert(first)

    with pytest.raises(IntegrityError), django_assert_max_num_queries(5), transaction.atomic():
        insert(row("w"), second | {"uid": first["uid"]})
    with pytest.raises(IntegrityError), django_assert_max_num_queries(5), transaction.atomic():
        insert(row("x"), row("z"), key=["uid"])

    assert set(stored()) == {"x"}


def test_duplicates_of_the_named_and_another_key_store_nothing():
    first = row("x")
    insert(first)

    with pytest.raises(IntegrityError), transaction.atomic():
        insert(row("x"), row("y") | {"uid": first["uid"]}, row("z"))

    assert set(stored()) == {"x"}


def test_a_transaction_continues_after_a_duplicate():
    with transaction.atomic():
        insert(row("w"))
        insert(row("v"), row("w"))
        insert(row("u"))

    assert set(stored()) == {"u", "v", "w"}


def test_a_value_that_does_not_fit_is_an_error_and_not_a_warning():
    bad = row("x") | {"uid": None}

    with pytest.raises(DatabaseError), transaction.atomic():
        insert(bad)
    assert not Event.objects.exists()


def test_selected_rows_are_inserted_once():
    sagas = [SagaFactory.create(status="InProgress", max_retry_limit=1) for _ in range(4)]
    for saga in sagas:
        JobFactory.create(saga=saga, status="Failed")
    deaths = [NewDeadLetter(saga.id, saga.event_id, saga.subscription_id, "http_500", clock.now()) for saga in sagas]
    create_dead_letters(deaths[1:3])
    before = list(DeadLetter.objects.order_by("id").values())

    create_dead_letters([replace(death, final_error_code="timeout") for death in [*deaths, deaths[0]]])

    letters = list(DeadLetter.objects.order_by("id").values())
    assert letters[:2] == before
    assert sorted(letter["saga_id"] for letter in letters) == [saga.id for saga in sagas]


def test_an_update_sets_each_matching_row_to_its_own_value():
    before = clock.now()
    jobs = [JobFactory.create(status="Leased", lease_token=token, lease_until=before) for token in ("a", "b", "c")]
    done = JobFactory.create(status="Pending", lease_token="d", lease_until=None)
    until = before + timedelta(hours=1)
    rows = [
        {"id": jobs[0].id, "lease_token": "a", "worker_id": "one", "lease_until": until, "response_status": 1},
        {"id": jobs[1].id, "lease_token": "another", "worker_id": "two", "lease_until": until, "response_status": 2},
        {"id": jobs[2].id, "lease_token": "c", "worker_id": "three", "lease_until": until, "response_status": None},
        {"id": done.id, "lease_token": "d", "worker_id": "four", "lease_until": until, "response_status": 4},
    ]

    matched = update_each(
        Job,
        rows,
        match=["id", "lease_token"],
        where="webhook_delivery_jobs.status = 'Leased'",
        values={"duration_ms": "webhook_delivery_jobs.attempt_no + 6"},
    )

    assert matched == 2
    stored = Job.objects.order_by("id").values_list("worker_id", "lease_until", "response_status", "duration_ms")
    unchanged = [("", before, None, None), ("", None, None, None)]
    assert list(stored) == [("one", until, 1, 7), unchanged[0], ("three", until, None, 7), unchanged[1]]


def test_an_empty_batch_executes_no_statement(django_assert_num_queries):
    with django_assert_num_queries(0):
        insert()
        insert(look_first=True)
        assert update_each(Job, [], match=["id"], where="1 = 1") == 0


def test_thousands_of_rows_fit_in_one_statement(django_assert_num_queries):
    with django_assert_num_queries(1):
        insert(*(row(str(n)) for n in range(3000)))
    insert(*(row(str(n)) for n in range(4000)))

    assert Event.objects.count() == 4000
