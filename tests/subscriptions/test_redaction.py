"""Secrets that an endpoint sends back are not stored."""

from __future__ import annotations

import html
import json
import time
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest

from subscriptions.redaction import redact, response_snippet
from subscriptions.sample_delivery import send_test
from subscriptions.signing import Endpoint, new_secret
from tests.factories import SubscriptionFactory
from tools.demo.endpoint import HttpsEndpoint, Received, Reply
from webhookhub import crypto

SECRET, PREVIOUS = new_secret("v1"), new_secret("v1a")
TOKEN = "Bearer t0ken/with+&<\"signs'>"


def endpoint(headers: str = f"Authorization: {TOKEN}\nX-Key: s3cret-value\nX-Short: abc", query: str = "") -> Endpoint:
    return Endpoint(
        f"https://127.0.0.1:8443/{query}",
        crypto.encrypt(SECRET),
        crypto.encrypt(PREVIOUS),
        None,
        crypto.encrypt(headers) if headers else "",
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("ok", "ok"),
        ("X-Key: s3cret-value", "X-Key: •••"),
        ("s3cret-values3cret-value", "••••••"),
        (f"authorization: {TOKEN}!", "authorization: •••!"),
        (f"no such token: {TOKEN.removeprefix('Bearer ')}!", "no such token: •••!"),
        (f"<p>{html.escape(TOKEN)}</p>", "<p>•••</p>"),
        (json.dumps({"Authorization": TOKEN}), '{"Authorization": "•••"}'),
        (json.dumps({"Authorization": TOKEN}).replace("/", "\\/"), '{"Authorization": "•••"}'),
        (f"?auth={quote(TOKEN)}&x=1", "?auth=•••&x=1"),
        (f"?auth={quote(TOKEN, safe='')}&x=1", "?auth=•••&x=1"),
        (f"?auth={quote_plus(TOKEN)}&x=1", "?auth=•••&x=1"),
        (f"{SECRET} and {PREVIOUS}", "••• and •••"),
        pytest.param(f"key {SECRET.removeprefix('whsec_')}.", "key •••.", id="without its prefix"),
        pytest.param(f"{SECRET.removeprefix('whsec_').rstrip('=')}.", "•••.", id="without its padding"),
        ("X-Short: abc", "X-Short: abc"),
        ("İ\ud800\0 s3cret-value ß", "İ\ud800\0 ••• ß"),
        ("100 % sure & so on; s3cret%", "100 % sure & so on; s3cret%"),
    ],
)
def test_secrets_are_hidden_and_the_rest_is_kept(text: str, expected: str):
    assert redact(endpoint(), text) == expected


def test_the_longer_of_two_values_is_hidden_first():
    assert redact(endpoint("X-A: abcd\nX-B: abcdefgh"), "abcdefgh abcd") == "••• •••"


@pytest.mark.parametrize("value", ["🔑secret-key9", "ÉCOLE-secret", "a\nb-secret-x"])
def test_query_values_are_hidden_in_any_script(value: str):
    target = endpoint("", f"?key={quote(value)}")

    for written in (value, quote(value), json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]):
        assert redact(target, f"key {written}.") == "key •••."


def test_short_query_values_are_kept():
    assert redact(endpoint("", "?format=json"), "not json") == "not json"


@pytest.mark.parametrize("between", [" ", "\t", "  ", " \t "])
def test_credentials_are_hidden_without_their_scheme(between: str):
    assert redact(endpoint(f"X-Key: Bearer{between}abcdef0123456789"), "no abcdef0123456789!") == "no •••!"


def test_a_value_across_the_end_of_the_snippet_is_hidden():
    value = "&" * 4000
    body = "x" * 990 + html.escape(value)

    assert response_snippet(endpoint(f"X-Key: {value}"), body.encode()) == "x" * 990 + "•••"


@pytest.mark.parametrize(
    ("value", "text"),
    [("-" * 3000 + "x", "-" * 65536), ("%25" * 1000 + "x", "%25" * 20000), ("secret", "secre" * 13000)],
)
def test_redaction_takes_bounded_time(value: str, text: str):
    many = endpoint("\n".join(f"X-{index}: {value}{index}" for index in range(20)))
    redact(many, "prepares and caches the forms")

    started = time.thread_time()
    redact(many, text)

    assert time.thread_time() - started < 2


def test_undecryptable_secrets_are_no_error(hub_settings: Callable[..., None]):
    encrypted = endpoint()
    assert redact(encrypted._replace(secret="damaged", previous_secret="ü"), "s3cret-value") == "•••"
    assert redact(encrypted._replace(custom_headers="damaged"), f"s3cret-value {SECRET}") == "s3cret-value •••"
    for keys in ((crypto.new_key(),), ()):
        hub_settings(encryption_keys=keys)
        assert redact(encrypted, "s3cret-value") == "s3cret-value"


def test_headers_that_may_no_longer_be_sent_are_hidden_too():
    assert redact(endpoint("Content_Encoding: s3cret-value\nnonsense"), "s3cret-value") == "•••"


@pytest.mark.django_db
def test_the_response_to_a_test_event_is_redacted(endpoint: HttpsEndpoint):
    def echo(received: Received) -> Reply:
        # The snippet's 1000 characters end within the value.
        return Reply(500, f"{'x' * 990}{received.headers['x-key']}".encode())

    endpoint.respond = echo
    subscription = SubscriptionFactory.create(
        callback_url=endpoint.url(), custom_headers=crypto.encrypt("X-Key: s3cret-value-of-some-length")
    )

    assert send_test(subscription).snippet == "x" * 990 + "•••"
