"""An endpoint that sends our own headers back does not get them into what is kept of its answer."""

from __future__ import annotations

import html
import json
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demo.receiver import Received, Receiver, Reply
from subscriptions import redaction
from subscriptions.envelope import Endpoint, redact
from subscriptions.signing import new_secret
from subscriptions.trial import send_test
from tests.factories import SubscriptionFactory
from webhookhub import cipher

SECRET, PREVIOUS = new_secret("v1"), new_secret("v1a")
TOKEN = "Bearer t0ken/with+&<\"signs'>"


def endpoint(headers: str = f"Authorization: {TOKEN}\nX-Key: s3cret-value\nX-Short: abc") -> Endpoint:
    return Endpoint(
        "https://127.0.0.1:8443/",
        cipher.encrypt(SECRET),
        cipher.encrypt(PREVIOUS),
        None,
        cipher.encrypt(headers) if headers else "",
    )


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("", ""),
        ("ok", "ok"),
        ("X-Key: s3cret-value", "X-Key: •••"),
        ("x-key=s3cret-value;X-KEY=S3CRET-VALUE", "x-key=•••;X-KEY=•••"),
        ("s3cret-values3cret-value", "••••••"),
        (f"authorization: {TOKEN}!", "authorization: •••!"),
        (f"no such token: {TOKEN.removeprefix('Bearer ')}!", "no such token: •••!"),
        (f"<p>{html.escape(TOKEN)}</p>", "<p>•••</p>"),
        (json.dumps({"Authorization": TOKEN}), '{"Authorization": "•••"}'),
        (json.dumps({"Authorization": TOKEN}).replace("/", "\\/"), '{"Authorization": "•••"}'),
        ("<p>Bearer t0ken/with&#43;&amp;&lt;&#34;signs&#39;&gt;</p>", "<p>•••</p>"),
        ("<p>Bearer&#x20;t0ken&sol;with&plus;&amp;amp;&lt;&quot;signs&apos;&gt;</p>", "<p>•••</p>"),
        (r"Bearer t0ken\/with+\u0026\u003c\"signs\u0027\u003e!", "•••!"),
        ("?auth=Bearer+t0ken%2Fwith%2b%26%3C%22signs%27%3E&x=1", "?auth=•••&x=1"),
        (r"C:\\\\Bearer t0ken\x2fwith%252B&amp;amp;%3c&#x00022;signs&amp;#39;\\u003E!", r"C:\\\\•••!"),
        ("100 % sure & so on; s3cret%2dvalue", "100 % sure & so on; •••"),
        ("cut off: Bearer t0ken%2", "cut off: •••"),
        (r"cut off: Bearer t0ken\u00", "cut off: •••"),
        ("cut off: Bearer t0ken/with+&amp", "cut off: •••"),
        ("s3cr", "•••"),
        (r"\us3cret-value %s3cret-value &s3cret-value", r"\u••• %••• &•••"),
        ("&nosuchname; &#9999999; %zz s3cret-value", "&nosuchname; &#9999999; %zz •••"),
        (r"cut off: Bearer t0ken\/wi", "cut off: •••"),
        (f"{SECRET} and {PREVIOUS}", "••• and •••"),
        (f"key {SECRET.removeprefix('whsec_')}.", "key •••."),
        ("X-Short: abc", "X-Short: abc"),
        ("İ\ud800\0 s3cret-value ß", "İ\ud800\0 ••• ß"),
        ("cut off: s3cret-v", "cut off: •••"),
        ("not cut off: s3cret-v.", "not cut off: s3cret-v."),
    ],
)
def test_values_and_secrets_are_hidden_and_the_rest_stays(text: str, left: str):
    assert redact(endpoint(), text) == left


def test_of_two_values_of_which_one_begins_the_other_nothing_is_left():
    two = endpoint("X-A: abcd\nX-B: abcdefgh")
    assert redact(two, "abcdefgh abcd") == "••• •••"
    assert redact(two, "abcd abcdef") == "••• •••"


def test_a_long_value_is_hidden_wherever_the_answer_was_cut_off():
    value = "".join(f"{n:04}" for n in range(1000))
    long = endpoint(f"X-Key: {value}")
    for kept in (4, 5, 1000, 3999, 4000):
        assert redact(long, f"X-Key: {value[:kept]}") == "X-Key: •••"


@given(st.text(), st.from_regex(r"[ -~]{3}[a-z]{2,40}[!-~]", fullmatch=True), st.text())
def test_nothing_that_stands_beside_a_value_makes_it_readable(before: str, value: str, after: str):
    hidden = redaction.hidden([value])

    assert value not in redaction.mask(before + value + after, hidden)
    assert value not in redaction.mask(before + value, hidden)
    assert json.dumps(value)[1:-1] not in redaction.mask(f"{json.dumps(before + ' ' + value)} {after}", hidden)


@pytest.mark.parametrize(
    ("value", "answer"),
    [
        ("\\" * 20 + "xyz1", "\\" * 65536),
        ("+AbCdEfGh/xx=", "\\" * 65536),
        ("/" * 8, "\\" * 65536),
        ("-" * 3000, "-" * 65536),
        ("-" * 3000 + "x", "-" * 65536),
        ("%25" * 1000 + "x", "%25" * 20000),
        ("a&amp;b", "&amp;" * 13000),
        ("secret%2f", "%2" * 30000),
        ("secret", "secre" * 13000),
    ],
)
def test_no_answer_takes_long_to_look_through(value: str, answer: str):
    many = endpoint("\n".join(f"X-{number}: {value}{number}" for number in range(20)))
    redact(many, "")
    redact(many, "the values are read once")

    began = time.thread_time()
    redact(many, answer)

    assert time.thread_time() - began < 0.5


def test_what_the_keys_do_not_open_is_no_error(hub_settings: Callable[..., None]):
    sealed = endpoint()
    assert redact(sealed._replace(secret="damaged", previous_secret="ü"), "s3cret-value") == "•••"
    assert redact(sealed._replace(custom_headers="damaged"), f"s3cret-value {SECRET}") == "s3cret-value •••"
    for keys in ((cipher.new_key(),), ()):
        hub_settings(encryption_keys=keys)
        assert redact(sealed, "s3cret-value") == "s3cret-value"


def test_headers_that_may_no_longer_be_sent_are_hidden_all_the_same():
    assert redact(endpoint("Content_Encoding: s3cret-value\nnonsense"), "s3cret-value") == "•••"


@pytest.mark.django_db
def test_a_test_events_answer_is_shown_without_what_it_repeats(receiver: Receiver):
    def echo(received: Received) -> Reply:
        # The first 1000 characters end in the middle of the value.
        return Reply(500, f"{'x' * 990}{received.headers['x-key']}".encode())

    receiver.answer = echo
    subscription = SubscriptionFactory.create(
        callback_url=receiver.url(), custom_headers=cipher.encrypt("X-Key: s3cret-value-of-some-length")
    )

    assert send_test(subscription).snippet == "x" * 990 + "•••"
