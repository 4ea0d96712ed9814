"""Events through the WSGI application: the same responses as through Django, without its middleware."""

from __future__ import annotations

import io
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, NamedTuple

import pytest
from django.core.signals import request_finished, request_started
from django.db import OperationalError, close_old_connections, connection
from django.test import Client

from api import ingest, keys, limits
from api.models import ApiKey
from events.models import Event
from events.payloads import MAX_BYTES
from webhookhub.db import clock
from webhookhub.wsgi import application

from .conftest import Program

pytestmark = pytest.mark.django_db

EVENT = {"event_type": "order.created", "payload": {"n": 1}}
BODY = json.dumps(EVENT).encode()
SEND, SEND_MANY = "/api/v1/events", "/api/v1/events/batch"
LARGE = str(MAX_BYTES + 40 * 1024 + 1)


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def environ(path: str, body: bytes, key: str = "", **more: Any) -> dict[str, Any]:
    return {
        "REQUEST_METHOD": "POST",
        "PATH_INFO": path,
        "SCRIPT_NAME": "",
        "QUERY_STRING": "",
        "SERVER_NAME": "testserver",
        "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": "127.0.0.1",
        "HTTP_HOST": "testserver",
        "CONTENT_TYPE": "application/json",
        "CONTENT_LENGTH": str(len(body)),
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": sys.stderr,
        "wsgi.url_scheme": "http",
        **({"HTTP_AUTHORIZATION": f"Bearer {key}"} if key else {}),
        **more,
    }


def ask(request: dict[str, Any]) -> Answer:
    started: list[Any] = []
    body = b"".join(application(request, lambda status, headers: started.append((status, headers))))
    [(status, headers)] = started
    assert len(dict(headers)) == len(headers), "no header is sent twice"
    return Answer(int(status.split()[0]), dict(headers), body)


def post(path: str, body: bytes, key: str = "", **more: Any) -> Answer:
    return ask(environ(path, body, key, **more))


@pytest.fixture(autouse=True)
def _no_cached_keys() -> None:
    keys._cache.clear()


@pytest.fixture(autouse=True)
def _open_connections() -> Iterator[None]:
    """Django's test client does this, too: the test's connection stays open."""
    for sent in (request_started, request_finished):
        sent.disconnect(close_old_connections)
    yield
    for sent in (request_started, request_finished):
        sent.connect(close_old_connections)


@pytest.fixture
def sender(program: Callable[..., Program]) -> str:
    return program("sender", "events:write", source="shop").text


@pytest.fixture
def reader(program: Callable[..., Program]) -> str:
    return program("reader", "read").text


@pytest.fixture
def _not_through_django(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("the request reached Django")

    monkeypatch.setattr("django.core.handlers.base.BaseHandler.get_response", refuse)


# Each with the status; the same request is sent through Django, too.
REQUESTS: dict[str, tuple[int, str, bytes, dict[str, Any]]] = {
    "stored": (201, SEND, BODY, {}),
    "batch": (200, SEND_MANY, json.dumps({"events": [EVENT, {"event_type": "é"}]}).encode(), {}),
    "no key": (401, SEND, BODY, {"HTTP_AUTHORIZATION": ""}),
    "basic": (401, SEND, BODY, {"HTTP_AUTHORIZATION": "Basic whk_0_0"}),
    "wrong key": (401, SEND_MANY, BODY, {"HTTP_AUTHORIZATION": "Bearer whk_000000000000_x"}),
    "reserved": (403, SEND, b'{"event_type":"saga.x","payload":1}', {}),
    "too large": (413, SEND, b"", {"CONTENT_LENGTH": LARGE}),
    "large payload": (413, SEND, json.dumps(EVENT | {"payload": "x" * MAX_BYTES}).encode(), {}),
    "no length": (411, SEND, b"", {"CONTENT_LENGTH": "", "HTTP_TRANSFER_ENCODING": "chunked"}),
    "text": (415, SEND, BODY, {"CONTENT_TYPE": "text/plain"}),
    "latin-1": (415, SEND_MANY, BODY, {"CONTENT_TYPE": "application/json; charset=latin-1"}),
    "gzip": (415, SEND, BODY, {"HTTP_CONTENT_ENCODING": "gzip"}),
    "coding": (415, SEND, BODY, {"HTTP_TRANSFER_ENCODING": "gzip, chunked"}),
    "empty": (422, SEND, b"", {}),
    "malformed": (422, SEND, b'{"event_type":', {}),
    "malformed batch": (422, SEND_MANY, b'{"events":[1,]}', {}),
    "not UTF-8": (422, SEND, b'{"event_type":"\xff","payload":1}', {}),
    "duplicate key": (422, SEND, b'{"event_type":"a","payload":{"x":1,"x":2}}', {}),
    "empty idempotency key": (422, SEND, BODY, {"HTTP_IDEMPOTENCY_KEY": " "}),
    "long idempotency key": (422, SEND, BODY, {"HTTP_IDEMPOTENCY_KEY": "x" * 201}),
    "other idempotency key": (
        422,
        SEND,
        json.dumps(EVENT | {"external_id": "1"}).encode(),
        {"HTTP_IDEMPOTENCY_KEY": "2"},
    ),
    "batch with idempotency key": (422, SEND_MANY, BODY, {"HTTP_IDEMPOTENCY_KEY": "1"}),
    "cut short": (400, SEND, BODY, {"CONTENT_LENGTH": str(len(BODY) + 10)}),
}


def without_ids(answer: Answer) -> Answer:
    """Without what differs between two stored events."""
    headers = {name: value for name, value in answer.headers.items() if name != "Location"}
    body = answer.json
    for result in body.get("results", [body]):
        result.pop("uid", None)
        result.pop("correlation_id", None)
    return Answer(answer.status, headers, json.dumps(body).encode())


@pytest.mark.usefixtures("_not_through_django")
@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_gets_its_status_without_django(name: str, sender: str):
    status, path, body, more = REQUESTS[name]

    answer = post(path, body, sender, **more)

    assert answer.status == status
    assert answer.headers["Content-Length"] == str(len(answer.body))
    assert (answer.headers["Content-Type"] == "application/problem+json") is (status >= 400)
    assert answer.json.get("status", status) == status
    assert Event.objects.count() == (status < 400)


@pytest.mark.parametrize("name", REQUESTS)
def test_the_response_is_the_same_as_through_django(name: str, sender: str, monkeypatch: pytest.MonkeyPatch):
    _, path, body, more = REQUESTS[name]
    direct = post(path, body, sender, **more)
    monkeypatch.setattr(ingest, "is_for", lambda environ: False)

    through_django = post(path, body, sender, **more)

    assert without_ids(direct) == without_ids(through_django)


def test_a_key_without_the_scope_is_forbidden(reader: str):
    answer = post(SEND, BODY, reader)

    assert (answer.status, answer.json["detail"]) == (403, "This key lacks the scope events:write.")


def test_a_repeated_event_and_a_conflict(sender: str):
    event = EVENT | {"external_id": "1"}
    answers = [post(SEND, json.dumps(body).encode(), sender) for body in (event, event, event | {"payload": 2})]

    assert [answer.status for answer in answers] == [201, 200, 409]
    uid = answers[0].json["uid"]
    assert [answer.json["uid"] for answer in answers] == [uid] * 3
    assert [answer.headers.get("Location") for answer in answers] == [f"/api/v1/events/{uid}"] * 2 + [None]


def test_a_key_beyond_its_limit_gets_429_with_retry_after(program: Callable[..., Program]):
    key = program("slow", "events:write", events_per_second=1).text
    assert post(SEND_MANY, json.dumps({"events": [EVENT] * 20}).encode(), key).status == 200

    answer = post(SEND, BODY, key)

    assert answer.status == 429
    assert 1 <= int(answer.headers["Retry-After"]) <= 11
    assert Event.objects.count() == 20


def test_a_lost_database_is_503_with_retry_after(sender: str, monkeypatch: pytest.MonkeyPatch):
    def lose(*args: Any) -> None:
        raise OperationalError(2013, "Lost connection")

    monkeypatch.setattr(ingest, "publish_many", lose)
    answer = post(SEND, BODY, sender)

    assert (answer.status, answer.headers["Retry-After"]) == (503, "5")
    assert answer.headers["Content-Type"] == "application/problem+json"


def test_an_unexpected_error_reveals_nothing(
    sender: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    def break_down(*args: Any) -> None:
        raise RuntimeError("canary 7f3a")

    monkeypatch.setattr(ingest, "publish_many", break_down)
    answer = post(SEND, BODY, sender)

    assert answer.status == 500
    assert b"canary" not in answer.body
    assert "canary" not in caplog.text
    assert "api_failed" in caplog.text


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "PUT", "PATCH", "DELETE", "TRACE", "POSTS"])
@pytest.mark.parametrize("path", [SEND, SEND_MANY])
def test_other_methods_are_not_allowed(method: str, path: str, sender: str):
    answer = post(path, BODY, sender, REQUEST_METHOD=method, HTTP_X_HTTP_METHOD_OVERRIDE="POST")

    assert answer.status == 405
    assert answer.headers["Allow"] == "POST"
    assert not Event.objects.exists()


@pytest.mark.parametrize(
    "path",
    [
        f"{SEND}/",
        f"{SEND_MANY}/",
        "//api/v1/events",
        "/api//v1/events",
        "/api/v1/./events",
        "/api/v1/events/../events",
        "/api/v1/events;x",
        "/api/v1/events%2Fbatch",
        "/api/v1/events ",
        "/api/v1/events\0",
        "/API/v1/events",
        "",
    ],
)
def test_a_similar_path_stores_nothing(path: str, sender: str):
    answer = post(path, BODY, sender)

    assert answer.status in (302, 403, 404, 405, 422), answer
    assert not Event.objects.exists()


def test_a_query_string_changes_nothing(sender: str):
    assert post(SEND, BODY, sender, QUERY_STRING="path=/api/v1/events/batch&_method=GET").status == 201


@pytest.mark.parametrize("host", ["elsewhere.example", "testserver@elsewhere.example", "testserver/x", ""])
def test_an_unknown_host_is_a_problem(host: str, sender: str):
    answer = post(SEND, BODY, sender, HTTP_HOST=host)

    assert (answer.status, answer.headers["Content-Type"]) == (400, "application/problem+json")
    assert not Event.objects.exists()


@pytest.mark.parametrize(("name", "status"), [("testserver", 201), ("elsewhere.example", 400)])
def test_a_request_without_a_host_is_judged_by_the_servers_name(name: str, status: int, sender: str):
    request = environ(SEND, BODY, sender, SERVER_NAME=name)
    del request["HTTP_HOST"]

    assert ask(request).status == status


def test_the_allowed_hosts_are_a_setting(sender: str, settings: Any):
    assert post(SEND, BODY, sender).status == 201

    settings.ALLOWED_HOSTS = ["elsewhere.example"]

    assert post(SEND, BODY, sender).status == 400
    assert post(SEND, BODY, sender, HTTP_HOST="elsewhere.example:8000").status == 201


def test_a_malformed_content_type_is_refused_before(sender: str):
    answer = post(SEND, BODY, sender, CONTENT_TYPE="application/json; charset*=bogus'x'%41")

    assert (answer.status, "Content-Type" in answer.json["detail"]) == (400, True)


def test_a_chunked_body_is_read_up_to_the_limit(sender: str):
    chunked = {"HTTP_TRANSFER_ENCODING": "chunked", "wsgi.input_terminated": True, "CONTENT_LENGTH": ""}

    assert post(SEND, BODY, sender, **chunked).status == 201
    assert post(SEND, BODY + b" " * int(LARGE), sender, **chunked).status == 413
    assert Event.objects.count() == 1


def test_a_body_that_cannot_be_read_is_a_bad_request(sender: str):
    class Broken:
        def read(self, size: int) -> bytes:
            raise OSError("the client has gone")

    assert post(SEND, BODY, sender, **{"wsgi.input": Broken()}).status == 400


def test_a_known_key_takes_no_statements(sender: str, django_assert_num_queries: Any):
    for _ in range(2):
        assert keys.find_cached(sender) is not None

    with django_assert_num_queries(0):
        assert all(keys.find_cached(sender) for _ in range(100))


def test_a_wrong_secret_of_a_known_key_takes_the_statement_of_an_unknown_key(
    sender: str, django_assert_num_queries: Any
):
    assert keys.find_cached(sender) is not None

    for wrong in (sender + "x", sender[:-1], sender.replace("whk_", "whk_0"), "whk_000000000000_x"):
        with django_assert_num_queries(1):
            assert keys.find_cached(wrong) is None
    assert len(keys._cache) == 1


@pytest.fixture
def passing_time(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Lets time pass for the cache of keys."""
    passed = 0.0

    def later(seconds: float) -> None:
        nonlocal passed
        passed += seconds

    class Clock:
        @staticmethod
        def monotonic() -> float:
            return time.monotonic() + passed

    monkeypatch.setattr(keys, "time", Clock)
    return later


@pytest.mark.parametrize(
    ("change", "status"),
    [
        (lambda: ApiKey.objects.update(revoked_at=clock.now()), 401),
        (lambda: ApiKey.objects.update(expires_at=clock.now() - timedelta(seconds=1)), 401),
        (lambda: ApiKey.objects.update(scopes="read"), 403),
        (lambda: ApiKey.objects.all().delete(), 401),
        (lambda: ApiKey.objects.update(secret_sha256="0" * 64), 401),
    ],
    ids=["revoked", "expired", "scope", "deleted", "secret"],
)
def test_a_change_of_a_key_has_effect_within_a_second(
    change: Callable[[], Any], status: int, sender: str, passing_time: Callable[[float], None]
):
    assert post(SEND, BODY, sender).status == 201
    change()

    passing_time(1.0)

    assert post(SEND, BODY, sender).status == status
    assert Event.objects.count() == 1


def test_a_changed_rate_has_effect_within_a_second(sender: str, passing_time: Callable[[float], None]):
    assert post(SEND, BODY, sender).status == 201
    ApiKey.objects.update(events_per_second=1)

    passing_time(1.0)

    caller = keys.find_cached(sender)
    assert caller is not None
    assert caller.key.events_per_second == 1


def test_a_key_expires_while_it_is_cached(program: Callable[..., Program], passing_time: Callable[[float], None]):
    key = program("short", "events:write", expires_at=clock.now() + timedelta(seconds=0.5)).text
    assert keys.find_cached(key) is not None

    passing_time(0.6)

    assert keys.find_cached(key) is None


def test_the_last_use_is_recorded(sender: str):
    assert post(SEND, BODY, sender).status == 201

    assert ApiKey.objects.get().last_used_at is not None


def test_a_request_of_a_known_key_takes_only_the_statements_of_its_event(sender: str, django_assert_num_queries: Any):
    post(SEND, BODY, sender)

    with django_assert_num_queries(1):  # the insert, whose id the driver returns
        assert post(SEND, BODY, sender).status == 201


@pytest.mark.usefixtures("committed")
def test_a_thousand_parallel_requests_are_stored():
    key = keys.create("many", ["events:write"], by="tests", events_per_second=100_000)[1]
    statuses: list[int] = []

    def send(first: int) -> None:
        for number in range(first, 1000, 20):
            body = json.dumps(EVENT | {"external_id": str(number)}).encode()
            statuses.append(post(SEND, body, key).status)
        connection.close()

    threads = [threading.Thread(target=send, args=(first,)) for first in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert statuses == [201] * 1000
    assert Event.objects.count() == 1000
    assert limits._buckets


def test_the_documentation_describes_the_idempotency_key():
    operation = Client().get("/api/openapi.json").json()["paths"][SEND]["post"]

    [parameter] = operation["parameters"]
    assert (parameter["in"], parameter["name"], parameter["required"]) == ("header", "Idempotency-Key", False)
