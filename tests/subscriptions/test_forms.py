"""The console's form for subscriptions."""

from __future__ import annotations

from typing import Any

import pytest

from subscriptions.forms import SubscriptionForm
from subscriptions.models import Subscription
from subscriptions.services import version
from tests.factories import SubscriptionFactory
from webhookhub import crypto

pytestmark = pytest.mark.django_db


def test_stored_headers_are_not_sent_to_another_host():
    subscription: Any = SubscriptionFactory(custom_headers=crypto.encrypt("Authorization: Bearer s3cret"))
    elsewhere = {"event_type": "a", "callback_url": "https://other.example.com/x", "signing_scheme": "v1"}
    elsewhere["seen"] = version(Subscription.objects.get())

    refused = SubscriptionForm(elsewhere, instance=subscription)

    assert list(refused.errors) == ["headers"]
    subscription.refresh_from_db()
    assert SubscriptionForm(elsewhere | {"remove_headers": "on"}, instance=subscription).is_valid()
    subscription.refresh_from_db()
    assert SubscriptionForm(elsewhere | {"headers": "X-A: 1"}, instance=subscription).is_valid()
