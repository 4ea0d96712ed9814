"""Forms that were opened before another change of the subscription."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client

from subscriptions import secrets, services
from subscriptions.forms import SubscriptionForm
from subscriptions.models import Subscription
from subscriptions.services import version
from subscriptions.verification import verify
from tests.factories import SubscriptionFactory
from tests.support import rows
from tools.demo.endpoint import HttpsEndpoint
from webhookhub import crypto
from webhookhub.auditlog.models import Entry
from webhookhub.console import format

NAME = "subscriptions_subscription"
SINCE = "has been changed since you opened its form"

pytestmark = pytest.mark.django_db


def opened(client: Client, subscription: Subscription) -> dict[str, str]:
    """The form's data as the page shows it now."""
    form = {"event_type": subscription.event_type, "callback_url": subscription.callback_url}
    return {**form, "active": "on" if subscription.active else "", **rows.seen(client, subscription.pk)}


def send(client: Client, subscription: Subscription, form: dict[str, str]) -> str:
    response = client.post(rows.change(NAME, subscription.pk), form, follow=True)
    assert response.status_code == 200
    return " ".join(response.content.decode().split())


def test_a_form_opened_before_a_pause_does_not_resume_the_subscription(superuser: Client):
    subscription = SubscriptionFactory.create(description="")
    form = opened(superuser, subscription)
    services.change(subscription, {"active": False})
    entries = Entry.objects.count()

    page = send(superuser, subscription, {**form, "description": "typed meanwhile"})

    assert f"Nothing was stored: this subscription {SINCE}." in page
    assert format.link(rows.change(NAME, subscription.pk), "reopen the form") in page
    assert 'value="typed meanwhile"' in page
    stored = Subscription.objects.get()
    assert (stored.active, stored.description, Entry.objects.count()) == (False, "", entries)


def test_a_stale_form_is_refused_until_it_is_reopened(superuser: Client):
    subscription = SubscriptionFactory.create()
    form = opened(superuser, subscription)
    services.change(subscription, {"active": False})

    refused = send(superuser, subscription, {**form, "description": "mine"})
    assert f'name="seen" value="{form["seen"]}"' in refused
    assert SINCE in send(superuser, subscription, {**form, "description": "mine"})
    taken = {**opened(superuser, subscription), "description": "mine"}

    assert SINCE not in send(superuser, subscription, taken)
    stored = Subscription.objects.get()
    assert (stored.active, stored.description) == (False, "mine")


@pytest.mark.parametrize(
    "change",
    [
        {"description": "theirs"},
        {"callback_url": "https://127.0.0.1:9443/hook?token=another"},
        {"max_retry_limit": 7},
        {"headers": {"X-Key": "another"}},
        {"headers": {}},
    ],
    ids=str,
)
def test_every_edit_changes_the_version(change: dict[str, Any]):
    subscription = SubscriptionFactory.create(
        callback_url="https://127.0.0.1:9443/hook?token=one", custom_headers=crypto.encrypt("X-Key: one")
    )
    seen = version(subscription)

    services.change(subscription, change)

    assert version(Subscription.objects.get()) != seen


def test_a_stale_form_does_not_undo_a_change_of_headers(superuser: Client):
    subscription = SubscriptionFactory.create(custom_headers=crypto.encrypt("X-Key: one"))
    form = opened(superuser, subscription)
    services.change(subscription, {"headers": {"X-Key": "another"}})
    before = Subscription.objects.values().get()

    assert SINCE in send(superuser, subscription, {**form, "event_type": "order.paid"})
    assert Subscription.objects.values().get() == before


def test_a_rotation_or_verification_does_not_make_a_form_stale(superuser: Client, endpoint: HttpsEndpoint):
    subscription = SubscriptionFactory.create(
        callback_url=endpoint.url(), verified=False, custom_headers=crypto.encrypt("X-Key: one")
    )
    form = opened(superuser, subscription)
    secrets.rotate(subscription)
    verify(subscription)
    Subscription.objects.update(custom_headers=crypto.encrypt("X-Key: one"))

    assert SINCE not in send(superuser, subscription, {**form, "description": "mine"})
    stored = Subscription.objects.get()
    assert (stored.description, stored.verified, stored.secret) == ("mine", True, subscription.secret)


def test_a_form_sent_twice_is_stored_once(superuser: Client):
    subscription = SubscriptionFactory.create()
    form = {**opened(superuser, subscription), "description": "mine"}

    for _ in range(2):
        assert SINCE not in send(superuser, subscription, form)

    assert Entry.objects.filter(object_type="subscription").count() == 1


def test_a_form_without_a_version_is_refused(superuser: Client):
    subscription = SubscriptionFactory.create()
    form = {**opened(superuser, subscription), "description": "mine", "seen": ""}

    assert SINCE in send(superuser, subscription, form)
    assert Subscription.objects.get().description != "mine"


def test_the_version_is_keyed(settings: Any):
    subscription = SubscriptionFactory.create(callback_url="https://127.0.0.1:9443/hook?token=one")
    seen = version(subscription)

    settings.SECRET_KEY = "another"

    assert version(subscription) != seen


@pytest.mark.mysql_family  # SQLite has no concurrent writers
def test_a_pause_after_validation_is_not_undone(committed: None, monkeypatch: pytest.MonkeyPatch):
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    subscription = SubscriptionFactory.create(description="")
    form = opened(client, subscription)
    check = SubscriptionForm.is_valid
    rivals: list[threading.Thread] = []

    def is_valid_and_then_overtaken(form: SubscriptionForm) -> bool:
        valid = check(form)
        if not rivals:
            rivals.append(threading.Thread(target=pause))
            rivals[0].start()
            rivals[0].join()
        return valid

    def pause() -> None:
        services.change(Subscription.objects.get(), {"active": False})
        connection.close()

    monkeypatch.setattr(SubscriptionForm, "is_valid", is_valid_and_then_overtaken)

    assert SINCE in send(client, subscription, {**form, "description": "typed meanwhile"})
    stored = Subscription.objects.get()
    assert (stored.active, stored.description) == (False, "")
