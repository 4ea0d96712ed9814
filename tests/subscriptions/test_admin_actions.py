"""Verify, test and rotate a subscription in the console, with a real endpoint."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.sessions.models import Session
from django.test import Client
from django.urls import reverse
from django.utils.html import escape

from subscriptions import secrets
from subscriptions.models import Subscription
from tests.factories import SubscriptionFactory
from tests.support import rows
from tools.demo.endpoint import HttpsEndpoint, Reply
from webhookhub import crypto
from webhookhub.auditlog import actions
from webhookhub.auditlog.models import Entry

pytestmark = pytest.mark.django_db
NAME = "subscriptions_subscription"
WHY = {"reason": "it leaked"}
VALID = {
    "event_type": "order.created",
    "callback_url": "https://127.0.0.1:1025/hook",
    "active": "on",
    "signing_scheme": "v1",
}


def address(verb: str, subscription: Subscription) -> str:
    return reverse(f"admin:subscriptions_subscription_{verb}", args=[subscription.pk])


def test_an_endpoint_that_sends_the_challenge_back_is_verified(superuser: Client, endpoint: HttpsEndpoint):
    subscription = SubscriptionFactory.create(callback_url=endpoint.url(), verified=False)

    page = superuser.post(address("verify", subscription), follow=True).content.decode()

    subscription.refresh_from_db()
    assert subscription.verified
    assert "Verified: the endpoint sent the challenge back." in page


def test_a_failed_verification_shows_the_reason(superuser: Client):
    subscription = SubscriptionFactory.create(callback_url="https://127.0.0.1:1025/gone", verified=False)

    page = superuser.post(address("verify", subscription), follow=True).content.decode()

    subscription.refresh_from_db()
    assert not subscription.verified
    assert subscription.verification_result == "connect_error"
    assert "Not verified: the hub could not connect to the endpoint." in page


def test_a_failed_verification_keeps_an_earlier_one(superuser: Client):
    subscription = SubscriptionFactory.create(callback_url="https://127.0.0.1:1025/gone")

    page = superuser.post(address("verify", subscription), follow=True).content.decode()

    assert (
        "The verification failed: the hub could not connect to the endpoint. The earlier verification stays valid"
        in page
    )
    assert "Not verified" not in page


def test_a_test_event_shows_the_response_as_escaped_text(superuser: Client, endpoint: HttpsEndpoint):
    endpoint.respond = lambda request: Reply(500, b"<script>alert(1)</script>")
    subscription = SubscriptionFactory.create(callback_url=endpoint.url())

    page = superuser.post(address("test", subscription), follow=True).content.decode()

    assert "the endpoint responded with 500 (http_500)" in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "<script>alert(1)</script>" not in page


def test_a_new_secret_is_shown_once_and_stored_encrypted(superuser: Client):
    subscription = SubscriptionFactory.create()

    response = superuser.post(address("rotate", subscription), WHY)

    subscription.refresh_from_db()
    secret = secrets.reveal(subscription)
    assert secret in response.content.decode()
    assert "no-store" in response["Cache-Control"]
    assert secret not in str(response.cookies)
    assert all(secret not in str(session.get_decoded()) for session in Session.objects.all())
    assert secret not in superuser.get(rows.change(NAME, subscription.pk)).content.decode()
    assert Entry.objects.get(action=actions.ROTATE).reason == "it leaked"


def test_the_rotation_page_explains_and_asks_for_a_reason(superuser: Client):
    subscription = SubscriptionFactory.create()
    before = Subscription.objects.values().get()
    assert (
        f'href="{address("rotate", subscription)}"'
        in superuser.get(rows.change(NAME, subscription.pk)).content.decode()
    )

    page = superuser.get(address("rotate", subscription)).content.decode()
    assert "The old one signs too for 24 h" in page
    assert "is shown once" in page
    page = superuser.post(address("rotate", subscription), {"reason": " "}).content.decode()
    assert "Give the reason." in page
    assert Subscription.objects.values().get() == before
    assert not Entry.objects.filter(action=actions.ROTATE).exists()


def replaced(client: Client, subscription: Subscription, ends: str = "") -> Any:
    response = client.post(address("rotate", subscription), {**WHY, "ends": ends})
    assert response.status_code == 200
    return response


def test_a_rotation_during_an_overlap_needs_confirmation(superuser: Client):
    subscription = SubscriptionFactory.create()
    replaced(superuser, subscription)
    before = Subscription.objects.values().get()

    page = replaced(superuser, subscription).content.decode()  # like a reload

    assert "Nothing was changed: the previous secret signs too until" in page
    assert f"{before['previous_secret_until']:%Y-%m-%d %H:%M:%S} UTC" in page
    assert "Replace again and end the previous one at once" in page
    assert "whsec_" not in page
    assert Subscription.objects.values().get() == before


def test_a_confirmed_rotation_happens_once_when_the_page_is_sent_twice(superuser: Client):
    subscription = SubscriptionFactory.create()
    replaced(superuser, subscription)
    lost = Subscription.objects.get()
    ends = superuser.get(address("rotate", subscription)).context["ends"]

    page = replaced(superuser, subscription, ends).content.decode()

    now = Subscription.objects.get()
    assert secrets.reveal(now) in page
    assert (now.previous_secret, now.secret == lost.secret) == (lost.secret, False)
    assert json.loads(Entry.objects.order_by("-pk")[0].details) == {"scheme": "v1", "forced": True}
    page = replaced(superuser, subscription, ends).content.decode()
    assert "Nothing was changed" in page
    assert Subscription.objects.get().secret == now.secret


@pytest.mark.parametrize(("verb", "action"), [("verify", actions.VERIFY), ("test", actions.TEST)])
def test_a_verification_and_a_test_event_accept_a_reason(
    superuser: Client, endpoint: HttpsEndpoint, verb: str, action: str
):
    subscription = SubscriptionFactory.create(callback_url=endpoint.url())

    superuser.post(address(verb, subscription), {"reason": " 客戶要求 "})
    superuser.post(address(verb, subscription))
    page = superuser.post(address(verb, subscription), {"reason": "a\x1b[2Jb"}, follow=True).content.decode()

    assert "Nothing was sent. Reason must not contain control characters" in page
    assert [entry.reason for entry in Entry.objects.filter(action=action).order_by("pk")] == ["客戶要求", ""]


def test_a_new_secret_is_shown_with_the_permission(superuser: Client):
    response = superuser.post(rows.add(NAME), VALID)
    assert secrets.reveal(Subscription.objects.get()) in response.content.decode()


def test_a_new_secret_is_hidden_without_the_permission(staff: Callable[..., Client]):
    client = staff("adder", "view_subscription", "add_subscription")
    response = client.post(rows.add(NAME), VALID, follow=True)
    assert response.redirect_chain
    assert "whsec_" not in response.content.decode()


def test_actions_without_the_permission_are_hidden_and_refused(viewer: Client, endpoint: HttpsEndpoint):
    subscription = SubscriptionFactory.create(callback_url=endpoint.url(), verified=False)
    before = Subscription.objects.values().get()
    page = viewer.get(rows.change(NAME, subscription.pk)).content.decode()

    for verb in ("verify", "test", "rotate"):
        assert viewer.post(address(verb, subscription), WHY).status_code == 403
        assert viewer.get(address(verb, subscription)).status_code in (403, 405)
        assert address(verb, subscription) not in page
    assert Subscription.objects.values().get() == before
    assert endpoint.received == []


def test_custom_headers_are_encrypted_shown_by_name_and_sent(superuser: Client, endpoint: HttpsEndpoint):
    superuser.post(
        rows.add(NAME), {**VALID, "callback_url": endpoint.url(), "headers": "X-Key: s3cret-value\nX-Two: 2"}
    )
    subscription = Subscription.objects.get()
    page = superuser.get(rows.change(NAME, subscription.pk)).content.decode()
    superuser.post(address("test", subscription))

    assert "s3cret-value" not in subscription.custom_headers
    assert "X-Key, X-Two" in page
    assert "s3cret-value" not in page
    [request] = endpoint.received
    assert (request.headers["x-key"], request.headers["x-two"]) == ("s3cret-value", "2")


def test_custom_headers_are_kept_when_empty_and_removed_on_request(superuser: Client):
    stored = crypto.encrypt("X-Key: value")
    subscription: Any = SubscriptionFactory.create(callback_url=VALID["callback_url"], custom_headers=stored)

    def send(**values: str) -> None:
        form = {**VALID, **rows.seen(superuser, subscription.pk), **values}
        superuser.post(rows.change(NAME, subscription.pk), form)

    send(description="changed")
    subscription.refresh_from_db()
    assert (subscription.description, subscription.custom_headers) == ("changed", stored)

    send(remove_headers="on")
    subscription.refresh_from_db()
    assert subscription.custom_headers == ""


def test_an_invalid_header_is_a_field_error(superuser: Client):
    response = superuser.post(rows.add(NAME), {**VALID, "headers": "Host: elsewhere"})

    message = "Line 1: the hub itself sets the header Host."
    assert response.context["adminform"].form.errors["headers"] == [message]
    assert escape(message) in response.content.decode()
    assert not Subscription.objects.exists()
