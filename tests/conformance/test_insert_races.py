"""Inserts of the same rows from two connections: each row is there once, and nobody fails."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction

from sagas.models import Saga
from tests.factories import EventFactory
from webhookhub.db import clock
from webhookhub.db.bulk import insert_new
from webhookhub.db.retry import in_transaction

from .rivals import Rival, elsewhere, together

pytestmark = [pytest.mark.every_engine, pytest.mark.usefixtures("committed")]

KEY = ("event_id", "subscription_id", "generation")


@pytest.fixture(autouse=True)
def _events(committed: None) -> None:
    """The events of the sagas."""
    for pk in range(1, 101):
        EventFactory.create(id=pk)


def rows(*event_ids: int) -> list[dict[str, Any]]:
    now = clock.now()
    return [
        {
            "event_id": event_id,
            "subscription_id": 1,
            "generation": 0,
            "status": "Pending",
            "attempt_count": 0,
            "next_attempt_at": now,
            "max_retry_limit": 3,
            "base_delay": timedelta(seconds=1),
        }
        for event_id in event_ids
    ]


def insert(*event_ids: int) -> None:
    insert_new(Saga, rows(*event_ids), key=KEY)


def stored() -> list[int]:
    return list(Saga.objects.order_by("event_id").values_list("event_id", flat=True))


@pytest.mark.requirement("R3-3.2b")
def test_an_insert_that_waits_for_the_same_rows_inserts_the_rest():
    def insert_slowly() -> None:
        with transaction.atomic():
            insert(2, 3)

    with (
        Rival(insert_slowly, after="INSERT") as first,
        Rival(lambda: insert(1, 2, 3, 4), before="INSERT") as second,
    ):
        first.reached()
        second.reached()
        first.result()
        second.result()

    assert stored() == [1, 2, 3, 4]


def test_rows_that_appear_between_a_refused_insert_and_the_next_are_left_out_too():
    """Each turn of the rival's meets rows that were not there at the turn before."""
    insert(1)
    new = iter([[2], [3, 4], [5]])

    def meddle(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        result = execute(sql, params, many, context)
        if sql.startswith("SELECT given.row_no") and (more := next(new, None)):
            elsewhere(lambda: insert(*more))
        return result

    with connection.execute_wrapper(meddle):
        insert(1, 2, 3, 4, 5, 6)

    assert stored() == [1, 2, 3, 4, 5, 6]
    assert next(new, None) is None


def test_rows_of_a_rolled_back_transaction_are_inserted_by_the_waiting_one():
    class Regret(Exception):
        pass

    def regret() -> None:
        with transaction.atomic():
            insert(1, 2)
            raise Regret

    with Rival(regret, after="INSERT") as first, Rival(lambda: insert(1, 2, 3), before="INSERT") as second:
        first.reached()
        second.reached()
        with pytest.raises(Regret):
            first.result()
        second.result()

    assert stored() == [1, 2, 3]


def test_whole_transactions_that_insert_the_same_rows_in_opposite_orders_all_succeed():
    """A refused insert keeps its lock: both deadlock, and one starts again."""

    def in_pieces(event_ids: list[int]) -> None:
        for start in range(0, len(event_ids), 10):
            insert(*event_ids[start : start + 10])

    forwards = list(range(1, 61))
    works = [lambda: in_transaction(lambda: in_pieces(forwards)), lambda: in_transaction(lambda: in_pieces(backwards))]
    backwards = forwards[::-1]
    together(*works * 2)

    assert stored() == forwards


def test_a_racing_duplicate_of_another_key_is_an_error_for_the_later_one():
    """Both give the same primary key, which is not the named key: neither may take the other's row for its own."""

    def insert_as_seven(event_id: int) -> None:
        insert_new(Saga, [{"id": 7, **row} for row in rows(event_id)], key=KEY)

    def insert_slowly() -> None:
        with transaction.atomic():
            insert_as_seven(1)

    with Rival(insert_slowly, after="INSERT") as first, Rival(lambda: insert_as_seven(2), before="INSERT") as second:
        first.reached()
        second.reached()
        first.result()
        with pytest.raises(IntegrityError):
            second.result()

    assert stored() == [1]
