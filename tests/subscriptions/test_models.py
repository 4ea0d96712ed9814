"""A subscription's address is stored in one form, once per event type, and verified for itself alone."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.core.exceptions import ValidationError
from django.db import DatabaseError, IntegrityError, connection, transaction

from subscriptions import secrets
from subscriptions.models import WRITTEN_BY_NAME_ONLY, Subscription
from tests.factories import SubscriptionFactory
from webhookhub.db import clock
from webhookhub.egress.urls import UnacceptableURL

pytestmark = pytest.mark.django_db

URL = "https://127.0.0.1:8443/hook"


def verified(**fields: object) -> Subscription:
    made = SubscriptionFactory.create(
        callback_url=URL, verification_result="echoed", verification_at=clock.now(), **fields
    )
    return Subscription.objects.get(id=made.id)


def test_the_address_is_stored_in_its_normal_form():
    SubscriptionFactory.create(callback_url="HTTPS://BÜCHER.Example:443/ü")

    assert Subscription.objects.get().callback_url == "https://xn--bcher-kva.example/%C3%BC"


@pytest.mark.parametrize("url", ["http://example.com/", "https://10.0.0.1/", "", "https://user@example.com/"])
def test_a_bad_address_is_neither_valid_nor_saved(url: str):
    subscription = Subscription(event_type="order.created", callback_url=url)

    with pytest.raises(ValidationError) as caught:
        subscription.full_clean()
    assert "callback_url" in caught.value.message_dict
    with pytest.raises(UnacceptableURL):
        subscription.save()
    assert not Subscription.objects.exists()


@pytest.mark.parametrize("event_type", ["", "order created", "a" * 101, "é", "a\n"])
def test_a_bad_event_type_is_not_valid(event_type: str):
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
    ],
)
def test_overrides_out_of_bounds_are_not_valid(bad):
    with pytest.raises(ValidationError) as caught:
        Subscription(event_type="a", callback_url=URL, **bad).full_clean()
    assert set(caught.value.message_dict) == set(bad)


def test_the_same_address_in_another_spelling_is_found_to_be_there_already():
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
def test_another_type_or_address_is_another_subscription(other: dict[str, str]):
    verified()

    Subscription(**other).full_clean()
    Subscription(**other).save()

    assert Subscription.objects.count() == 2


@pytest.mark.parametrize("update_fields", [None, ["callback_url"], ["callback_url", "verified"]])
def test_another_address_has_promised_nothing_yet(update_fields):
    subscription = verified()
    subscription.callback_url = f"{URL}/other"

    subscription.save(update_fields=update_fields)

    stored = Subscription.objects.get()
    assert stored.callback_url == f"{URL}/other"
    assert (stored.verified, stored.verification_result, stored.verification_at) == (False, "", None)


def test_an_address_changed_right_after_it_was_made_has_promised_nothing_yet():
    subscription = SubscriptionFactory.create(callback_url=URL, verified=True)
    subscription.callback_url = f"{URL}/other"

    subscription.save()

    assert not Subscription.objects.get().verified


@pytest.mark.parametrize(
    "change",
    [
        {"active": False},
        {"event_type": "order.changed"},
        {"callback_url": URL},
        {"callback_url": "https://127.0.0.1:8443/hook".replace("https", "HTTPS")},
    ],
)
def test_verification_is_kept_when_the_address_stays_the_same(change):
    subscription = verified()
    for name, value in change.items():
        setattr(subscription, name, value)

    subscription.save()

    stored = Subscription.objects.get()
    assert (stored.verified, stored.verification_result) == (True, "echoed")
    assert stored.verification_at is not None


def test_an_address_changed_in_memory_only_takes_nothing_away():
    subscription = verified()
    subscription.callback_url = f"{URL}/other"
    subscription.description = "new"

    subscription.save(update_fields=["description"])

    stored = Subscription.objects.get()
    assert (stored.callback_url, stored.verified, stored.description) == (URL, True, "new")

    subscription.save()
    assert not Subscription.objects.get().verified


def test_a_stale_instance_does_not_bring_a_verification_back():
    stale = verified()
    other = Subscription.objects.get()
    for url in (f"{URL}/other", URL):
        other.callback_url = url
        other.save()
    stale.description = "new"

    stale.save()

    stored = Subscription.objects.get()
    assert (stored.verified, stored.verification_result, stored.verification_at) == (False, "", None)
    assert stored.description == "new"


def test_a_stale_instance_undoes_neither_a_verification_nor_a_rotation_nor_an_edit_of_headers():
    SubscriptionFactory.create(callback_url=URL, verified=False)
    stale = Subscription.objects.get()
    secrets.rotate(Subscription.objects.get(), "v1a")
    Subscription.objects.update(
        verified=True, verification_result="echoed", verification_at=clock.now(), custom_headers="edited"
    )
    before = Subscription.objects.values(*WRITTEN_BY_NAME_ONLY).get()

    stale.active = False
    stale.save()
    stale.save(force_update=True)

    assert Subscription.objects.values(*WRITTEN_BY_NAME_ONLY).get() == before
    assert not Subscription.objects.get().active


def test_what_a_save_names_is_written():
    subscription = verified()
    subscription.custom_headers = subscription.description = "edited"

    subscription.save(update_fields=["custom_headers"])

    stored = Subscription.objects.get()
    assert (stored.custom_headers, stored.description) == ("edited", "")


def test_an_instance_that_was_read_again_knows_the_address_it_has_read():
    stale = verified()
    Subscription.objects.update(callback_url=f"{URL}/other")
    Subscription.objects.update(verified=True, verification_at=clock.now())
    stale.refresh_from_db()

    stale.save()

    assert Subscription.objects.get().verified


def test_a_part_of_an_instance_can_be_saved():
    verified(description="old")
    part = Subscription.objects.only("description").get()
    part.description = "new"

    part.save()

    stored = Subscription.objects.get()
    assert (stored.description, stored.verified) == ("new", True)


def test_a_new_one_never_takes_the_place_of_another():
    there = verified()

    with pytest.raises(IntegrityError), transaction.atomic():
        Subscription(id=there.pk, event_type="other", callback_url=f"{URL}/other").save()

    assert Subscription.objects.get().callback_url == URL


def test_saving_moves_updated_at_and_not_created_at():
    subscription = verified()
    before = Subscription.objects.get()

    subscription.save()

    after = Subscription.objects.get()
    assert after.created_at == before.created_at
    assert after.updated_at > before.updated_at


def test_only_active_and_verified_subscriptions_are_routable():
    wanted = SubscriptionFactory.create()
    SubscriptionFactory.create(active=False)
    SubscriptionFactory.create(verified=False)

    assert list(Subscription.objects.routable()) == [wanted]


def test_the_database_lets_nothing_but_a_verification_set_verified():
    subscription = SubscriptionFactory.create(callback_url=URL, verified=False)
    with pytest.raises(DatabaseError, match="Only a verification"), transaction.atomic():
        Subscription.objects.update(verified=True)
    with pytest.raises(DatabaseError, match="A new subscription is not verified"), transaction.atomic():
        Subscription.objects.create(event_type="other", callback_url=URL, verified=True)
    subscription.refresh_from_db()
    assert not subscription.verified
    assert Subscription.objects.count() == 1


@pytest.mark.parametrize("column", ["verified", "active"])
@pytest.mark.parametrize("value", [2, -1])
def test_the_database_knows_no_third_value_of_a_flag(column: str, value: int):
    SubscriptionFactory.create(callback_url=URL, verified=False)
    copied = [field.column for field in Subscription._meta.concrete_fields if not field.primary_key]
    given = {name: name for name in copied} | {"event_type": "'other'", column: str(value)}
    statements = [
        f"UPDATE subscriptions SET {column} = {value}",
        f"INSERT INTO subscriptions ({', '.join(copied)}) SELECT {', '.join(given.values())} FROM subscriptions",
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


def test_the_database_takes_verified_back_with_the_address_whoever_changes_it():
    SubscriptionFactory.create(callback_url=URL, verified=True)
    Subscription.objects.update(callback_url=f"{URL}/other", verified=True)
    assert not Subscription.objects.get().verified


def test_the_database_deletes_no_subscription():
    SubscriptionFactory.create(callback_url=URL)
    with pytest.raises(DatabaseError, match="never deleted"), transaction.atomic():
        Subscription.objects.all()._raw_delete("default")
    assert Subscription.objects.count() == 1
