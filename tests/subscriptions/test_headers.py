"""Custom headers are validated and sent."""

from __future__ import annotations

import pytest

from jobs.models import Job
from jobs.worker import Worker
from subscriptions.headers import MAX_BYTES, MAX_HEADERS, UnacceptableHeaders, names, parse
from subscriptions.models import Subscription
from subscriptions.sample_delivery import send_test
from tests.factories import JobFactory, SubscriptionFactory
from tools.demo.endpoint import HttpsEndpoint
from webhookhub import crypto

NOT_A_HEADER = "is not a header"
OWN = "the hub itself sets the header"
CHARACTERS = "contains characters that a header must not contain"
EMPTY = "has no value"
SPACE = "starts with white space"
NUL = "contains a NUL character"

FORBIDDEN = [
    "Host",
    "hOsT",
    "Content-Length",
    "Content_Length",
    "Content-Type",
    "Content-Encoding",
    "Transfer-Encoding",
    "TRANSFER-ENCODING",
    "Connection",
    "Keep-Alive",
    "Upgrade",
    "TE",
    "Trailer",
    "Expect",
    "User-Agent",
    "traceparent",
    "webhook-id",
    "Webhook_Signature",
    "WEBHOOK-TIMESTAMP",
    "webhook-anything",
    "webhook-",
    "Proxy-Authorization",
    "PROXY-",
]
# text, line of the error, error
BAD = [
    *[(f"X-Good: 1\n{name}: x", 2, OWN) for name in FORBIDDEN],
    ("X-A: a\rX-B: b", 1, CHARACTERS),
    ("X-A: a\r\r\n", 1, CHARACTERS),
    ("X-A\r: a", 1, NOT_A_HEADER),
    ("\r", 1, NOT_A_HEADER),
    ("X-A: a\0", 1, NUL),
    ("X-A: a\nX-\0B: b", 2, NUL),
    ("\0", 1, NUL),
    ("X-A: a\n\nHost: evil", 3, OWN),
    ("X-A: a\r\nHost: evil", 2, OWN),
    ("X-A: a\n folded", 2, SPACE),
    ("X-A: a\n\tfolded: more", 2, SPACE),
    (" X-A: a", 1, SPACE),
    ("X-A : a", 1, NOT_A_HEADER),
    ("Host : evil", 1, NOT_A_HEADER),
    ("X A: a", 1, NOT_A_HEADER),
    ("X-A", 1, NOT_A_HEADER),
    (": a", 1, NOT_A_HEADER),
    (":authority: evil", 1, NOT_A_HEADER),
    ("@/etc/passwd", 1, NOT_A_HEADER),
    ('"X-A": a', 1, NOT_A_HEADER),
    ("X-Ä: a", 1, NOT_A_HEADER),
    ("Hоst: cyrillic", 1, NOT_A_HEADER),
    ("\ufeffX-A: a", 1, NOT_A_HEADER),
    ("X-A: ä", 1, CHARACTERS),
    ("X-A: 🦊", 1, CHARACTERS),
    ("X-A: a\x0cHost: evil", 1, CHARACTERS),
    ("X-A: a\x1b[31m", 1, CHARACTERS),
    ("X-A: a\x7f", 1, CHARACTERS),
    ("X-A: a\x85Host: evil", 1, CHARACTERS),
    ("X-A: a\u2028Host: evil", 1, CHARACTERS),
    ("X-A: \ud800", 1, CHARACTERS),
    ("\u2028", 1, NOT_A_HEADER),
    ("X-A:", 1, EMPTY),
    ("X-A: \t ", 1, EMPTY),
    ("X-A: 1\nX-B: 2\nx-a: 3", 3, "appears twice"),
    ("X-A: " + "x" * (MAX_BYTES - 4), 1, "longer than 4096 bytes"),
    ("X" * 101 + ": x", 1, NOT_A_HEADER),
    ("".join(f"X-{n}: x\n" for n in range(MAX_HEADERS + 1)), MAX_HEADERS + 1, "at most 20"),
    ("".join(f"X-{n}: x\n\n" for n in range(5000)), 2 * MAX_HEADERS + 1, "at most 20"),
]


@pytest.mark.parametrize(("text", "line", "message"), [pytest.param(*case, id=ascii(case[0])[1:50]) for case in BAD])
def test_an_invalid_header_is_refused_with_its_line(text: str, line: int, message: str):
    with pytest.raises(UnacceptableHeaders, match=f"Line {line}\\b.*{message}"):
        parse(text)


def test_an_error_does_not_contain_the_value():
    for text in ("X-A: top-secret \x7f", "Host: top-secret", "top-secret", f"X-A: top-secret{'x' * MAX_BYTES}"):
        with pytest.raises(UnacceptableHeaders) as caught:
            parse(text)
        assert "top-secret" not in str(caught.value)


GOOD = [
    ("", []),
    ("\n\r\n \t\n", []),
    ("X-A: a", ["X-A: a"]),
    ("X-A:a", ["X-A: a"]),
    ("X-A: \t a b \t", ["X-A: a b"]),
    ("X-A: a\r\nX-B: b\r\n", ["X-A: a", "X-B: b"]),
    ("Authorization: Basic dXNlcjpwYXNz", ["Authorization: Basic dXNlcjpwYXNz"]),
    ("X-A: a:b; c=\"d\", 'e' \\ <f> {g} %00", ["X-A: a:b; c=\"d\", 'e' \\ <f> {g} %00"]),
    ("X-A: a\tb", ["X-A: a\tb"]),
    ("!#$%&'*+.^_`|~-9: odd", ["!#$%&'*+.^_`|~-9: odd"]),
    ("webhook: x\nproxy: y\nHosts: z", ["webhook: x", "proxy: y", "Hosts: z"]),
    ("X-A: " + "x" * (MAX_BYTES - 5), ["X-A: " + "x" * (MAX_BYTES - 5)]),
    ("\n".join(f"X-{n}: {n}" for n in range(MAX_HEADERS)), [f"X-{n}: {n}" for n in range(MAX_HEADERS)]),
]


@pytest.mark.parametrize(("text", "lines"), [pytest.param(*case, id=ascii(case[0])[1:50]) for case in GOOD])
def test_a_valid_header_is_normalised(text: str, lines: list[str]):
    assert parse(text) == lines
    assert parse("\n".join(lines)) == lines
    assert names("\n".join(lines)) == [line.partition(":")[0] for line in lines]


def with_headers(text: str, url: str) -> Subscription:
    created: Subscription = SubscriptionFactory.create(callback_url=url, custom_headers=crypto.encrypt(text))
    return created


@pytest.mark.django_db
@pytest.mark.parametrize("lines", [lines for _, lines in GOOD[-6:] if lines], ids=lambda lines: lines[0][:30])
def test_a_valid_header_arrives(endpoint: HttpsEndpoint, lines: list[str]):
    subscription = with_headers("\n".join(lines), endpoint.url())

    assert send_test(subscription).response.error_code is None

    [request] = endpoint.received
    for line in lines:
        name, _, value = line.partition(": ")
        assert request.headers[name.lower()] == value


@pytest.mark.django_db
def test_the_hubs_headers_are_sent_once(endpoint: HttpsEndpoint):
    subscription = with_headers("Authorization: Bearer x\nAccept: text/plain", endpoint.url())

    send_test(subscription)

    headers = endpoint.received[0].headers
    assert headers["content-type"] == "application/json"
    assert headers["user-agent"].startswith("WebhookHub/")
    assert headers["host"] == f"127.0.0.1:{endpoint.port}"
    assert headers["accept"] == "text/plain"


@pytest.mark.django_db
def test_stored_headers_that_became_invalid_fail_the_attempt_only(endpoint: HttpsEndpoint):
    """Stricter rules for stored headers must not stop other deliveries."""
    subscription = with_headers("Host: elsewhere", endpoint.url("/bad"))
    JobFactory(saga__subscription=subscription)
    JobFactory(saga__subscription__callback_url=endpoint.url("/good"))

    worker = Worker("w")
    for _ in range(200):
        worker.turn(10)
        if not Job.objects.filter(status__in=["Pending", "Leased"]).exists():
            break
    worker.close()

    assert list(Job.objects.order_by("id").values_list("error_code", flat=True)) == ["invalid_request", None]
    assert [request.path for request in endpoint.received] == ["/good"]
    assert send_test(subscription).response.error_code == "invalid_request"
