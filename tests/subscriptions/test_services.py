"""Whoever edits a subscription writes what is theirs to write, and is told what was wrong and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import DatabaseError, connection

from api.schemas.subscriptions import SubscriptionChange, SubscriptionIn
from subscriptions import services
from subscriptions.models import Subscription
from tests.factories import SubscriptionFactory
from webhookhub.db import clock, vendors

URL = "https://127.0.0.1:8443/hook"
OTHERS = sorted({field.name for field in Subscription._meta.concrete_fields} - services.EDITABLE)


@pytest.mark.django_db
def test_what_the_hub_writes_cannot_be_edited():
    subscription = SubscriptionFactory.create(verified=False)
    before = Subscription.objects.values().get()

    for name in (*OTHERS, "nonsense"):
        given = {"verified": True, "verification_at": clock.now()} if name == "verified" else {name: before.get(name)}
        said = f"{name}: cannot be set here; what can be is active,"
        with pytest.raises(services.InvalidSubscription, match=said) as refused:
            services.change(subscription, {"description": "changed", **given})
        assert set(refused.value.errors) == set(given)
    assert Subscription.objects.values().get() == before


@pytest.mark.django_db
def test_what_the_hub_writes_cannot_be_given_to_a_new_one():
    for name in ("id", "secret", "verified", "verification_at"):
        with pytest.raises(services.InvalidSubscription, match=f"{name}: cannot be set here"):
            services.create({"event_type": "order.created", "callback_url": URL, name: None})

    assert not Subscription.objects.exists()


def test_what_the_api_takes_is_what_can_be_edited():
    assert set(SubscriptionChange.model_fields) == services.EDITABLE
    assert set(SubscriptionIn.model_fields) == services.CHOSEN_AT_FIRST


@pytest.fixture
def guarded(committed: None) -> Iterator[None]:
    """A table that refuses something else than the same address twice."""
    drop = "DROP TRIGGER IF EXISTS trg_sub_of_this_test"
    refusal = vendors.refusal_trigger(
        connection, "trg_sub_of_this_test", "subscriptions", "UPDATE", "NEW.description = 'no'", "not this one"
    )
    with connection.cursor() as cursor:
        cursor.execute(drop)
        cursor.execute(refusal)
        yield
        cursor.execute(drop)


def test_only_a_duplicate_is_called_one(guarded: None):
    subscription: Any = SubscriptionFactory()
    rival: Any = SubscriptionFactory()

    with pytest.raises(DatabaseError, match="not this one"):
        services.change(subscription, {"description": "no"})
    with pytest.raises(services.AlreadySubscribed, match=f"already as subscription {rival.pk}"):
        services.change(subscription, {"description": "yes", "callback_url": rival.callback_url})
