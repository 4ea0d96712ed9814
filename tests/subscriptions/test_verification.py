"""Verification, also against hostile responses."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from subscriptions import verification
from subscriptions.models import Subscription
from subscriptions.sample_delivery import SampleResult, send_now
from subscriptions.verification import (
    CHALLENGE_MISSING,
    CHALLENGE_RETURNED,
    URL_CHANGED,
    Verification,
    check_response,
    verify,
)
from tests.factories import SubscriptionFactory
from tools.demo.endpoint import HttpsEndpoint, Received, Reply, verification_challenge
from webhookhub.egress.messages import Response

CHALLENGE = "V9m-aB_3"


def proves(body: bytes) -> bool:
    result = check_response(Response(None, 1, 200, body=body), CHALLENGE)
    assert result.result == (CHALLENGE_RETURNED if result.verified else CHALLENGE_MISSING)
    return result.verified


@pytest.mark.parametrize(
    "body",
    [
        CHALLENGE.encode(),
        f"\r\n {CHALLENGE}\n".encode(),
        json.dumps(CHALLENGE).encode(),
        json.dumps({"challenge": CHALLENGE, "more": 1e308}).encode(),
        b'{"challenge":"\\u0056' + CHALLENGE[1:].encode() + b'"}',
    ],
)
def test_the_challenge_as_text_or_json_verifies(body: bytes):
    assert proves(body)


HOSTILE = [
    b'{"challenge":"\\ud800"}',
    b'"\\udfff"',
    b"[" * 4000,
    b'{"a":' * 800,
    b'{"challenge":' + b"[" * 900 + b"]" * 900 + b"}",
    b'{"challenge":' + b'{"a":' * 600 + b"1" + b"}" * 601,
    b'{"challenge":1e999}',
    b'{"challenge":-Infinity}',
    b"NaN",
    b'{"challenge":' + b"9" * 4050 + b"}",
    b"9" * 4096,
    b"-" + b"9" * 4400,
    b"\0",
    b'{"challenge":"\\u0000"}',
    b'{"challenge":null}',
    b'{"challenge":["' + CHALLENGE.encode() + b'"]}',
    b"[]",
    b"null",
    b"true",
    b"",
    b"\xef\xbb\xbf{}",
    b"\xff\xfe\x00",
]


@pytest.mark.requirement("R3-2.3c")
@pytest.mark.parametrize("body", HOSTILE, ids=lambda body: ascii(body[:20]))
def test_any_other_body_does_not_verify(body: bytes):
    assert not proves(body)


def responding(body: Callable[[str], bytes], status: int = 200) -> Callable[[Received], Reply]:
    def take(received: Received) -> Reply:
        return Reply(status, body(verification_challenge(received) or ""))

    return take


@pytest.mark.django_db
def test_a_hostile_response_is_a_failed_verification(endpoint: HttpsEndpoint, monkeypatch: Any):
    monkeypatch.setattr(endpoint, "take", responding(lambda challenge: b"[" * 4000))
    subscription = SubscriptionFactory.create(callback_url=endpoint.url(), verified=False)

    with pytest.raises(CommandError, match="is not verified: the endpoint did not send the challenge back"):
        call_command("verify_subscription", subscription.pk)

    subscription.refresh_from_db()
    assert (subscription.verified, subscription.verification_result) == (False, CHALLENGE_MISSING)
    assert subscription.verification_at is not None


@pytest.mark.requirement("R3-2.3c")
@pytest.mark.django_db
def test_a_challenge_in_json_verifies(endpoint: HttpsEndpoint, monkeypatch: Any):
    monkeypatch.setattr(endpoint, "take", responding(lambda challenge: json.dumps({"challenge": challenge}).encode()))
    subscription = SubscriptionFactory.create(callback_url=endpoint.url(), verified=False)
    output = io.StringIO()

    call_command("verify_subscription", subscription.pk, stdout=output)

    subscription.refresh_from_db()
    assert subscription.verified
    assert "is verified" in output.getvalue()


@pytest.mark.django_db
def test_a_failure_keeps_an_earlier_verification(endpoint: HttpsEndpoint, monkeypatch: Any):
    subscription = SubscriptionFactory.create(callback_url=endpoint.url(), verified=False)
    assert verify(subscription).verified
    monkeypatch.setattr(endpoint, "take", responding(lambda challenge: b"", 500))

    with pytest.raises(CommandError) as caught:
        call_command("verify_subscription", subscription.pk)

    assert "failed: the endpoint responded with 500. The earlier verification stays valid." in str(caught.value)
    assert "is not verified" not in str(caught.value)
    subscription.refresh_from_db()
    assert (subscription.verified, subscription.verification_result) == (True, "http_500")


@pytest.mark.django_db
def test_a_url_changed_during_the_verification_is_not_verified(endpoint: HttpsEndpoint, monkeypatch):
    subscription = SubscriptionFactory.create(callback_url=endpoint.url("/old"), verified=False)

    def send_and_change_url(*args: Any) -> SampleResult:
        result = send_now(*args)
        Subscription.objects.update(callback_url=endpoint.url("/new"))
        return result

    monkeypatch.setattr(verification, "send_now", send_and_change_url)

    result = verify(subscription)

    assert result == Verification(False, URL_CHANGED)
    stored = Subscription.objects.get()
    assert (stored.callback_url, stored.verified) == (endpoint.url("/new"), False)
    assert (stored.verification_result, stored.verification_at) == ("", None)
