"""An endpoint that sends our own headers back does not get them into what is kept of its answer."""

from __future__ import annotations

import html
import json
import time
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Callable
from itertools import product
from urllib.parse import quote, quote_plus, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subscriptions import redaction
from subscriptions.signed_request import Endpoint, readable, redact
from subscriptions.signing import new_secret
from subscriptions.test_event import send_test
from tests.factories import SubscriptionFactory
from tools.demo.receiver import Received, Receiver, Reply
from webhookhub import crypto

SECRET, PREVIOUS = new_secret("v1"), new_secret("v1a")
TOKEN = "Bearer t0ken/with+&<\"signs'>"

Encoder = Callable[[str], str]


def in_json(text: str) -> str:
    return json.dumps(text)[1:-1]


def in_plain_json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def in_javascript(text: str) -> str:
    return "".join(f"\\u{ord(sign):04X}" for sign in text)


def in_a_program(text: str) -> str:
    return "".join(f"\\x{ord(sign):02x}" for sign in text)


def in_an_address(text: str) -> str:
    return quote(text, safe="")


def in_numbers(text: str) -> str:
    return "".join(f"&#{ord(sign)};" for sign in text)


ENCODERS: list[Encoder] = [str, in_json, in_plain_json, in_an_address, quote, quote_plus, html.escape]
THOROUGH: list[Encoder] = [in_javascript, in_a_program, in_numbers]


def endpoint(headers: str = f"Authorization: {TOKEN}\nX-Key: s3cret-value\nX-Short: abc") -> Endpoint:
    return Endpoint(
        "https://127.0.0.1:8443/",
        crypto.encrypt(SECRET),
        crypto.encrypt(PREVIOUS),
        None,
        crypto.encrypt(headers) if headers else "",
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
        pytest.param(f"key {SECRET.removeprefix('whsec_')}.", "key •••.", id="the key without its prefix"),
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


@pytest.mark.parametrize(
    "value",
    [
        r"CORP\svc:Passw0rd!",
        r"p\assw0rd-x",
        r"C:\new\table",
        r"\u0041bcdefgh",
        r"\x750041bc-secret",
        r"\%750041bc-secret",
        "a&lt;b-secret",
        "&amp;&amp;&amp;",
        "key#1;x&#x41",
        "abc%2fdef",
        "100%abcd-efgh",
        "%25%25%25%25",
        "tab\tin-value-9",
        "t0k&e'n<9>\"x",
    ],
)
def test_a_value_with_signs_of_escapes_is_hidden_in_one_and_in_two_layers(value: str):
    known = endpoint(f"X-Key: {value}")

    for inner, outer in product(ENCODERS + THOROUGH, ENCODERS):
        assert redact(known, f"key ({outer(inner(value))})") == "key (•••)", (inner, outer)


printable = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E))
escape_like = st.lists(st.sampled_from([*r"\%&;#ux0aZ9-+/<", "&amp;", "&lt;", "%25", "%41", r"\u0041", "\t"]))
beside = printable | escape_like.map("".join)
# Of escapes alone too little may be left when they are read.
header_values = st.tuples(beside, st.text("ghijkGHIJK", min_size=4), beside).map("".join).map(str.strip)


@given(header_values, st.sampled_from(ENCODERS), st.sampled_from(ENCODERS))
def test_nothing_of_a_value_is_left_however_it_is_written(value: str, inner: Encoder, outer: Encoder):
    masked = redaction.mask(f"({outer(inner(value))})", redaction.hidden([value]))

    left = unquote(unquote(masked.removeprefix("(").removesuffix(")")))
    assert redaction.MASK in left
    # A backslash at its edge says nothing.
    assert left.replace(redaction.MASK, "").strip("\\") == ""


@pytest.mark.parametrize(
    "answer",
    [
        r"s3cret\u{2d}value",
        r"s3cret\U0000002dvalue",
        r"s3cret\055value",
        r"s3cret\-value",
        "s3cret%u002dvalue",
        "s3cret&#45value",
        "s3cret%25252525252dvalue",
    ],
)
def test_uncommon_escapes_are_read_too(answer: str):
    assert redact(endpoint(), f"key {answer}.") == "key •••."


@pytest.mark.parametrize(
    ("value", "answer", "left"),
    [
        ("2f/abcd-key", "a=%2f%2Fabcd-key", "a=%2f•••"),
        ("u0041/abcd-key", r"C:\u0041\/abcd-key", r"C:\u0041•••"),
        ("a/bcd-key&", r"a\/bcd-key&lt;", "•••&lt;"),
    ],
)
def test_signs_beside_an_escaped_value_do_not_make_it_readable(value: str, answer: str, left: str):
    assert redact(endpoint(f"X-Key: {value}"), answer) == left


@pytest.mark.parametrize(
    ("value", "answer"),
    [
        ("🔑secret-key9", r"\ud83d\udd11secret-key9"),
        ("🔑secret-key9", r"\\ud83d\\udd11secret-key9"),
        ("ÉCOLE-secret", "école-SECRET"),
        ("ÉCOLE-secret", "%C3%A9cole-secret"),
        ("ΟΔΟΣ-secret", "οδος-secret"),
        ("İẞ-secret-x", "İß-SECRET-X"),
        ("a\nb-secret-x", r"a\nb-secret-x"),
        ("a\nb-secret-x", "a%5Cnb-secret-x"),
    ],
)
def test_values_of_the_query_are_hidden_in_any_script(value: str, answer: str):
    asked = endpoint("")._replace(callback_url=f"https://127.0.0.1:8443/?key={quote(value)}")

    assert redact(asked, f"key {answer}.") == "key •••."


@pytest.mark.parametrize("encoder", [*ENCODERS, lambda text: in_json(html.escape(text))])
@pytest.mark.parametrize("value", ["пароль-🔑-секрет", "t0ken/with+&<\"signs'>é%y_end"])
def test_an_answer_may_be_cut_off_anywhere(value: str, encoder: Encoder):
    asked = endpoint("")._replace(callback_url=f"https://127.0.0.1:8443/?key={in_an_address(value)}")
    answer = f"key {encoder(value)}".encode()
    enough = len(f"key {encoder(value[: redaction.SHORTEST + 1])}".encode())

    for end in range(enough, len(answer) + 1):
        assert readable(asked, answer[:end]) == "key •••"


def test_a_secret_is_hidden_without_its_filling_and_as_addresses_have_it():
    bare = SECRET.removeprefix("whsec_")
    in_address = urlsafe_b64encode(b64decode(bare)).decode()

    for written in (bare.rstrip("="), in_address, in_address.rstrip("=")):
        assert redact(endpoint(), f'{{"key":"{written}"}}') == '{"key":"•••"}'


@pytest.mark.parametrize("between", [" ", "\t", "  ", " \t "])
def test_what_follows_the_scheme_is_hidden_alone(between: str):
    assert redact(endpoint(f"X-Key: Bearer{between}abcdef0123456789"), "no abcdef0123456789!") == "no •••!"


@given(st.text(alphabet=r"\%&;#ux0125amplt{}"), st.text())
def test_a_text_without_the_value_stays_as_it_is(escapes: str, text: str):
    assert redaction.mask(text + escapes + ".", redaction.hidden(["§not-in-the-text§"])) == text + escapes + "."


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
        ("secret", "\\" * 65536 + "u"),
        ("secret", r"\ud83d\\\\" * 6000),
        ("secret", "%" * 65536),
        ("secret", "&" + "amp;" * 16000),
        ("secret", "&amp;amp;amp;" * 5000),
        ("secret", "%%32%35" * 9000),
        ("&amp;" * 800, "%26amp%3B" * 7000),
        ("secret", "İ" * 65536),
    ],
)
def test_no_answer_takes_long_to_look_through(value: str, answer: str):
    many = endpoint("\n".join(f"X-{number}: {value}{number}" for number in range(20)))
    redact(many, "")
    redact(many, "the values are read once")

    began = time.thread_time()
    redact(many, answer)

    assert time.thread_time() - began < 2


def test_what_the_keys_do_not_open_is_no_error(hub_settings: Callable[..., None]):
    sealed = endpoint()
    assert redact(sealed._replace(secret="damaged", previous_secret="ü"), "s3cret-value") == "•••"
    assert redact(sealed._replace(custom_headers="damaged"), f"s3cret-value {SECRET}") == "s3cret-value •••"
    for keys in ((crypto.new_key(),), ()):
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
        callback_url=receiver.url(), custom_headers=crypto.encrypt("X-Key: s3cret-value-of-some-length")
    )

    assert send_test(subscription).snippet == "x" * 990 + "•••"


def test_the_beginning_is_hidden_though_more_of_it_looks_like_what_was_cut_off():
    secretive = endpoint("X-Password: a&SuperSecretPassword2024!x")
    assert redact(secretive, "bad: a%26SuperSecretPassword2024%2") == "bad: •••"


@pytest.mark.parametrize("heads", ["a" * 20, "abcdefghijklmnopqrst"], ids=["alike", "different"])
def test_no_headers_make_an_answer_take_long_to_look_through(heads: str):
    """Whoever may subscribe chooses both; a worker has one thread for all."""
    values = [head * (3900 - number) + "%" + "25" * 8 + "41" + "a" * 100 + "\t\\" for number, head in enumerate(heads)]
    secretive = endpoint("\n".join(f"X-H{number}: {value}" for number, value in enumerate(values)))
    answer = "a" * 8080 + "%" + "25" * 8 + "61" + "a" * 50 + "b%u"
    redact(secretive, "what is hidden is prepared once")
    began = time.thread_time()

    assert "a" * 100 not in redact(secretive, answer)

    assert time.thread_time() - began < 5


def test_of_what_has_too_much_to_hide_nothing_is_shown():
    values = [f"{number:02d}%" + "25" * 8 + "41" + "a" * 30 + "\\\\\t" + "b" * 100 for number in range(20)]
    secretive = endpoint("\n".join(f"X-H{number}: {value}" for number, value in enumerate(values)))
    assert redact(secretive, "anything") == "•••"
    assert redact(secretive, "") == ""
