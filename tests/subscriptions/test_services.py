"""Create and change subscriptions through services."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import DatabaseError, connection

from api.schemas.subscriptions import SubscriptionChange, SubscriptionIn
from subscriptions import secrets, services
from subscriptions.models import Subscription
from tests.factories import SubscriptionFactory
from webhookhub.db import clock
from webhookhub.db.triggers import Refusal, Rule

URL = "https://127.0.0.1:8443/hook"
OTHERS = sorted({field.name for field in Subscription._meta.concrete_fields} - services.EDITABLE)


@pytest.mark.requirement("R3-2.3c")
@pytest.mark.django_db
def test_other_columns_cannot_be_changed():
    subscription = SubscriptionFactory.create(verified=False)
    before = Subscription.objects.values().get()

    for name in (*OTHERS, "nonsense"):
        values = {"verified": True, "verification_at": clock.now()} if name == "verified" else {name: before.get(name)}
        message = f"{name}: cannot be set here; what can be set is active,"
        with pytest.raises(services.InvalidSubscription, match=message) as refused:
            services.change(subscription, {"description": "changed", **values})
        assert set(refused.value.errors) == set(values)
    assert Subscription.objects.values().get() == before


@pytest.mark.django_db
def test_other_columns_cannot_be_set_on_create():
    for name in ("id", "previous_secret", "verified", "verification_at"):
        with pytest.raises(services.InvalidSubscription, match=f"{name}: cannot be set here"):
            services.create({"event_type": "order.created", "callback_url": URL, name: None})

    assert not Subscription.objects.exists()


def test_the_api_accepts_exactly_the_editable_fields():
    assert set(SubscriptionChange.model_fields) == services.EDITABLE
    assert set(SubscriptionIn.model_fields) == services.SET_ON_CREATE - {"customer_key"} | {"customer", "secret"}


def verified() -> Subscription:
    row: Subscription = SubscriptionFactory.create(
        callback_url=URL, verification_result="http_204", verification_at=clock.now()
    )
    return row


@pytest.mark.django_db
def test_a_changed_url_is_not_verified():
    services.change(verified(), {"callback_url": f"{URL}/other"})

    stored = Subscription.objects.get()
    assert stored.callback_url == f"{URL}/other"
    assert (stored.verified, stored.verification_result, stored.verification_at) == (False, "", None)


@pytest.mark.django_db
@pytest.mark.parametrize(
    "values",
    [
        {"active": False},
        {"event_type": "order.changed"},
        {"callback_url": URL},
        {"callback_url": URL.replace("https", "HTTPS")},
    ],
)
def test_verification_is_kept_when_the_url_stays_the_same(values: dict[str, Any]):
    services.change(verified(), values)

    stored = Subscription.objects.get()
    assert (stored.verified, stored.verification_result) == (True, "http_204")
    assert stored.verification_at is not None


@pytest.mark.django_db
def test_a_stale_instance_undoes_no_verification_rotation_or_edit():
    SubscriptionFactory.create(callback_url=URL, verified=False)
    stale = Subscription.objects.get()
    secrets.rotate(Subscription.objects.get(), "v1a")
    Subscription.objects.update(
        verified=True, verification_result="http_204", verification_at=clock.now(), custom_headers="edited"
    )
    before: dict[str, Any] = dict(Subscription.objects.values().get())

    services.change(stale, {"active": False})

    after: dict[str, Any] = dict(Subscription.objects.values().get())
    assert {name for name in after if after[name] != before[name]} == {"active", "updated_at"}


@pytest.mark.django_db
def test_a_stale_instance_does_not_bring_a_verification_back():
    stale = verified()
    for url in (f"{URL}/other", URL):
        services.change(Subscription.objects.get(), {"callback_url": url})

    services.change(stale, {"description": "new"})

    stored = Subscription.objects.get()
    assert (stored.verified, stored.verification_result, stored.verification_at) == (False, "", None)
    assert stored.description == "new"


@pytest.fixture
def guarded(committed: None) -> Iterator[None]:
    """A trigger that refuses an update for another reason than a duplicate."""
    drop = "DROP TRIGGER IF EXISTS trg_sub_of_this_test"
    rule = Rule("test", "not this one", when="NEW.description = 'no'")
    refusal = Refusal("trg_sub_of_this_test", "subscriptions", "UPDATE", [rule]).create_sql(connection)
    with connection.cursor() as cursor:
        cursor.execute(drop)
        cursor.execute(refusal)
        yield
        cursor.execute(drop)


def test_only_a_duplicate_is_reported_as_a_duplicate(guarded: None):
    subscription: Any = SubscriptionFactory()
    rival: Any = SubscriptionFactory()

    with pytest.raises(DatabaseError, match="not this one"):
        services.change(subscription, {"description": "no"})
    with pytest.raises(services.AlreadySubscribed, match=f"already as subscription {rival.pk}"):
        services.change(subscription, {"description": "yes", "callback_url": rival.callback_url})
