"""However many people requeue a dead letter at once, it is delivered anew once."""

from __future__ import annotations

from datetime import timedelta

import pytest

from deadletters.models import DeadLetter, Requeue
from deadletters.requeue import CUT_SHORT_AFTER, Requeued, requeue
from sagas.models import Saga
from webhookhub.auditlog.models import Entry
from webhookhub.db import clock

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


def ask(letter: DeadLetter, name: str) -> Requeued:
    [answer] = requeue([letter.id], by=Staff(name), reason=f"{name} says so")
    return answer


def assert_requeued_once(letter: DeadLetter, answers: list[Requeued], by: str) -> None:
    saga = Saga.objects.get(generation=1)
    assert Saga.objects.count() == 2
    assert (saga.status, saga.attempt_count, saga.event_id) == ("Pending", 0, letter.event_id)
    assert Requeue.objects.values_list("dead_letter_id", "requested_by", "reason").get() == (
        letter.id,
        by,
        f"{by} says so",
    )
    assert {answer.saga_id for answer in answers} == {saga.id}
    assert {answer.requested_by for answer in answers} == {by}
    assert [answer.is_delivered_now for answer in answers].count(True) == 1
    [told] = [str(answer) for answer in answers if answer.created]
    assert told == f"dead letter {letter.id} is delivered anew as delivery {saga.id}"
    before = f"dead letter {letter.id} was requeued before by {by}, as delivery {saga.id}"
    assert {str(answer) for answer in answers if not answer.created} <= {before}
    assert list(Entry.objects.values_list("actor", "details")) == [(by, "{}")]


def test_a_requeue_adds_the_next_generation(letter):
    try:
        ask(letter, "ada")
    finally:  # whatever else went wrong
        assert list(Saga.objects.order_by("id").values_list("generation", flat=True)) == [0, 1]


def test_a_second_requeue_of_a_dead_letter_names_the_first_author_and_the_delivery(letter):
    first = ask(letter, "ada")
    second = elsewhere(lambda: ask(letter, "bob"))

    assert_requeued_once(letter, [first, second], by="ada")
    assert first.created
    assert str(second) == f"dead letter {letter.id} was requeued before by ada, as delivery {first.saga_id}"


@pytest.mark.parametrize(
    "moment",
    [{"before": "SELECT webhook_delivery_sagas"}, {"after": "SELECT webhook_delivery_sagas"}],
    ids=["before-look", "before-birth"],
)
def test_a_requeue_overtaken_before_its_delivery_is_created_remains_the_first(letter, moment):
    with Rival(lambda: ask(letter, "ada"), **moment) as slow:
        slow.reached()  # it has recorded the request and not made the saga
        second = ask(letter, "bob")
        first = slow.result()

    assert_requeued_once(letter, [first, second], by="ada")
    assert first.created


def test_concurrent_requeues_create_one_delivery_and_one_record(letter):
    answers = together(*(lambda name=f"user{n}": ask(letter, name) for n in range(5)))

    assert_requeued_once(letter, answers, by=Requeue.objects.get().requested_by)


def test_of_many_that_complete_an_interrupted_requeue_one_is_reported_as_creator(letter):
    long_ago = clock.now() - CUT_SHORT_AFTER - timedelta(seconds=1)
    given = {"requested_by": "ada", "requested_at": long_ago, "reason": "r", "request_token": "t"}
    Requeue.objects.create(dead_letter=letter, **given)

    answers = together(*(lambda name=f"user{n}": ask(letter, name) for n in range(5)))

    [own] = [n for n, answer in enumerate(answers) if answer.is_delivered_now]
    assert answers[own].completed
    assert {answer.requested_by for answer in answers} == {"ada"}
    assert Saga.objects.filter(generation=1).count() == 1
    assert list(Entry.objects.values_list("actor", "details")) == [(f"user{own}", '{"completed": 1}')]


def test_of_two_concurrent_bulk_requeues_the_audit_log_names_the_author_of_each(letter):
    world.publish_some("b", "c")
    world.run_to_end()
    ids = list(DeadLetter.objects.values_list("id", flat=True))

    def ask_for_all(name: str) -> list[Requeued]:
        return requeue(ids, by=Staff(name), reason=f"{name} says so")

    with Rival(lambda: ask_for_all("ada"), before="SELECT webhook_delivery_sagas") as slow:
        slow.reached()  # it has recorded its requests and made no saga
        second = ask_for_all("bob")
        first = slow.result()

    assert [answer.is_delivered_now for answer in first] == [True] * 3
    assert [answer.is_delivered_now for answer in second] == [False] * 3
    assert list(Entry.objects.values_list("actor", flat=True)) == ["ada"]


def test_a_requeued_delivery_that_fails_again_can_be_requeued_again(letter):
    ask(letter, "ada")
    world.run_to_end()
    again = DeadLetter.objects.get(saga__generation=1)

    answers = together(lambda: ask(again, "ada"), lambda: ask(again, "bob"))

    assert [answer.created for answer in answers].count(True) == 1
    assert list(Saga.objects.order_by("generation").values_list("generation", "status")) == [
        (0, "DeadLettered"),
        (1, "DeadLettered"),
        (2, "Pending"),
    ]
