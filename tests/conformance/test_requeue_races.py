"""Concurrent requeues of a dead letter create one delivery."""

from __future__ import annotations

import pytest
from django.db import IntegrityError

from deadletters.models import DeadLetter, Requeue
from deadletters.requeue import RequeueResult, requeue
from sagas.models import Saga
from webhookhub.auditlog.models import Entry

from . import world
from .rivals import Rival, elsewhere, together
from .world import Staff

pytestmark = [pytest.mark.every_engine, pytest.mark.usefixtures("committed")]


@pytest.fixture
def letter(committed) -> DeadLetter:
    world.subscribe("dead")
    world.publish_some("a")
    world.run_to_end()
    return DeadLetter.objects.get()


def requeue_as(letter: DeadLetter, name: str) -> RequeueResult:
    [result] = requeue([letter.id], by=Staff(name), reason=f"{name} says so")
    return result


def assert_requeued_once(letter: DeadLetter, results: list[RequeueResult], by: str) -> None:
    saga = Saga.objects.get(generation=1)
    assert Saga.objects.count() == 2
    assert (saga.status, saga.attempt_count, saga.event_id) == ("Pending", 0, letter.event_id)
    assert Requeue.objects.values_list("dead_letter_id", "requested_by", "reason").get() == (
        letter.id,
        by,
        f"{by} says so",
    )
    assert {result.saga_id for result in results} == {saga.id}
    assert {result.requested_by for result in results} == {by}
    assert [result.created for result in results].count(True) == 1
    assert list(Entry.objects.values_list("actor", "details")) == [(by, "{}")]


def test_the_key_of_the_record_refuses_a_second_requeue(letter):
    requeue_as(letter, "ada")
    [record] = Requeue.objects.values("dead_letter_id", "reason", "request_token", "max_retry_limit", "base_delay")
    with pytest.raises(IntegrityError, match="dead_letter"):
        Requeue.objects.create(requested_by="bob", **record)


def test_a_requeue_adds_the_next_generation(letter):
    try:
        requeue_as(letter, "ada")
    finally:
        assert list(Saga.objects.order_by("id").values_list("generation", flat=True)) == [0, 1]


def test_a_second_requeue_returns_the_first_requester_and_delivery(letter):
    first = requeue_as(letter, "ada")
    second = elsewhere(lambda: requeue_as(letter, "bob"))

    assert_requeued_once(letter, [first, second], by="ada")
    assert first.created
    assert not second.created


def test_a_requeue_that_is_overtaken_returns_the_other_requester_and_delivery(letter):
    with Rival(lambda: requeue_as(letter, "ada"), after="SELECT dead_letters") as slow:
        slow.reached()  # it has read the dead letter and written nothing
        second = requeue_as(letter, "bob")
        first = slow.result()

    assert_requeued_once(letter, [first, second], by="bob")
    assert second.created


@pytest.mark.requirement("R4-3.2c")
def test_concurrent_requeues_create_one_delivery_and_one_record(letter):
    results = together(*(lambda name=f"user{n}": requeue_as(letter, name) for n in range(5)))

    assert_requeued_once(letter, results, by=Requeue.objects.get().requested_by)


def test_of_two_concurrent_requeues_of_many_one_is_in_the_audit_log(letter):
    world.publish_some("b", "c")
    world.run_to_end()
    ids = list(DeadLetter.objects.values_list("id", flat=True))

    def requeue_all_as(name: str) -> list[RequeueResult]:
        return requeue(ids, by=Staff(name), reason=f"{name} says so")

    with Rival(lambda: requeue_all_as("ada"), after="SELECT dead_letters") as slow:
        slow.reached()  # it has read the dead letters and written nothing
        second = requeue_all_as("bob")
        first = slow.result()

    assert [result.created for result in first] == [False] * 3
    assert [result.created for result in second] == [True] * 3
    assert list(Entry.objects.values_list("actor", flat=True)) == ["bob"]


def test_a_requeued_delivery_that_dies_again_can_be_requeued_again(letter):
    requeue_as(letter, "ada")
    world.run_to_end()
    again = DeadLetter.objects.get(saga__generation=1)

    results = together(lambda: requeue_as(again, "ada"), lambda: requeue_as(again, "bob"))

    assert [result.created for result in results].count(True) == 1
    assert list(Saga.objects.order_by("generation").values_list("generation", "status")) == [
        (0, "DeadLettered"),
        (1, "DeadLettered"),
        (2, "Pending"),
    ]
