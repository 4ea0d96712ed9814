"""Thousands of hostile requests to the running server: each gets a documented refusal, and nothing is stored."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest
import requests

from api import keys
from api.scopes import SCOPES
from deadletters.models import DeadLetter, Requeue
from events.intake import publish
from events.models import Event
from events.payloads import MAX_BYTES
from jobs.models import Job
from sagas.models import Saga
from subscriptions.models import Subscription
from tests.factories import SubscriptionFactory
from tests.support import rows
from tests.support.web import WebServer
from tests.workflows import shop
from workflows.models import Fact, Instance

pytestmark = pytest.mark.usefixtures("committed")

MIN_REQUESTS = 2000
SEED = 20260131
JSON = "application/json"
SERVERS = (400, 414, 431)  # of the web server itself, without a problem document
TABLES = (Event, Saga, Job, DeadLetter, Requeue, Subscription, Instance, Fact)
# Values for fields, parameters and parts of a path. FITTING lists where they are valid.
WRONG_VALUES: list[Any] = [
    *(None, True, 0, -1, 1.5, 2**63, 2**64, 10**30, [], {}, [[]], {"a": 1}, ""),
    *(" ", "a b", "\x00", "\n", "\u2028", "\u202e", "\ud800", "😀" * 300, "x" * 300, "x" * 5000),
    *("' OR 1=1 --", "${7*7}", "{{7*7}}", "../../etc/passwd", "%00", "<script>", "null", "undefined", "NaN", "-0"),
]
WRONG_PAYLOADS = [
    *(b"NaN", b"Infinity", b"-Infinity", b"1e999", b"-1e999", b"18446744073709551616", b"-9223372036854775809"),
    *(b"0.1000000000000000055511151231257827", b"01", b"+1", b".5", b"1.", b"0x10", b"1_000", b"nul", b"True"),
    *(b"'a'", b'"', b'"\\"', b'"\\x"', b'"\\u12"', b'"\\ud800"', b'"\\udc00\\ud800"', b'"\\u0000"', b'"\x00"', b'"\t"'),
    *(b"[", b"]", b"[1,]", b"[,1]", b"[1 2]", b"{", b"}", b'{"a"}', b'{"a":}', b'{"a":1,}', b"{1:1}", b"{a:1}"),
    *(b'{"a":1,"a":1}', b'{"a":1,"\\u0061":2}', b'{"x":{"y":1,"y":2}}', b"// x\n1", b"/* x */1", b"1 1", b""),
    *(b"\xff", b'"\xff"', b'"\xc0\x80"', b'"\xed\xa0\x80"', b"\xef\xbb\xbf1", b"[" * 65 + b"]" * 65),
    *(
        b"[" * 3000 + b"]" * 3000,
        b'{"a":' * 70 + b"1" + b"}" * 70,
        b"[" * 100_000,
        b"9" * 5000,
        b'"' + b"x" * MAX_BYTES + b'"',
        b'{"' + b"k" * 65_536 + b'":1}',
        b'{"' + "é".encode() * 32_768 + b'":1}',
    ),
]
ENCODINGS = ["utf-16", "utf-32", "utf-16-le", "utf-8-sig", "latin-1", "utf-7"]


class Hostile(NamedTuple):
    method: str
    path: str
    body: bytes = b""
    content_type: str = JSON
    headers: tuple[tuple[str, str], ...] = ()


def text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def in_address(value: Any) -> str:
    return quote(text(value).encode(errors="surrogatepass"), safe="")


def bodies(rng: random.Random) -> Iterator[bytes]:
    """Bodies that are not valid events."""
    good = {"event_type": "order.created", "payload": {"n": 1}}
    for field in ("event_type", "external_id", "correlation_id"):
        for value in WRONG_VALUES:
            if value is not None and not (_is_type(value) if field == "event_type" else _is_name(value)):
                yield json.dumps(good | {field: value}).encode()
        for value in (b"NaN", b"Infinity", b"-Infinity"):
            yield b'{"event_type":"a","payload":1,"' + field.encode() + b'":' + value + b"}"
    for payload in WRONG_PAYLOADS:
        yield b'{"event_type":"a","payload":' + payload + b"}"
        yield b'{"payload":' + payload + b',"event_type":"a","external_id":"x"}'
        yield b'{"event_type":"a","payload":{"deep":[' + payload + b",1]}}"
    for value in WRONG_VALUES:
        yield json.dumps(value).encode()
        yield json.dumps(good | {text(value)[:50] + "?": 1}).encode()
    whole = json.dumps(good).encode()
    for encoding in ENCODINGS:
        yield json.dumps(good | {"payload": "é"}, ensure_ascii=False).encode(encoding) + b"\xff"
    for end in range(len(whole)):
        yield whole[:end]
    for _ in range(400):
        yield _corrupted(whole, rng)


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and 1 <= len(value) <= 200 and value.isprintable() and value == value.strip()


def _corrupted(good: bytes, rng: random.Random) -> bytes:
    """Inserts a control character or a byte that is not UTF-8."""
    at = rng.randrange(len(good))
    return good[:at] + bytes([rng.choice([0x00, 0x01, 0x1F, 0x80, 0xC0, 0xF5, 0xFF])]) + good[at + rng.randrange(2) :]


def requests_of(ids: dict[str, Any]) -> Iterator[Hostile]:
    """`ids` are those of existing rows of another producer."""
    rng = random.Random(SEED)
    for body in bodies(rng):
        yield Hostile("POST", "/events", body)
    for value in WRONG_VALUES:
        if value != [] and not isinstance(value, list):
            yield Hostile("POST", "/events/batch", json.dumps({"events": value}).encode())
        yield Hostile("POST", "/events/batch", json.dumps({"events": [], "x": value}).encode())
        yield Hostile("POST", "/events/batch", json.dumps(value).encode())
    yield Hostile("POST", "/events/batch", b'{"events":[' + b"1," * 5000 + b"1]}")
    yield Hostile("POST", "/events", b" " * (MAX_BYTES + 10_000))
    for content_type in (
        "text/plain",
        "application/xml",
        "multipart/form-data",
        "application/json;charset=utf-16",
        "x",
    ):
        yield Hostile("POST", "/events", b'{"event_type":"a","payload":1}', content_type)
    for key in ("x" * 201, "\x7f", "a\tb"):
        yield Hostile("POST", "/events", b'{"event_type":"a","payload":1}', JSON, (("Idempotency-Key", key),))
    yield Hostile("POST", "/events", b'{"event_type":"saga.completed","payload":1}')
    for value in WRONG_VALUES:
        shown = in_address(value)
        for name in ("limit", "status", "subscription", "event", "event_type", "since", "until", "cursor", "colour"):
            if not (name == "event_type" and _is_type(text(value))):
                yield Hostile("GET", f"/deliveries?{name}={shown}")
        for name in ("limit", "error_code", "subscription", "since", "until", "cursor", "id"):
            if not (name == "error_code" and _is_code(text(value))):
                yield Hostile("GET", f"/dead-letters?{name}={shown}")
        for name in ("limit", "cursor", "callback_url"):
            yield Hostile("GET", f"/subscriptions?{name}={shown}")
        for path in ("/events/{}", "/deliveries/{}", "/dead-letters/{}", "/subscriptions/{}"):
            yield Hostile("GET", path.format(shown or "%20"))
        for path in ("/dead-letters/{}/requeue", "/subscriptions/{}/verify", "/subscriptions/{}/backfill"):
            yield Hostile("POST", path.format(shown or "%20"), b'{"reason":"x","since":"2026-01-01T00:00:00Z"}')
    yield from edits(ids)
    yield from of_workflows(ids["workflow"])


def edits(ids: dict[str, Any]) -> Iterator[Hostile]:
    subscription, letter = f"/subscriptions/{ids['subscription']}", f"/dead-letters/{ids['letter']}"
    for value in WRONG_VALUES:
        for name, fits in FITTING.items():
            if not fits(value):
                made = {"event_type": "a", "callback_url": "https://127.0.0.1:1025/new", name: value}
                yield Hostile("PATCH", subscription, json.dumps({name: value}).encode())
                yield Hostile("POST", "/subscriptions", json.dumps(made).encode())
        for name in ("limit", "subscription", "since", "until", "cursor", "colour", "error_code"):
            if value is not None and not (name == "error_code" and _is_code(value)):
                yield Hostile("POST", "/dead-letters/requeue", json.dumps({"reason": "x", name: value}).encode())
        for name in ("since", "limit", "cursor", "colour"):
            filters = {"since": "2026-01-01T00:00:00Z", name: value}
            yield Hostile("POST", f"{subscription}/backfill", json.dumps(filters).encode())
        if not (isinstance(value, str) and 1 <= len(value.strip()) <= 500 and value.isprintable()):
            yield Hostile("POST", f"{letter}/requeue", json.dumps({"reason": value}).encode())


def of_workflows(saga_id: Any) -> Iterator[Hostile]:
    for value in WRONG_VALUES:
        for name in ("limit", "saga_type", "status", "since", "until", "cursor", "needs_operator", "colour"):
            if not (name == "needs_operator" and text(value) in ("0", "true")):
                yield Hostile("GET", f"/sagas?{name}={in_address(value)}")
        yield Hostile("GET", f"/sagas?step={in_address(value)}")
        yield Hostile("GET", f"/sagas/{in_address(value) or '%20'}/timeline")
        for verb in ("step", "compensation-failed", "retry", "mark-compensated", "fail", "compensated"):
            if value is not None or verb in ("step", "compensation-failed", "retry"):
                more = {"reason": "x"} if verb in ("retry", "mark-compensated") else {}
                body = {"step": value, "idempotency_key": "k", **more}
                yield Hostile("POST", f"/sagas/{saga_id}/{verb}", json.dumps(body).encode())
        body = {"saga_type": value, "correlation_id": "x", "idempotency_key": "k"}
        yield Hostile("POST", "/sagas", json.dumps(body).encode())
        if value is not None and not _is_name(value):
            body = {"saga_type": "order_submission", "correlation_id": value, "idempotency_key": "k"}
            yield Hostile("POST", "/sagas", json.dumps(body).encode())
            body = {"step": "payment", "idempotency_key": value}
            yield Hostile("POST", f"/sagas/{saga_id}/step", json.dumps(body).encode())
        if not (_is_name(value) or (isinstance(value, str) and value == "😀" * 300) or value == "x" * 300):
            body = {"reason": value, "idempotency_key": "k"}
            yield Hostile("POST", f"/sagas/{saga_id}/close", json.dumps(body).encode())


def _is_type(value: Any) -> bool:
    return (
        isinstance(value, str)
        and 1 <= len(value) <= 100
        and all(c.isascii() and (c.isalnum() or c in "_.-") for c in value)
    )


def _is_code(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(r"[a-z0-9_]{1,100}", value) is not None


# The values above that are valid for a field.
FITTING: dict[str, Callable[[Any], bool]] = {
    "event_type": _is_type,
    "callback_url": lambda value: False,
    "active": lambda value: isinstance(value, bool),
    "max_retry_limit": lambda value: value is None,
    "base_delay": lambda value: value is None or (value == 1.5),
    "retry_delays": lambda value: value is None,
    "verified": lambda value: False,
    "secret": lambda value: False,
    "headers": lambda value: value == {},
}


def contents() -> list[Any]:
    return [list(table.objects.order_by("pk").values()) for table in TABLES]


@pytest.fixture
def ids(committed: None) -> dict[str, Any]:
    """Ids of rows of another producer. The subscription is not verified, so that nothing can be backfilled."""
    letter = rows.dead_letter("http_500")
    event = publish("order.created", {"n": 1}, source="another")
    subscription: Any = SubscriptionFactory(verified=False)
    workflow = shop.waiting_for_payment("o-1").saga_id
    return {
        "letter": letter.pk,
        "delivery": letter.saga_id,
        "event": event.uid,
        "subscription": subscription.pk,
        "workflow": workflow,
    }


def send_all(web: WebServer, key: str, requests_to_send: list[Hostile]) -> Counter[int]:
    statuses: Counter[int] = Counter()
    wrong: list[Any] = []
    with requests.Session() as session:
        for request in requests_to_send:
            try:
                response = _send(session, web, key, request)
            except requests.ConnectionError:
                # The server may close an idle connection, or one whose body it does not read. A new one must work.
                with requests.Session() as fresh:
                    response = _send(fresh, web, key, request)
            problem = response.headers["Content-Type"] == "application/problem+json" or response.status_code in SERVERS
            if not 400 <= response.status_code < 500 or not problem:
                wrong.append(
                    (request.method, request.path[:100], request.body[:100], response.status_code, response.text[:100])
                )
            statuses[response.status_code] += 1
    assert wrong == []
    return statuses


def _send(session: requests.Session, web: WebServer, key: str, request: Hostile) -> requests.Response:
    return session.request(
        request.method,
        f"{web.url}/api/v1{request.path}",
        data=request.body or None,
        headers={"Authorization": f"Bearer {key}", "Content-Type": request.content_type, **dict(request.headers)},
        timeout=60,
    )


def test_every_hostile_request_is_refused_as_documented_and_nothing_is_stored(web: WebServer, ids: dict[str, Any]):
    key = keys.create("everything", SCOPES, by="tests", events_per_second=100_000)[1]
    requests_to_send = list(dict.fromkeys(requests_of(ids)))
    assert len(requests_to_send) >= MIN_REQUESTS
    before = contents()

    with ThreadPoolExecutor(4) as pool:
        statuses = sum(pool.map(lambda part: send_all(web, key, requests_to_send[part::4]), range(4)), Counter())

    assert sum(statuses.values()) == len(requests_to_send)
    assert set(statuses) <= {400, 403, 404, 405, 409, 413, 414, 415, 422, 431}, statuses
    assert statuses[422] > MIN_REQUESTS // 2
    assert contents() == before


def test_objects_of_other_producers_are_never_found(web: WebServer, ids: dict[str, Any]):
    key = keys.create("stranger", ["events:write", "read", "deadletters:requeue"], by="tests", source="stranger")[1]
    before = contents()
    foreign = [
        Hostile("GET", f"/events/{ids['event']}"),
        Hostile("GET", f"/deliveries/{ids['delivery']}"),
        Hostile("GET", f"/dead-letters/{ids['letter']}"),
        Hostile("POST", f"/dead-letters/{ids['letter']}/requeue", b'{"reason":"x"}'),
    ]

    assert send_all(web, key, foreign) == {404: len(foreign)}
    assert send_all(web, key, [Hostile("GET", f"/subscriptions/{ids['subscription']}")]) == {403: 1}
    assert contents() == before
