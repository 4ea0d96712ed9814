"""`reencrypt_secrets` encrypts everything with the first key, or reports the exceptions."""

from __future__ import annotations

import io
from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from subscriptions import reencryption, secrets
from subscriptions.models import Subscription
from tests.factories import SubscriptionFactory
from webhookhub import crypto
from webhookhub.conf import hub
from webhookhub.db import clock

pytestmark = pytest.mark.django_db


@pytest.fixture
def new_key(hub_settings: Callable[..., None]) -> Callable[[], None]:
    """A function that adds a new first key."""
    old, new = hub().encryption_keys, crypto.new_key()

    def put() -> None:
        hub_settings(encryption_keys=(new, *old))

    return put


def run() -> str:
    output = io.StringIO()
    call_command("reencrypt_secrets", stdout=output)
    return output.getvalue()


def first_key_alone(hub_settings: Callable[..., None]) -> None:
    hub_settings(encryption_keys=hub().encryption_keys[:1])


def interrupted(monkeypatch: pytest.MonkeyPatch, times: int, change: Callable[[], Any]) -> None:
    """Change the row between read and write, `times` times."""
    original, remaining = reencryption._with_first_key, [None] * times

    def slowly(*args: Any) -> dict[str, Any]:
        values = original(*args)
        if remaining:
            remaining.pop()
            change()
        return values

    monkeypatch.setattr(reencryption, "_with_first_key", slowly)


def test_everything_is_reencrypted_and_counted(hub_settings, new_key):
    headers = crypto.encrypt("X-Key: value")
    subscriptions = SubscriptionFactory.create_batch(3, custom_headers=headers)
    secrets.rotate(subscriptions[1])
    keys = [secrets.reveal(subscription) for subscription in Subscription.objects.order_by("id")]
    new_key()

    assert "The secrets of 3 endpoints are encrypted with the first key." in run()

    first_key_alone(hub_settings)
    stored = list(Subscription.objects.order_by("id"))
    assert [secrets.reveal(subscription) for subscription in stored] == keys
    assert {crypto.decrypt(subscription.custom_headers) for subscription in stored} == {"X-Key: value"}
    assert crypto.decrypt(stored[1].previous_secret)


def test_a_concurrent_rotation_leaves_nothing_under_the_old_key(hub_settings, new_key, monkeypatch):
    subscription = SubscriptionFactory.create()
    old = secrets.reveal(subscription)
    new_key()
    interrupted(monkeypatch, 1, lambda: secrets.rotate(subscription))

    assert "The secrets of 1 endpoints" in run()

    first_key_alone(hub_settings)
    stored = Subscription.objects.get()
    assert crypto.decrypt(stored.previous_secret) == old
    assert secrets.reveal(stored) != old


def test_a_concurrent_edit_of_headers_is_kept(hub_settings, new_key, monkeypatch):
    SubscriptionFactory.create()
    new_key()
    interrupted(monkeypatch, 1, lambda: Subscription.objects.update(custom_headers=crypto.encrypt("X-Key: edited")))

    run()

    first_key_alone(hub_settings)
    stored = Subscription.objects.get()
    assert crypto.decrypt(stored.custom_headers) == "X-Key: edited"
    assert secrets.reveal(stored)


def test_a_row_that_keeps_changing_is_reported(new_key, monkeypatch):
    subscription = SubscriptionFactory.create()
    new_key()
    interrupted(monkeypatch, 1000, lambda: Subscription.objects.update(custom_headers=crypto.encrypt("X-Key: edited")))

    with pytest.raises(CommandError, match=f"Endpoints {subscription.endpoint_id} kept changing"):
        run()
    assert reencryption.reencrypt().done == 0


@pytest.mark.parametrize("until", [timedelta(seconds=-1), None])
def test_an_expired_previous_secret_is_cleared(until):
    expires_at = None if until is None else clock.now() + until
    SubscriptionFactory.create(previous_secret="encrypted with a lost key", previous_secret_until=expires_at)

    assert "The secrets of 1 endpoints" in run()

    stored = Subscription.objects.get()
    assert (stored.previous_secret, stored.previous_secret_until) == ("", None)


def test_an_undecryptable_secret_is_reported_and_the_rest_continues(hub_settings, new_key):
    first, good, last = SubscriptionFactory.create_batch(3)
    Subscription.objects.filter(pk=first.pk).update(secret="damaged")
    Subscription.objects.filter(pk=last.pk).update(custom_headers="damaged")
    new_key()

    output = io.StringIO()
    with pytest.raises(CommandError, match=f"the secrets of endpoints {first.endpoint_id}, {last.endpoint_id};"):
        call_command("reencrypt_secrets", stdout=output)

    assert "The secrets of 1 endpoints" in output.getvalue()
    first_key_alone(hub_settings)
    good.refresh_from_db()
    assert secrets.reveal(good)
    assert Subscription.objects.get(pk=first.pk).secret == "damaged"


def test_processes_with_old_and_new_keys_read_each_others_secrets(hub_settings):
    """The steps of docs/configure.md: during a restart, processes have different keys."""
    (old,), new = hub().encryption_keys, crypto.new_key()
    steps = [(old,), (old, new), (new, old)]
    for restart in pairwise(steps):
        for one, other in (restart, restart[::-1]):
            hub_settings(encryption_keys=one)
            subscription = SubscriptionFactory.create()
            hub_settings(encryption_keys=other)
            assert secrets.reveal(subscription)
    hub_settings(encryption_keys=steps[-1])
    run()
    first_key_alone(hub_settings)
    assert all(secrets.reveal(subscription) for subscription in Subscription.objects.all())


def test_subscriptions_of_one_endpoint_stay_together(hub_settings, new_key):
    url = "https://127.0.0.1:8443/hook"
    for name in ("order.created", "order.paid"):
        SubscriptionFactory.create(callback_url=url, event_type=name)
    new_key()
    assert "The secrets of 1 endpoints" in run()
    first_key_alone(hub_settings)
    first, second = Subscription.objects.all()
    assert first.endpoint_id == second.endpoint_id
    assert secrets.reveal(first) == secrets.reveal(second)
