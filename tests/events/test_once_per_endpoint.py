"""An event is delivered once to an endpoint, however many of its subscriptions match."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import DatabaseError, transaction

from deadletters.requeue import requeue_recorded
from events.backfill import backfill
from events.filter_preview import preview
from events.intake import publish
from events.routing import Router
from sagas.create import NewSaga, insert_sagas
from sagas.models import Saga
from sagas.policy import RetryPolicy
from subscriptions import filters
from subscriptions.models import Subscription
from tests.factories import EventFactory, SagaFactory, SubscriptionFactory
from webhookhub.db import clock

URL = "https://127.0.0.1:8443/hook"
POLICY = RetryPolicy(3, timedelta(seconds=1))
PATTERNS = ("order.created", "order.*", "*")
pytestmark = [pytest.mark.django_db, pytest.mark.every_engine]


def subscribe(*types: str, **values: object) -> list[Subscription]:
    return [SubscriptionFactory.create(event_type=name, callback_url=URL, **values) for name in types]


def delivered() -> list[tuple[int, int | None]]:
    return list(Saga.objects.order_by("id").values_list("subscription_id", "endpoint_id"))


def test_overlapping_patterns_deliver_an_event_once():
    first, *_ = subscribe(*PATTERNS)
    publish("order.created", {})
    Router().route(10)
    assert delivered() == [(first.pk, first.endpoint_id)]


def test_each_endpoint_gets_it():
    first, *_ = subscribe(*PATTERNS)
    other = SubscriptionFactory.create(event_type="*")
    publish("order.created", {})
    Router().route(10)
    assert delivered() == [(first.pk, first.endpoint_id), (other.pk, other.endpoint_id)]


def test_a_filter_leaves_it_to_the_next_subscription():
    label_filter = filters.parse([{"label": "region", "equals": "eu"}])
    subscribe("order.created", label_filter=label_filter)
    [second] = subscribe("order.*")
    publish("order.created", {}, labels={"region": "us"})
    Router().route(10)
    assert delivered() == [(second.pk, second.endpoint_id)]


@pytest.mark.parametrize("alone", [True, False], ids=["alone", "among others"])
def test_routing_again_after_the_first_subscription_was_deleted_changes_nothing(alone: bool):
    """As after a crash: the event is routed a second time, and another subscription is the first one now."""
    _, second, _ = subscribe(*PATTERNS)
    event = publish("order.created", {})
    Router().route(10)
    before = delivered()
    new = [NewSaga(event.id, second.pk, 0, POLICY, "", second.endpoint_id)]
    if not alone:
        new.append(NewSaga(EventFactory.create().pk, second.pk, 0, POLICY, "", second.endpoint_id))
    assert len(insert_sagas(new, 10)) == len(new) - 1
    assert delivered()[: len(before)] == before


def test_an_event_from_before_endpoints_is_not_delivered_again():
    first, _, _ = subscribe(*PATTERNS)
    event = EventFactory.create()
    SagaFactory.create(event=event, subscription=first, endpoint_id=None)
    assert insert_sagas([NewSaga(event.pk, first.pk, 0, POLICY, "", first.endpoint_id)], 10) == []


def test_backfill_of_another_subscription_adds_nothing():
    first, second, _ = subscribe(*PATTERNS)
    publish("order.created", {})
    Router().route(10)
    publish("order.paid", {})
    result = backfill(second.pk, clock.now() - timedelta(hours=1))
    assert (result.examined, result.created) == (2, 1)
    assert delivered() == [(first.pk, first.endpoint_id), (second.pk, second.endpoint_id)]


@pytest.mark.parametrize(("pattern", "count"), [("*", 4), ("order.*", 2), ("order.created", 1), ("Order.*", 1)])
def test_a_preview_examines_what_the_pattern_matches(pattern: str, count: int):
    for name in ("order.created", "order.paid", "Order.created", "order"):
        EventFactory.create(event_type=name)
    assert preview(pattern, None).examined == count


def test_a_requeue_keeps_the_endpoint():
    saga = SagaFactory.create(status="DeadLettered")
    requeue_recorded(saga.dead_letters.get().pk, requested_by="ada", reason="r", token="t")
    new = Saga.objects.get(generation=1)
    assert new.endpoint_id == saga.endpoint_id is not None


def test_the_database_refuses_another_endpoint():
    [subscription] = subscribe("order.created")
    other = SubscriptionFactory.create()
    new = NewSaga(EventFactory.create().pk, subscription.pk, 0, POLICY, "", other.endpoint_id)
    with pytest.raises(DatabaseError, match="endpoint"), transaction.atomic():
        insert_sagas([new], 10)
    saga = SagaFactory.create()
    with pytest.raises(DatabaseError, match="keeps its event"), transaction.atomic():
        Saga.objects.filter(pk=saga.pk).update(endpoint=other.endpoint_id)
