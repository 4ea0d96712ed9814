"""A previous secret signs until its overlap ends."""

from __future__ import annotations

import io
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command

from subscriptions import secrets
from subscriptions.models import SAMPLE, Subscription
from subscriptions.sample_delivery import send_test
from tests.factories import SubscriptionFactory
from tests.subscriptions.test_signing import verifies
from tools.demo.endpoint import HttpsEndpoint
from webhookhub import crypto
from webhookhub.conf import hub
from webhookhub.db import clock
from webhookhub.db.requirements import UnsuitableDatabase

pytestmark = pytest.mark.django_db


def test_a_second_rotation_is_refused_during_the_overlap(endpoint: HttpsEndpoint):
    subscription = SubscriptionFactory.create(callback_url=endpoint.url())
    first = secrets.reveal(subscription)
    secrets.rotate(subscription)
    before = Subscription.objects.values().get()
    until = before["previous_secret_until"]

    with pytest.raises(secrets.OverlapRunning, match=f"until {until:%Y-%m-%d %H:%M:%S} UTC"):
        secrets.rotate(subscription)
    with pytest.raises(CommandError, match=f"until {until:%Y-%m-%d %H:%M:%S} UTC.*--force"):
        call_command("rotate_secret", subscription.pk)

    assert Subscription.objects.values().get() == before
    send_test(subscription)
    assert verifies(first, endpoint.received[0])


def test_a_forced_rotation_ends_the_overlap(endpoint: HttpsEndpoint):
    subscription = SubscriptionFactory.create(callback_url=endpoint.url())
    first = secrets.reveal(subscription)
    second = secrets.rotate(subscription)
    output = io.StringIO()

    call_command("rotate_secret", subscription.pk, "--force", stdout=output)

    subscription.refresh_from_db()
    send_test(subscription)
    known = [first, second, output.getvalue().splitlines()[0]]
    assert [verifies(secret, endpoint.received[0]) for secret in known] == [False, True, True]


def test_a_rotation_after_the_overlap_is_allowed():
    subscription = SubscriptionFactory.create()
    secrets.rotate(subscription)
    Subscription.objects.update(previous_secret_until=clock.now() - timedelta(seconds=1))
    subscription.refresh_from_db()

    secrets.rotate(subscription)

    assert subscription.previous_secret_until > clock.now()


def test_a_rotation_with_an_overlap_of_0(hub_settings, endpoint: HttpsEndpoint):
    hub_settings(secret_overlap=timedelta(0))
    subscription = SubscriptionFactory.create(callback_url=endpoint.url())
    secrets.rotate(subscription)
    output = io.StringIO()

    call_command("rotate_secret", subscription.pk, stdout=output)

    stored = Subscription.objects.get()
    assert (stored.previous_secret, stored.previous_secret_until) == ("", None)
    assert "The previous secret no longer signs." in output.getvalue()
    send_test(stored)
    assert len(endpoint.received[0].headers["webhook-signature"].split(" ")) == 1


def test_a_running_overlap_is_kept_when_the_setting_becomes_0(hub_settings):
    subscription = SubscriptionFactory.create()
    secrets.rotate(subscription)
    hub_settings(secret_overlap=timedelta(0))

    with pytest.raises(secrets.OverlapRunning):
        secrets.rotate(subscription)


def test_keys_that_open_none_of_the_newest_secrets_are_refused(hub_settings):
    secrets.require_keys()  # there are no secrets
    SubscriptionFactory.create_batch(SAMPLE + 1)
    secrets.require_keys()
    right = hub().encryption_keys

    hub_settings(encryption_keys=(crypto.new_key(),))
    with pytest.raises(UnsuitableDatabase, match="none of WEBHOOKHUB_ENCRYPTION_KEYS opens the stored secrets"):
        secrets.require_keys()
    hub_settings(encryption_keys=(crypto.new_key(), *right))
    secrets.require_keys()


def test_one_undecryptable_secret_does_not_stop_a_worker():
    SubscriptionFactory.create()
    SubscriptionFactory.create(secret="damaged")

    secrets.require_keys()
