"""Subscriptions: normalised URLs, uniqueness, and the rules of the database."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.core.exceptions import ValidationError
from django.db import DatabaseError, IntegrityError, connection, transaction

from subscriptions.models import Subscription
from tests.factories import SubscriptionFactory
from webhookhub.db import clock
from webhookhub.egress.urls import UnacceptableURL

pytestmark = pytest.mark.django_db

URL = "https://127.0.0.1:8443/hook"


def verified(**fields: object) -> Subscription:
    created = SubscriptionFactory.create(
        callback_url=URL, verification_result="echoed", verification_at=clock.now(), **fields
    )
    return Subscription.objects.get(id=created.id)


def test_the_url_is_normalised():
    SubscriptionFactory.create(callback_url="HTTPS://BÜCHER.Example:443/ü")

    assert Subscription.objects.get().callback_url == "https://xn--bcher-kva.example/%C3%BC"


@pytest.mark.requirement("R3-2.3b")
@pytest.mark.parametrize("url", ["http://example.com/", "https://10.0.0.1/", "", "https://user@example.com/"])
def test_an_invalid_url_is_not_saved(url: str):
    subscription = Subscription(event_type="order.created", callback_url=url)

    with pytest.raises(ValidationError) as caught:
        subscription.full_clean()
    assert "callback_url" in caught.value.message_dict
    with pytest.raises(UnacceptableURL):
        subscription.save()
    assert not Subscription.objects.exists()


@pytest.mark.requirement("R3-2.2b")
@pytest.mark.parametrize("event_type", ["", "order created", "a" * 101, "é", "a\n"])
def test_an_invalid_event_type(event_type: str):
    with pytest.raises(ValidationError) as caught:
        Subscription(event_type=event_type, callback_url=URL).full_clean()
    assert "event_type" in caught.value.message_dict


@pytest.mark.parametrize(
    "bad",
    [
        {"max_retry_limit": 0},
        {"max_retry_limit": 1001},
        {"base_delay": timedelta(0)},
        {"base_delay": timedelta(days=2)},
        {"retry_delays": ()},
        {"retry_delays": (0,)},
        {"retry_delays": (5, 604801)},
        {"retry_delays": (1,) * 51},
        {"retry_delays": (1.5,)},
        {"retry_delays": (True,)},
        {"retry_delays": "5; 300"},
        {"retry_delays": (5,), "max_retry_limit": 3},
        {"retry_delays": (5,), "base_delay": timedelta(seconds=3)},
    ],
)
def test_overrides_out_of_bounds_are_invalid(bad):
    with pytest.raises(ValidationError) as caught:
        Subscription(event_type="a", callback_url=URL, **bad).full_clean()
    assert set(caught.value.message_dict) == set(bad)


@pytest.mark.parametrize("delays", [(1,), (5, 300, 1800), (604800,) * 50])
def test_a_list_of_delays_is_stored(delays: tuple[int, ...]):
    subscription = Subscription(event_type="a", callback_url=URL, retry_delays=list(delays))
    subscription.full_clean()
    subscription.save()

    assert Subscription.objects.get().retry_delays == delays


def test_the_database_refuses_two_schedules():
    for other in ({"max_retry_limit": 3}, {"base_delay": timedelta(seconds=3)}):
        subscription = Subscription(event_type="a", callback_url=URL, retry_delays=(5,), **other)
        with pytest.raises(DatabaseError, match="one_schedule"), transaction.atomic():
            subscription.save()


def test_the_same_url_in_another_spelling_is_a_duplicate():
    verified()
    other = Subscription(event_type="order.created", callback_url="HTTPS://127.0.0.1:08443/hook")

    with pytest.raises(ValidationError, match="subscribed to this event type already"):
        other.full_clean()
    with pytest.raises(IntegrityError), transaction.atomic():
        Subscription(event_type="order.created", callback_url="HTTPS://127.0.0.1:08443/hook").save()
    assert Subscription.objects.count() == 1


@pytest.mark.parametrize(
    "other",
    [
        {"event_type": "order.changed", "callback_url": URL},
        {"event_type": "Order.created", "callback_url": URL},
        {"event_type": "order.created", "callback_url": f"{URL}/"},
        {"event_type": "order.created", "callback_url": URL.replace("hook", "Hook")},
    ],
)
def test_another_event_type_or_url_is_no_duplicate(other: dict[str, str]):
    verified()

    Subscription(**other).full_clean()
    Subscription(**other).save()

    assert Subscription.objects.count() == 2


def test_a_stored_subscription_is_saved_by_named_columns_only():
    subscription = verified()
    subscription.custom_headers = subscription.description = "edited"

    with pytest.raises(TypeError, match="update_fields"):
        subscription.save()
    subscription.save(update_fields=["custom_headers"])

    stored = Subscription.objects.get()
    assert (stored.custom_headers, stored.description) == ("edited", "")


def test_a_new_subscription_never_overwrites_another():
    there = verified()

    with pytest.raises(IntegrityError), transaction.atomic():
        Subscription(id=there.pk, event_type="other", callback_url=f"{URL}/other").save()

    assert Subscription.objects.get().callback_url == URL


@pytest.mark.requirement("R3-2.2f")
def test_saving_changes_updated_at_and_not_created_at():
    subscription = verified()
    before = Subscription.objects.get()

    subscription.save(update_fields=["description"])

    after = Subscription.objects.get()
    assert after.created_at == before.created_at
    assert after.updated_at > before.updated_at


@pytest.mark.requirement("R3-2.3d")
def test_only_active_and_verified_subscriptions_are_routable():
    wanted = SubscriptionFactory.create()
    SubscriptionFactory.create(active=False)
    SubscriptionFactory.create(verified=False)

    assert list(Subscription.objects.routable()) == [wanted]


@pytest.mark.requirement("R3-2.3c")
def test_the_database_lets_only_a_verification_set_verified():
    subscription = SubscriptionFactory.create(callback_url=URL, verified=False)
    with pytest.raises(DatabaseError, match="Only a verification"), transaction.atomic():
        Subscription.objects.update(verified=True)
    with pytest.raises(DatabaseError, match="A verification has its time"), transaction.atomic():
        Subscription.objects.create(event_type="other", callback_url=URL, verified=True)
    subscription.refresh_from_db()
    assert not subscription.verified
    assert Subscription.objects.count() == 1


@pytest.mark.requirement("R3-2.2d", "R3-2.2e")
@pytest.mark.parametrize("column", ["verified", "active"])
@pytest.mark.parametrize("value", [2, -1])
def test_the_database_refuses_a_third_value_of_a_flag(column: str, value: int):
    SubscriptionFactory.create(callback_url=URL, verified=False)
    copied = [
        field.column for field in Subscription._meta.concrete_fields if not (field.primary_key or field.generated)
    ]
    values = {name: name for name in copied} | {"event_type": "'other'", column: str(value)}
    statements = [
        f"UPDATE subscriptions SET {column} = {value}",
        f"INSERT INTO subscriptions ({', '.join(copied)}) SELECT {', '.join(values.values())} FROM subscriptions",
    ]
    before = list(Subscription.objects.values())
    for statement in statements:
        with (
            pytest.raises(DatabaseError, match=f"are 0 or 1, nothing else: {statement[:6]} refused"),
            transaction.atomic(),
            connection.cursor() as cursor,
        ):
            cursor.execute(statement)
    assert list(Subscription.objects.values()) == before


@pytest.mark.requirement("R3-2.2e")
def test_the_database_clears_verified_when_the_url_changes():
    SubscriptionFactory.create(callback_url=URL, verified=True)
    Subscription.objects.update(callback_url=f"{URL}/other", verified=True)
    assert not Subscription.objects.get().verified


@pytest.mark.every_engine
@pytest.mark.parametrize("url", ["", "http://127.0.0.1/", "HTTPS://127.0.0.1/", " https://127.0.0.1/", "https:/x"])
def test_the_database_refuses_a_url_that_does_not_begin_with_https(url: str):
    subscription = SubscriptionFactory.create(callback_url=URL)

    with pytest.raises(IntegrityError, match="callback_https"), transaction.atomic():
        Subscription.objects.update(callback_url=url)
    with pytest.raises(IntegrityError, match="callback_https"), transaction.atomic():
        Subscription.objects.bulk_create([Subscription(event_type="other", callback_url=url)])

    assert Subscription.objects.get() == subscription
    assert Subscription.objects.get().callback_url == URL


def test_the_database_deletes_no_subscription():
    SubscriptionFactory.create(callback_url=URL)
    with pytest.raises(DatabaseError, match="never deleted"), transaction.atomic():
        Subscription.objects.all()._raw_delete("default")
    assert Subscription.objects.count() == 1
