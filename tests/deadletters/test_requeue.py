"""A requeue creates a new saga and changes nothing else."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import AnonymousUser, Permission, User
from django.core.exceptions import PermissionDenied

from deadletters.create import NewDeadLetter, create_dead_letters
from deadletters.models import DeadLetter, Requeue
from deadletters.requeue import InvalidRequeue, NotEnded, WouldWait, requeue
from events.intake import publish
from events.models import Event
from jobs.models import Job
from sagas.models import Saga
from subscriptions.models import Subscription
from tests.factories import SagaFactory, SubscriptionFactory
from tests.support.drive import until_terminal
from tools.demo.endpoint import HttpsEndpoint, Reply
from webhookhub.db import clock

from .helpers import dead_letter_before_its_delivery_ends

pytestmark = [pytest.mark.every_engine, pytest.mark.django_db]


@pytest.fixture
def operator() -> User:
    user = User.objects.create_user("olga")
    user.user_permissions.set(Permission.objects.filter(codename__endswith="requeue_deadletter"))
    return User.objects.get(pk=user.pk)


def dead_letter(**saga: object) -> DeadLetter:
    dead = SagaFactory.create(status="DeadLettered", attempt_count=3, final_error_code="http_500", **saga)
    create_dead_letters([NewDeadLetter(dead.id, dead.event_id, dead.subscription_id, "http_500", clock.now())])
    return DeadLetter.objects.get(saga=dead)


@pytest.mark.requirement("R1-5.5c", "R1-7.4a")
@pytest.mark.requirement("R2-1b", "R2-3.3a", "R2-3.3b", "R2-3.3d", "R2-3.4b")
def test_a_requeue_creates_a_saga_of_the_next_generation(operator: User):
    letter = dead_letter()
    before = clock.now()

    [result] = requeue([letter.id], by=operator, reason=" endpoint repaired ")

    new = Saga.objects.get(id=result.saga_id)
    assert (result.dead_letter_id, result.created, result.requested_by) == (letter.id, True, "olga")
    assert (new.event_id, new.subscription_id, new.generation) == (letter.event_id, letter.subscription_id, 1)
    assert (new.status, new.attempt_count, new.final_error_code) == ("Pending", 0, None)
    assert before <= new.next_attempt_at <= clock.now()
    assert not Job.objects.exists()
    request = Requeue.objects.get()
    assert (request.dead_letter_id, request.requested_by, request.reason) == (letter.id, "olga", "endpoint repaired")
    assert before <= request.requested_at <= clock.now()


@pytest.mark.requirement("R1-5.5c", "R1-7.4c")
@pytest.mark.requirement("R2-3.4a", "R2-3.4c", "R2-3.4d")
def test_existing_rows_do_not_change(operator: User):
    letter = dead_letter()

    def everything() -> list[object]:
        rows = [list(model._default_manager.values()) for model in (Event, Subscription, DeadLetter)]
        return [*rows, list(Saga.objects.filter(id=letter.saga_id).values())]

    before = everything()
    requeue([letter.id], by=operator, reason="again")

    assert everything() == before


def test_the_new_saga_has_the_current_retry_policy(operator: User, hub_settings):
    hub_settings(max_retry_limit=9, base_delay=timedelta(seconds=9))
    letter = dead_letter(max_retry_limit=3, base_delay=timedelta(seconds=1))
    own = dead_letter(subscription__max_retry_limit=2, subscription__base_delay=timedelta(seconds=5))
    listed = dead_letter(subscription__retry_delays=(5, 300))

    plain, overridden, by_list = requeue([letter.id, own.id, listed.id], by=operator, reason="again")

    policies = {saga.id: (saga.max_retry_limit, saga.base_delay, saga.retry_delays) for saga in Saga.objects.all()}
    assert policies[plain.saga_id] == (9, timedelta(seconds=9), None)
    assert policies[overridden.saga_id] == (2, timedelta(seconds=5), None)
    assert policies[by_list.saga_id] == (3, timedelta(seconds=5), (5, 300))
    assert policies[letter.saga_id] == (3, timedelta(seconds=1), None)


def test_a_second_request_returns_the_first_saga_and_requester(operator: User):
    letter = dead_letter()
    [first] = requeue([letter.id], by=operator, reason="again")
    other = User.objects.create_superuser("sam")

    [second] = requeue([letter.id], by=other, reason="me too")

    assert (second.saga_id, second.created, second.requested_by) == (first.saga_id, False, "olga")
    assert Saga.objects.count() == 2
    assert Requeue.objects.get().reason == "again"


@pytest.mark.requirement("R1-7.4b")
@pytest.mark.requirement("R2-3.4c")
def test_a_requeued_delivery_that_dies_again_can_be_requeued_again(operator: User, endpoint: HttpsEndpoint):
    endpoint.respond = lambda request: Reply(500)
    SubscriptionFactory.create(callback_url=endpoint.url(), max_retry_limit=1)
    published = publish("order.created", {"n": 1})
    until_terminal()
    requeue(list(DeadLetter.objects.values_list("id", flat=True)), by=operator, reason="1")
    until_terminal()
    endpoint.respond = lambda request: Reply(200)
    requeue(list(DeadLetter.objects.values_list("id", flat=True)), by=operator, reason="2")
    until_terminal()

    sagas = Saga.objects.order_by("generation").values_list("generation", "status", "attempt_count")
    assert list(sagas) == [(0, "DeadLettered", 1), (1, "DeadLettered", 1), (2, "Completed", 1)]
    assert {request.event_uid for request in endpoint.received} == {str(published.uid)}
    assert len({request.body for request in endpoint.received}) == 1
    assert DeadLetter.objects.count() == 2


@pytest.mark.requirement("R2-1b")
@pytest.mark.requirement("R4-8.1d")
def test_without_the_permission_nothing_is_written():
    letter = dead_letter()

    for user in (User.objects.create_user("eve", is_staff=True), AnonymousUser()):
        with pytest.raises(PermissionDenied):
            requeue([letter.id], by=user, reason="please")
    assert Saga.objects.count() == 1
    assert not Requeue.objects.exists()


def test_an_inactive_user_has_no_permission(operator: User):
    letter = dead_letter()
    User.objects.filter(pk=operator.pk).update(is_active=False)

    with pytest.raises(PermissionDenied):
        requeue([letter.id], by=User.objects.get(pk=operator.pk), reason="please")
    assert not Requeue.objects.exists()


def test_a_reason_is_required(operator: User):
    letter = dead_letter()

    with pytest.raises(InvalidRequeue, match="reason must be a text of 1 to 500 characters"):
        requeue([letter.id], by=operator, reason="   ")
    assert Saga.objects.count() == 1
    assert not Requeue.objects.exists()


@pytest.mark.parametrize("reason", ["a\u202eb", "\ud800"])
def test_a_reason_with_control_characters_is_refused(operator: User, reason: str):
    letter = dead_letter()

    with pytest.raises(InvalidRequeue, match="reason must not contain control characters"):
        requeue([letter.id], by=operator, reason=reason)
    assert not Requeue.objects.exists()


def test_a_reason_may_have_several_lines(operator: User):
    requeue([dead_letter().id], by=operator, reason="behoben, é 🦊\r\nticket 7\nagain　")

    assert Requeue.objects.get().reason == "behoben, é 🦊\nticket 7\nagain"


@pytest.mark.requirement("R2-3.3a")
def test_an_unknown_id_among_others_is_named_and_nothing_is_written(operator: User):
    letter = dead_letter()

    with pytest.raises(InvalidRequeue, match=f"there is no dead letter {letter.id + 1000}"):
        requeue([letter.id, letter.id + 1000], by=operator, reason="again")
    assert Saga.objects.count() == 1
    assert not Requeue.objects.exists()


def test_a_dead_letter_whose_delivery_has_not_ended_is_refused(operator: User):
    """The orchestrator has died between the dead letter and the delivery's last status."""
    ended, unended = dead_letter(), dead_letter_before_its_delivery_ends()

    with pytest.raises(
        NotEnded, match=f"delivery {unended.saga_id} of dead letter {unended.id} has not ended yet; wait"
    ):
        requeue([unended.id], by=operator, reason="again")
    assert not Requeue.objects.exists()
    assert not Saga.objects.filter(generation=1).exists()

    [result] = requeue([ended.id, unended.id], by=operator, reason="again")
    assert (result.dead_letter_id, result.created) == (ended.id, True)

    Saga.objects.filter(id=unended.saga_id).update(status="DeadLettered", attempt_count=3)
    assert len(requeue([ended.id, unended.id], by=operator, reason="again")) == 2


@pytest.mark.parametrize(
    ("state", "message"), [({"active": False}, "is paused"), ({"verified": False}, "is not verified")]
)
def test_a_requeue_that_would_wait_needs_confirmation(operator: User, state: dict[str, bool], message: str):
    letter = dead_letter()
    Subscription.objects.update(**state)

    with pytest.raises(
        WouldWait, match=f"subscription {letter.subscription_id} {message}: the new delivery would wait"
    ):
        requeue([letter.id], by=operator, reason="again")
    assert not Requeue.objects.exists()
    assert not Saga.objects.filter(generation=1).exists()

    [first] = requeue([letter.id], by=operator, reason="again", allow_waiting=True)
    [repeated] = requeue([letter.id], by=operator, reason="again")
    assert (first.created, repeated.created, repeated.saga_id) == (True, False, first.saga_id)


def test_deliveries_that_would_wait_are_counted(operator: User):
    letters = [dead_letter() for _ in range(4)]
    Subscription.objects.filter(id=letters[0].subscription_id).update(active=False)
    Subscription.objects.filter(id=letters[1].subscription_id).update(verified=False)

    with pytest.raises(WouldWait, match=r"^2 new deliveries would wait"):
        requeue([letter.id for letter in letters], by=operator, reason="again")
    assert not Requeue.objects.exists()


def test_an_id_given_twice_is_requeued_once(operator: User):
    letter = dead_letter()

    results = requeue([letter.id, letter.id], by=operator, reason="again")

    assert [result.dead_letter_id for result in results] == [letter.id]
    assert Saga.objects.count() == 2


def test_results_are_ordered_by_id(operator: User):
    letters = [dead_letter() for _ in range(5)]

    results = requeue([letter.id for letter in reversed(letters)], by=operator, reason="again")

    assert [result.dead_letter_id for result in results] == [letter.id for letter in letters]
    assert len({result.saga_id for result in results}) == 5
    assert all(result.created for result in results)


def test_an_empty_list_is_no_error(operator: User):
    assert requeue([], by=operator, reason="again") == []


@pytest.mark.requirement("R2-3.1f")
def test_a_dead_letter_has_the_whole_payload_and_is_created_once():
    letter = dead_letter(event__payload='{"n": [1, 2.5, "é"]}')
    saga = Saga.objects.get()

    create_dead_letters([NewDeadLetter(saga.id, saga.event_id, saga.subscription_id, "another", clock.now())])

    stored = DeadLetter.objects.get()
    assert (stored.id, stored.final_error_code) == (letter.id, "http_500")
    assert stored.payload_snapshot == Event.objects.get().payload
