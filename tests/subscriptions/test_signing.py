"""Signatures, checked as endpoints check them."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from standardwebhooks import Webhook, WebhookVerificationError

from events.intake import publish
from jobs.models import Job
from subscriptions import secrets
from subscriptions.models import Subscription
from subscriptions.sample_delivery import send_test
from subscriptions.signing import BadSecret, endpoint_key, new_secret, signer
from tests.factories import SubscriptionFactory
from tests.test_pipeline import run_until_terminal
from tools.demo.endpoint import HttpsEndpoint, Received
from webhookhub import crypto
from webhookhub.db import clock


def verifies(secret: str, request: Received) -> bool:
    try:
        Webhook(secret).verify(request.body, request.headers)
    except WebhookVerificationError:
        return False
    return True


def test_signatures_equal_those_of_the_standardwebhooks_package():
    secret, now = new_secret("v1"), datetime.now(UTC)
    body = '{"name":"Zoë"}'
    content = f"msg_1.{int(now.timestamp())}.{body}".encode()
    assert signer(secret)(content) == Webhook(secret).sign("msg_1", now, body)


@pytest.mark.parametrize("secret", ["", "whsec_", "whsec_!!!!", "whsk_AAAA", "plain", "whsec_" + "A" * 10])
def test_an_invalid_secret_is_refused(secret):
    with pytest.raises(BadSecret):
        signer(secret)


@pytest.mark.django_db
def test_a_changed_delivery_does_not_verify(endpoint: HttpsEndpoint):
    subscription = SubscriptionFactory.create(callback_url=endpoint.url())
    secret = secrets.reveal(subscription)

    publish("order.created", {"order": 7, "name": "Zoë"})
    run_until_terminal()

    [request] = endpoint.received
    assert verifies(secret, request)
    assert not verifies(new_secret("v1"), request)
    assert not verifies(secret, Received(request.path, request.headers, request.body.replace(b"7", b"8")))
    assert not verifies(secret, Received(request.path, request.headers | {"webhook-id": "other"}, request.body))


@pytest.mark.django_db
def test_signatures_verify_before_during_and_after_a_rotation(endpoint: HttpsEndpoint):
    subscription = SubscriptionFactory.create(callback_url=endpoint.url())
    old = secrets.reveal(subscription)
    send_test(subscription)
    new = secrets.rotate(subscription)
    send_test(subscription)
    Subscription.objects.update(previous_secret_until=clock.now() - timedelta(seconds=1))
    subscription.refresh_from_db()
    send_test(subscription)

    before, during, after = endpoint.received
    assert [verifies(old, request) for request in (before, during, after)] == [True, True, False]
    assert [verifies(new, request) for request in (before, during, after)] == [False, True, True]


@pytest.mark.django_db
def test_an_asymmetric_signature_verifies_with_the_public_key(endpoint: HttpsEndpoint):
    subscription = SubscriptionFactory.create(callback_url=endpoint.url(), signing_scheme="v1a")
    public_key = secrets.reveal(subscription)
    assert public_key.startswith("whpk_")
    key = Ed25519PublicKey.from_public_bytes(base64.b64decode(public_key.removeprefix("whpk_")))

    send_test(subscription)

    [request] = endpoint.received
    version, _, value = request.headers["webhook-signature"].partition(",")
    content = f"{request.headers['webhook-id']}.{request.headers['webhook-timestamp']}.".encode() + request.body
    assert version == "v1a"
    key.verify(base64.b64decode(value), content)
    with pytest.raises(InvalidSignature):
        key.verify(base64.b64decode(value), content + b" ")


@pytest.mark.django_db
def test_a_rotation_to_another_scheme_signs_with_both(endpoint: HttpsEndpoint):
    subscription = SubscriptionFactory.create(callback_url=endpoint.url())
    secrets.rotate(subscription, "v1a")
    send_test(subscription)
    [request] = endpoint.received
    assert [part.split(",")[0] for part in request.headers["webhook-signature"].split(" ")] == ["v1a", "v1"]


@pytest.mark.django_db
def test_of_two_concurrent_rotations_one_fails():
    subscription = SubscriptionFactory.create()
    same = Subscription.objects.get()
    secrets.rotate(subscription)
    with pytest.raises(secrets.RotationConflict):
        secrets.rotate(same)


@pytest.mark.django_db
def test_secrets_are_encrypted_at_rest():
    subscription = SubscriptionFactory.create()
    assert secrets.reveal(subscription) not in str(Subscription.objects.values())


@pytest.mark.django_db
def test_a_delivery_that_cannot_be_signed_is_not_sent(hub_settings, endpoint: HttpsEndpoint):
    SubscriptionFactory.create(callback_url=endpoint.url(), max_retry_limit=1)
    hub_settings(encryption_keys=(crypto.new_key(),))

    publish("order.created", {"order": 7})
    run_until_terminal()

    assert endpoint.received == []
    assert Job.objects.get().error_code == "signing_error"


@pytest.mark.django_db
def test_all_attempts_of_an_event_share_a_trace(endpoint: HttpsEndpoint):
    SubscriptionFactory.create(callback_url=endpoint.url("/a"))
    SubscriptionFactory.create(callback_url=endpoint.url("/b"))
    event = publish("order.created", {})
    run_until_terminal()
    traces = {request.headers["traceparent"] for request in endpoint.received}
    assert len(traces) == 2
    assert {trace.split("-")[1] for trace in traces} == {event.uid.hex}


def test_the_endpoint_key_is_the_secret_or_the_public_key():
    symmetric, private = new_secret("v1"), new_secret("v1a")
    assert endpoint_key(symmetric) == symmetric
    assert private not in endpoint_key(private)
