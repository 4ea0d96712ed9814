"""A process with wrong encryption keys stores nothing that other processes cannot decrypt."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from subscriptions import secrets, services
from subscriptions.models import Subscription
from subscriptions.sample_delivery import send_test
from tests.factories import SubscriptionFactory
from tests.subscriptions.test_signing import verifies
from tests.support import rows
from tools.demo.endpoint import HttpsEndpoint
from webhookhub import crypto
from webhookhub.db.requirements import UnsuitableDatabase

pytestmark = pytest.mark.django_db

NEW = {"event_type": "order.paid", "callback_url": "https://127.0.0.1:8443/hook"}
NO_KEY_OPENS = "none of WEBHOOKHUB_ENCRYPTION_KEYS opens the"
PAGE = "subscriptions_subscription"


@pytest.fixture
def wrong_keys(hub_settings: Callable[..., None]) -> Callable[[], None]:
    return lambda: hub_settings(encryption_keys=(crypto.new_key(),))


@pytest.fixture
def superuser(client: Client, admin_user: object) -> Client:
    client.force_login(admin_user)  # type: ignore[arg-type]
    return client


@pytest.mark.parametrize("force", [False, True])
def test_an_undecryptable_secret_is_not_rotated(wrong_keys: Callable[[], None], force: bool):
    subscription = SubscriptionFactory.create()
    before = Subscription.objects.values().get()
    wrong_keys()

    with pytest.raises(secrets.RotationRefused, match=f"{NO_KEY_OPENS} current secret .* or add the key"):
        secrets.rotate(subscription, force=force)
    with pytest.raises(CommandError, match=f"Nothing was changed: {NO_KEY_OPENS} current secret .*--key-lost"):
        call_command("rotate_secret", subscription.pk, *(["--force"] if force else []))

    assert Subscription.objects.values().get() == before


def test_no_subscription_is_created_under_wrong_keys(wrong_keys: Callable[[], None], superuser: Client):
    SubscriptionFactory.create()
    wrong_keys()

    with pytest.raises(UnsuitableDatabase, match=f"{NO_KEY_OPENS} stored secrets; add the key"):
        Subscription.objects.create(**NEW)
    with pytest.raises(UnsuitableDatabase, match=NO_KEY_OPENS):
        services.create(NEW)
    page = superuser.post(rows.add(PAGE), {**NEW, "active": "on", "signing_scheme": "v1"})

    assert f"Nothing was stored: {NO_KEY_OPENS} stored secrets" in page.content.decode()
    assert Subscription.objects.count() == 1


def test_no_headers_are_stored_under_wrong_keys(wrong_keys: Callable[[], None], superuser: Client):
    subscription = SubscriptionFactory.create(custom_headers=crypto.encrypt("X-A: 1"))
    before = Subscription.objects.values().get()
    form = {"event_type": subscription.event_type, "callback_url": subscription.callback_url, "active": "on"}
    wrong_keys()

    with pytest.raises(UnsuitableDatabase, match=NO_KEY_OPENS):
        services.change(subscription, {"headers": {"X-A": "2"}})
    form |= rows.seen(superuser, subscription.pk)
    page = superuser.post(rows.change(PAGE, subscription.pk), {**form, "headers": "X-A: 2"})

    assert f"Nothing was stored: {NO_KEY_OPENS} stored secrets" in page.content.decode()
    assert Subscription.objects.values().get() == before


def test_unencrypted_columns_can_be_changed_under_wrong_keys(wrong_keys: Callable[[], None]):
    subscription = SubscriptionFactory.create(custom_headers=crypto.encrypt("X-A: 1"))
    wrong_keys()

    services.change(subscription, {"active": False})
    services.change(subscription, {"headers": {}})

    stored = Subscription.objects.get()
    assert (stored.active, stored.custom_headers) == (False, "")


def test_a_secret_whose_key_is_lost_can_be_rotated(wrong_keys: Callable[[], None], endpoint: HttpsEndpoint):
    subscription = SubscriptionFactory.create(callback_url=endpoint.url())
    secrets.rotate(subscription)
    wrong_keys()
    output = io.StringIO()

    call_command("rotate_secret", subscription.pk, "--key-lost", stdout=output)

    shown, about = output.getvalue().splitlines()
    assert about == "The previous secret no longer signs."
    send_test(Subscription.objects.get())
    assert verifies(shown, endpoint.received[0])
    Subscription.objects.create(**NEW)  # the keys now open a stored secret


def test_key_lost_keeps_the_overlap_of_a_readable_secret(endpoint: HttpsEndpoint):
    subscription = SubscriptionFactory.create(callback_url=endpoint.url())
    first = secrets.reveal(subscription)

    second = secrets.rotate(subscription, key_lost=True)
    with pytest.raises(secrets.OverlapRunning):
        secrets.rotate(subscription, key_lost=True)

    send_test(subscription)
    assert [verifies(secret, endpoint.received[0]) for secret in (first, second)] == [True, True]
