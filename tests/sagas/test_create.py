"""A saga keeps the retry policy it was born with."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import DatabaseError, transaction

from events.intake import publish
from events.routing import Router
from jobs.models import Job
from sagas import create
from sagas.create import NewSaga
from sagas.models import Saga
from sagas.policy import RetryPolicy
from sagas.redeliver import next_generation, send_again
from subscriptions import services
from tests.factories import EventFactory, SubscriptionFactory
from tests.support.drive import until, until_terminal
from tools.demo.endpoint import HttpsEndpoint, Reply
from webhookhub.db import clock

pytestmark = [pytest.mark.every_engine, pytest.mark.django_db]


@pytest.mark.requirement("R1-6.3a", "R1-6.3b")
def test_overrides_and_defaults_are_copied_when_a_saga_is_created(hub_settings):
    hub_settings(max_retry_limit=7, base_delay=timedelta(seconds=11))
    plain = SubscriptionFactory.create()
    own = SubscriptionFactory.create(max_retry_limit=2, base_delay=timedelta(milliseconds=1500))
    listed = SubscriptionFactory.create(retry_delays=(5, 300, 604800))
    publish("order.created", {})

    Router().route(10)

    assert {saga.subscription_id: policy(saga) for saga in Saga.objects.all()} == {
        plain.id: (7, timedelta(seconds=11), None),
        own.id: (2, timedelta(milliseconds=1500), None),
        listed.id: (4, timedelta(seconds=5), (5, 300, 604800)),
    }


def test_a_changed_setting_or_override_applies_to_new_sagas_only(hub_settings, endpoint: HttpsEndpoint):
    endpoint.respond = lambda request: Reply(500)
    hub_settings(max_retry_limit=2, base_delay=timedelta(milliseconds=1))
    subscription = SubscriptionFactory.create(callback_url=endpoint.url())
    publish("order.created", {"n": 1})
    Router().route(10)

    hub_settings(max_retry_limit=3)
    subscription.max_retry_limit = 1
    subscription.save(update_fields=["max_retry_limit"])
    publish("order.created", {"n": 2})
    until_terminal()

    before, after = Saga.objects.order_by("id")
    assert (before.status, before.attempt_count, before.max_retry_limit) == ("DeadLettered", 2, 2)
    assert (after.status, after.attempt_count, after.max_retry_limit) == ("DeadLettered", 1, 1)


def test_a_saga_follows_the_list_that_it_was_created_with(endpoint: HttpsEndpoint):
    endpoint.respond = lambda request: Reply(500)
    subscription = SubscriptionFactory.create(callback_url=endpoint.url(), retry_delays=(3600, 60))
    publish("order.created", {})
    Router().route(10)

    services.change(subscription, {"retry_delays": (1,)})
    [first, second] = [delay_after_attempt(number) for number in (1, 2)]
    Saga.objects.update(next_attempt_at=clock.now())
    until_terminal()

    assert first == pytest.approx(3600, rel=0.1)
    assert second == pytest.approx(60, rel=0.1)
    saga = Saga.objects.get()
    assert (saga.status, saga.attempt_count, policy(saga)) == ("DeadLettered", 3, (3, timedelta(hours=1), (3600, 60)))


def test_a_delivery_sent_again_gets_the_current_policy_of_its_subscription(endpoint: HttpsEndpoint):
    subscription = SubscriptionFactory.create(callback_url=endpoint.url(), retry_delays=(3600, 60))
    publish("order.created", {})
    until_terminal()
    services.change(subscription, {"retry_delays": (7, 8, 9)})

    first = Saga.objects.get()
    assert send_again(first, by="ada", reason="lost", token="t")
    assert not send_again(first, by="bob", reason="lost", token="u")

    new = next_generation(first) or 0
    assert policy(Saga.objects.get(id=new)) == (4, timedelta(seconds=7), (7, 8, 9))
    assert policy(Saga.objects.exclude(id=new).get()) == (3, timedelta(hours=1), (3600, 60))


def policy(saga: Saga) -> tuple[int, timedelta, tuple[int, ...] | None]:
    return saga.max_retry_limit, saga.base_delay, saga.retry_delays


def delay_after_attempt(number: int) -> float:
    """Makes the saga due, has it attempted, and returns the seconds until its next attempt."""
    Saga.objects.update(next_attempt_at=clock.now())
    until(lambda: Saga.objects.filter(status="PendingRetry", attempt_count=number).exists())
    finished_at = Job.objects.get(attempt_no=number).finished_at
    assert finished_at is not None
    return (Saga.objects.get().next_attempt_at - finished_at).total_seconds()


def test_the_database_refuses_to_change_the_policy_of_a_saga():
    _insert()
    changes: list[dict[str, Any]] = [
        {"max_retry_limit": 99},
        {"base_delay": timedelta(days=1)},
        {"retry_delays": (1,)},
        {"generation": 5},
    ]

    for change in changes:
        with pytest.raises(DatabaseError, match="keeps its event"), transaction.atomic():
            Saga.objects.update(**change)


@pytest.mark.requirement("R1-2.3a")
def test_creating_the_same_saga_again_changes_nothing():
    event, subscription = _insert(limit=3)

    create.create_sagas([NewSaga(event.id, subscription.id, 0, RetryPolicy(9, timedelta(hours=1)), "")], 10)

    saga = Saga.objects.get()
    assert (saga.max_retry_limit, saga.base_delay) == (3, timedelta(seconds=1))


@pytest.mark.requirement("R3-6b")
def test_more_sagas_than_one_batch_are_all_created():
    event = EventFactory.create()
    policy = RetryPolicy(3, timedelta(seconds=1))
    subscriptions = [SubscriptionFactory.create() for _ in range(7)]

    create.create_sagas([NewSaga(event.id, subscription.id, 0, policy, "") for subscription in subscriptions], 3)

    assert Saga.objects.count() == 7
    assert set(Saga.objects.values_list("status", "attempt_count", "generation")) == {("Pending", 0, 0)}


def _insert(limit: int = 3):
    event, subscription = EventFactory.create(), SubscriptionFactory.create()
    create.create_sagas([NewSaga(event.id, subscription.id, 0, RetryPolicy(limit, timedelta(seconds=1)), "")], 10)
    return event, subscription
