"""Endpoints as rows: subscriptions share one, and its settings are the same in all of them, after any write."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction

from subscriptions import health, services
from subscriptions.endpoint_models import SETTINGS, Endpoint
from subscriptions.models import EndpointHealth, Subscription, endpoint_id
from tests.factories import CustomerFactory, SubscriptionFactory
from webhookhub.db import clock

pytestmark = [pytest.mark.django_db, pytest.mark.every_engine]
URL = "https://127.0.0.1:8443/hook"
TYPES = ("order.created", "order.paid")


def subscribe(*types: str, **values: Any) -> list[Subscription]:
    return [services.create({"event_type": name, "callback_url": URL, **values}) for name in types]


def settings(pk: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Of a subscription, and of its endpoint."""
    subscription = Subscription.objects.select_related("endpoint").get(pk=pk)
    assert subscription.endpoint is not None
    return tuple({name: getattr(row, name) for name in SETTINGS} for row in (subscription, subscription.endpoint))  # type: ignore[return-value]


def are_equal(*pks: int) -> bool:
    return all(own == shared for own, shared in map(settings, pks))


def test_subscriptions_of_one_url_share_an_endpoint():
    first, second = subscribe(*TYPES)
    assert first.endpoint_id == second.endpoint_id
    assert first.secret == second.secret
    assert are_equal(first.pk, second.pk)


@pytest.mark.parametrize(
    "other", [{"rate_limit": 5}, {"description": "another"}, {"headers": {"X-Key": "1"}}, {"max_retry_limit": 2}]
)
def test_other_settings_are_another_endpoint(other: dict[str, Any]):
    [first] = subscribe("order.created")
    [second] = subscribe("order.paid", **other)
    [third] = subscribe("order.shipped", **other)
    assert first.endpoint_id != second.endpoint_id == third.endpoint_id


def test_the_same_url_of_another_customer_is_another_endpoint():
    CustomerFactory.create(customer_key="acme")
    [own] = subscribe("order.created")
    [other] = subscribe("order.created", customer_key="acme")
    assert own.endpoint_id != other.endpoint_id


def test_a_change_of_the_endpoint_changes_all_its_subscriptions():
    subscriptions = subscribe(*TYPES)
    Endpoint.objects.update(verified=True, verification_at=clock.now(), active=False, rate_limit=7)
    for subscription in subscriptions:
        subscription.refresh_from_db()
        assert (subscription.verified, subscription.active, subscription.rate_limit) == (True, False, 7)
        assert are_equal(subscription.pk)


def test_a_change_of_the_only_subscription_changes_the_endpoint():
    [subscription] = subscribe("order.created")
    Subscription.objects.update(active=False, rate_limit=3)
    assert Endpoint.objects.get().rate_limit == 3
    assert are_equal(subscription.pk)
    Subscription.objects.update(callback_url=f"{URL}/2")
    assert are_equal(subscription.pk)


@pytest.mark.parametrize("values", [{"active": False}, {"callback_url": f"{URL}/2"}, {"rate_limit": 3}])
def test_a_change_of_one_subscription_leaves_the_others_alone(values: dict[str, Any]):
    first, second = subscribe(*TYPES)
    Endpoint.objects.update(verified=True, verification_at=clock.now())
    before = Subscription.objects.filter(pk=second.pk).values().get()
    first.refresh_from_db()
    services.change(first, values)
    assert first.endpoint_id != second.endpoint_id
    assert Subscription.objects.filter(pk=second.pk).values().get() == before
    assert are_equal(first.pk, second.pk)
    assert first.verified is ("callback_url" not in values)


def insert(**values: Any) -> int:
    """A row as a program inserts it that knows no endpoints."""
    row = SubscriptionFactory.build(verified=False, **values)
    columns = [
        field
        for field in Subscription._meta.concrete_fields
        if not (field.primary_key or field.generated) and field.name not in ("endpoint", "created_at", "updated_at")
    ]
    prepared = [field.get_db_prep_save(getattr(row, field.attname), connection) for field in columns]
    names = ", ".join(field.column for field in columns)
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO subscriptions ({names}) VALUES ({', '.join(['%s'] * len(columns))})",
            prepared,
        )
        return int(cursor.lastrowid)


def test_a_subscription_of_a_program_that_knows_no_endpoints_gets_its_own():
    pk = insert(rate_limit=3)
    other = insert(event_type="order.paid")
    assert are_equal(pk, other)
    assert Endpoint.objects.count() == 2
    assert Subscription.objects.get(pk=pk).pk == pk


def test_the_database_refuses_a_subscription_of_a_foreign_endpoint():
    CustomerFactory.create(customer_key="acme")
    theirs = SubscriptionFactory.create(customer_key="acme", callback_url=URL)
    own = SubscriptionFactory.create(callback_url=URL)
    with pytest.raises(DatabaseError, match="settings of its endpoint"), transaction.atomic():
        Subscription.objects.filter(pk=own.pk).update(endpoint=theirs.endpoint_id)
    foreign = SubscriptionFactory.build(callback_url=URL, event_type="order.paid", verified=False)
    foreign.endpoint_id = theirs.endpoint_id
    with pytest.raises(DatabaseError, match="settings of its endpoint"), transaction.atomic():
        foreign.save()


def test_an_endpoint_that_is_disabled_disables_its_subscriptions_only():
    first, second = (SubscriptionFactory.create(callback_url=URL, event_type=name) for name in TYPES)
    other = SubscriptionFactory.create(callback_url=URL, customer_key="acme")
    health.disable_gone(endpoint_id(first))
    rows = {row.pk: row.disabled_at for row in Subscription.objects.all()}
    assert None not in (rows[first.pk], rows[second.pk])
    assert rows[other.pk] is None
    assert are_equal(first.pk, second.pk, other.pk)


def test_the_database_clears_verified_when_the_url_of_an_endpoint_changes():
    alone = Endpoint.objects.create(callback_url=URL, verified=True, verification_at=clock.now())
    subscription = SubscriptionFactory.create(callback_url=f"{URL}/1")
    for pk in (alone.pk, endpoint_id(subscription)):
        endpoint = Endpoint.objects.filter(pk=pk)
        assert endpoint.get().verified
        endpoint.update(callback_url=f"{URL}/2")
        assert not endpoint.get().verified
    assert are_equal(subscription.pk)


def test_another_url_ends_the_trouble_of_the_endpoint():
    [subscription] = subscribe("order.created")
    health.disable_gone(endpoint_id(subscription))
    subscription.refresh_from_db()
    services.change(subscription, {"callback_url": f"{URL}/2"})
    row = EndpointHealth.objects.get()
    assert (row.disabled_at, row.recovered_by) == (None, "new_url")
    assert are_equal(subscription.pk)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE endpoints SET customer_key = 'other'",
        "UPDATE endpoints SET verified = 1",
        "UPDATE endpoints SET deleted_at = '2026-01-01 00:00:00'",
        "UPDATE endpoints SET vouched_by = 'ada'",
        "DELETE FROM endpoints",
    ],
)
def test_the_database_refuses(statement: str):
    subscribe("order.created")
    with pytest.raises(DatabaseError, match="refused"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)


def test_a_subscription_that_leaves_a_disabled_endpoint_is_enabled():
    first, second = subscribe(*TYPES)
    health.disable_gone(endpoint_id(first))
    first.refresh_from_db()
    services.change(first, {"rate_limit": 3})
    first.refresh_from_db()
    second.refresh_from_db()
    assert (first.disabled_at, second.disabled_at is not None) == (None, True)
    assert are_equal(first.pk, second.pk)
