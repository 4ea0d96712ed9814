"""By raw SQL, an operator can create the next generation of a dead letter and no other saga.

It inserts the record of a requeue; a trigger, which runs with the privileges of the migrating user, creates the saga.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import DatabaseError
from django.db.backends.base.base import BaseDatabaseWrapper

from deadletters.models import DeadLetter, Requeue
from sagas.models import Saga
from tests.factories import SagaFactory
from tests.support import guards, legal_steps
from webhookhub.db.errors import code_of

from .accounts import connected_as

pytestmark = [pytest.mark.mysql_family, pytest.mark.usefixtures("granted", "committed")]

DENIED, DUPLICATE, REFUSED = 1142, 1062, 1644
RECORD = (
    "INSERT INTO dead_letter_requeues (dead_letter_id, requested_by, reason, request_token, max_retry_limit, "
    "base_delay) VALUES (%s, 'olga', 'again', 't', 5, 1000000)"
)
SAGA = (
    "INSERT INTO webhook_delivery_sagas (event_id, subscription_id, generation, status, attempt_count, "
    "max_retry_limit, base_delay) VALUES (%s, %s, %s, 'Pending', 0, 3, 1)"
)


@pytest.fixture
def operator() -> Iterator[BaseDatabaseWrapper]:
    with connected_as("dead_letter_operator") as other:
        yield other


def outcome(other: BaseDatabaseWrapper, sql: str, *parameters: Any) -> int:
    """0 or the server's error code."""
    try:
        with other.cursor() as cursor:
            cursor.execute(sql, parameters)
        return 0
    except DatabaseError as error:
        return code_of(error) or -1


def letter_of(status: str, attempts: int) -> DeadLetter:
    """A dead letter whose saga has this status, even one in which it cannot get a dead letter."""
    saga = SagaFactory.create(status=status, attempt_count=attempts)
    with guards.switched_off():
        return DeadLetter.objects.filter(saga=saga).first() or legal_steps.dead_letter(saga)


@pytest.mark.requirement("R2-3.3b", "R2-4.3b")
@pytest.mark.requirement("R4-8.1d")
def test_a_record_creates_the_next_generation_of_its_dead_letter(operator: BaseDatabaseWrapper):
    letter = letter_of("DeadLettered", 3)

    assert outcome(operator, RECORD, letter.pk) == 0

    record, new = Requeue.objects.get(), Saga.objects.exclude(pk=letter.saga_id).get()
    assert (new.event_id, new.subscription_id, new.generation) == (letter.event_id, letter.subscription_id, 1)
    assert (new.status, new.attempt_count, new.final_error_code) == ("Pending", 0, None)
    assert (new.max_retry_limit, new.base_delay) == (record.max_retry_limit, record.base_delay)
    assert new.next_attempt_at == new.created_at == new.updated_at == record.requested_at


@pytest.mark.requirement("R2-4.3b")
@pytest.mark.requirement("R4-8.1d")
def test_a_dead_letter_is_requeued_once(operator: BaseDatabaseWrapper):
    letter = letter_of("DeadLettered", 3)

    assert [outcome(operator, RECORD, letter.pk) for _ in range(2)] == [0, DUPLICATE]

    assert Saga.objects.count() == 2


@pytest.mark.requirement("R2-4.3b")
@pytest.mark.requirement("R4-8.1d")
@pytest.mark.parametrize(
    ("status", "attempts"), [("Pending", 0), ("InProgress", 2), ("PendingRetry", 2), ("Completed", 2)]
)
def test_a_saga_that_is_not_dead_lettered_is_not_requeued(operator: BaseDatabaseWrapper, status: str, attempts: int):
    letter = letter_of(status, attempts)

    assert outcome(operator, RECORD, letter.pk) == REFUSED
    assert outcome(operator, RECORD, letter.pk + 1000) == REFUSED

    assert Saga.objects.get().generation == 0
    assert not Requeue.objects.exists()


@pytest.mark.requirement("R2-4.3b")
@pytest.mark.requirement("R4-8.1d")
def test_an_operator_inserts_no_saga_itself(operator: BaseDatabaseWrapper):
    letter, completed = letter_of("DeadLettered", 3), SagaFactory.create(status="Completed")
    before = list(Saga.objects.order_by("pk").values())

    for generation in (0, 1, 2):
        assert outcome(operator, SAGA, letter.event_id, letter.subscription_id, generation) == DENIED
        assert outcome(operator, SAGA, letter.event_id, completed.subscription_id, generation) == DENIED
        assert outcome(operator, SAGA, completed.event_id, completed.subscription_id, generation) == DENIED

    assert list(Saga.objects.order_by("pk").values()) == before
