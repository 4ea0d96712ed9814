"""A disabled endpoint in the console, the API and at the command line; enabling it by hand or by a verification."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

from subscriptions import health
from subscriptions.models import EndpointHealth, Subscription, endpoint_id
from subscriptions.verification import verify
from tests.factories import SubscriptionFactory
from tools.demo.endpoint import HttpsEndpoint, Reply
from webhookhub.auditlog.models import Entry
from webhookhub.db import clock

pytestmark = pytest.mark.django_db

REASON = {"reason": "the customer has fixed it"}


@pytest.fixture
def disabled() -> Subscription:
    subscription: Subscription = SubscriptionFactory.create()
    assert health.disable_gone(endpoint_id(subscription))
    subscription.refresh_from_db()
    return subscription


def is_enabled(subscription: Subscription) -> bool:
    subscription.refresh_from_db()
    return subscription.is_routable


def page(subscription: Subscription, name: str = "change") -> str:
    return reverse(f"admin:subscriptions_subscription_{name}", args=[subscription.pk])


def test_the_page_says_why_it_is_disabled_and_offers_to_enable_it(superuser: Client, disabled: Subscription):
    shown = superuser.get(page(disabled)).content.decode()
    assert "the endpoint responded with 410 Gone" in shown
    assert page(disabled, "enable") in shown
    question = superuser.get(page(disabled, "enable")).content.decode()
    assert "the endpoint responded with 410 Gone" in question
    assert not is_enabled(disabled), "a GET changes nothing"


def test_a_person_enables_it_with_a_reason(superuser: Client, disabled: Subscription):
    superuser.post(page(disabled, "enable"), {"reason": " "})
    assert not is_enabled(disabled)
    shown = superuser.post(page(disabled, "enable"), REASON, follow=True).content.decode()
    assert "Enabled: it gets deliveries again." in shown
    assert is_enabled(disabled)
    entry = Entry.objects.get(action="subscription.enable")
    assert (entry.object_id, entry.reason) == (disabled.id, REASON["reason"])
    again = superuser.post(page(disabled, "enable"), REASON, follow=True).content.decode()
    assert "It was enabled already." in again
    assert Entry.objects.filter(action="subscription.enable").count() == 1


def test_it_needs_the_permission_to_change_subscriptions(staff: Callable[..., Client], disabled: Subscription):
    reader = staff("rita", "view_subscription")
    assert reader.post(page(disabled, "enable"), REASON).status_code == 403
    assert page(disabled, "enable") not in reader.get(page(disabled)).content.decode()
    assert not is_enabled(disabled)


def test_a_failing_endpoint_shows_since_when(superuser: Client):
    subscription = SubscriptionFactory.create()
    health.note_failing(endpoint_id(subscription), clock.now(), "timeout", clock.now())
    shown = superuser.get(page(subscription)).content.decode()
    assert "Without a success since" in shown
    assert "The endpoint is only probed now." in shown


def test_the_command_enables_it(disabled: Subscription):
    out = io.StringIO()
    call_command("enable_endpoint", str(disabled.id), "--reason", "fixed", stdout=out)
    assert "is enabled" in out.getvalue()
    assert is_enabled(disabled)
    assert Entry.objects.get(action="subscription.enable").reason == "fixed"
    call_command("enable_endpoint", str(disabled.id), "--reason", "fixed", stdout=out)
    assert "was not disabled" in out.getvalue()
    with pytest.raises(CommandError, match="reason"):
        call_command("enable_endpoint", str(disabled.id), "--reason", " ")


def test_a_successful_verification_enables_it(endpoint: HttpsEndpoint):
    subscription: Subscription = SubscriptionFactory.create(callback_url=endpoint.url())
    other: Subscription = SubscriptionFactory.create(callback_url=endpoint.url(), event_type="order.paid")
    health.disable_gone(endpoint_id(subscription))
    assert verify(subscription).verified
    assert is_enabled(subscription)
    assert is_enabled(other)
    assert EndpointHealth.objects.get().recovered_by == "verification"
    assert '"enabled": true' in Entry.objects.get(action="subscription.verify").details


def test_a_failed_verification_does_not(disabled: Subscription):
    assert not verify(disabled).verified
    assert not is_enabled(disabled)


def test_a_subscription_whose_url_has_changed_is_enabled_by_the_verification_of_the_new_one(
    endpoint: HttpsEndpoint, disabled: Subscription
):
    Subscription.objects.filter(id=disabled.id).update(callback_url=endpoint.url())
    disabled.refresh_from_db()
    assert verify(disabled).verified
    assert is_enabled(disabled)


@pytest.mark.parametrize("status", [410, 500])
def test_a_disabled_endpoint_that_is_still_broken_stays_disabled(endpoint: HttpsEndpoint, status: int):
    endpoint.take = lambda received: Reply(status=status)  # type: ignore[method-assign]
    subscription: Subscription = SubscriptionFactory.create(callback_url=endpoint.url())
    health.disable_gone(endpoint_id(subscription))
    assert not verify(subscription).verified
    assert not is_enabled(subscription)
