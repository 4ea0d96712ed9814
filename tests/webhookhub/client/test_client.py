"""The client against a scripted hub."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from webhookhub import client as exported
from webhookhub.client import (
    Client,
    Conflict,
    DeliveryRequest,
    Event,
    Failed,
    Forbidden,
    HubError,
    Invalid,
    Published,
    RateLimited,
    TooLarge,
    Unauthorized,
    Unavailable,
    UnexpectedResponse,
    raise_for_failures,
)

from .scripted import Request, Response, ScriptedHub, problem, stored

ROOT = Path(__file__).resolve().parents[3]
KEY = "whk_id_secret"


def client(hub: ScriptedHub, **options: Any) -> Client:
    return Client(hub.url, KEY, **{"deadline": 5.0, "timeout": 2.0, **options})


def test_it_is_imported_without_settings_and_without_django():
    code = "import sys, webhookhub.client; sys.exit('django' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env={"PATH": ""}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert all(hasattr(exported, name) for name in exported.__all__)


def test_an_event_is_sent_with_its_key_and_fields():
    with ScriptedHub(respond=stored) as hub, client(hub) as producer:
        result = producer.publish(
            "order.created", {"n": "Zoë"}, external_id="o-1", correlation_id="c-1", labels={"region": "eu"}
        )
    [request] = hub.requests
    assert result == Published("u", "o-1", "c", created=True)
    assert (request.path, request.headers["Authorization"]) == ("/api/v1/events", f"Bearer {KEY}")
    assert request.document == {
        "event_type": "order.created",
        "payload": {"n": "Zoë"},
        "external_id": "o-1",
        "correlation_id": "c-1",
        "labels": {"region": "eu"},
    }


def test_an_event_and_a_put_name_their_customer():
    with ScriptedHub(respond=stored) as hub, client(hub) as producer:
        producer.publish("order.created", {}, customer="acme")
        producer.publish_many([Event("order.created", {}, customer="globex")])
    with ScriptedHub(Response(200, {"key": "a:b"})) as second, client(second) as producer:
        producer.put_customer("a:b", "Acme")
        producer.put_customer("a:b")
    assert hub.requests[0].document["customer"] == "acme"
    assert hub.requests[1].document["events"][0]["customer"] == "globex"
    assert [(request.path, request.document) for request in second.requests] == [
        ("/api/v1/customers/a%3Ab", {"name": "Acme"}),
        ("/api/v1/customers/a%3Ab", {}),
    ]


def test_a_request_whose_response_was_lost_is_repeated_with_its_idempotency_key():
    document = {"uid": "r", "kind": "send_now", "changed": 0, "applied_at": None, "new_delivery": None}
    with ScriptedHub(Response(drop=True), Response(202, document)) as hub, client(hub) as staff:
        assert staff.deliveries.send_now(7, "why") == DeliveryRequest(
            "r", "send_now", 0, applied=False, new_delivery=None
        )
        staff.deliveries.send_now(7, "why")
    first, second, third = (request.headers["Idempotency-Key"] for request in hub.requests)
    assert first == second != third
    assert (hub.requests[0].path, hub.requests[0].document) == ("/api/v1/deliveries/7/send-now", {"reason": "why"})


def test_a_response_that_is_no_request_is_unexpected():
    with ScriptedHub(Response(202, {"uid": "r"})) as hub, client(hub) as staff, pytest.raises(UnexpectedResponse):
        staff.deliveries.abandon(7, "why")


def test_an_endpoint_is_created_verified_changed_and_deleted():
    document = {"uid": "u-1", "secret": "whsec_1", "verified": True}
    with ScriptedHub(Response(200, document)) as hub, client(hub) as producer:
        created = producer.create_endpoint("https://a.example/", ["order.*"], customer="acme", rate_limit=5)
        assert (created.uid, created.secret) == ("u-1", "whsec_1")
        assert producer.verify_endpoint(created.uid)
        producer.change_endpoint(created.uid, event_types=["order.paid"])
        producer.delete_endpoint(created.uid)
    assert [request.path for request in hub.requests] == [
        "/api/v1/endpoints",
        "/api/v1/endpoints/u-1/verify",
        "/api/v1/endpoints/u-1",
        "/api/v1/endpoints/u-1",
    ]
    assert hub.requests[0].document == {
        "callback_url": "https://a.example/",
        "event_types": ["order.*"],
        "customer": "acme",
        "rate_limit": 5,
    }
    assert hub.requests[2].document == {"event_types": ["order.paid"]}


def test_a_netrc_file_does_not_replace_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login somebody password else\n")
    monkeypatch.setenv("NETRC", str(netrc))
    with ScriptedHub(respond=stored) as hub, client(hub) as producer:
        producer.publish("a", 1)
    assert hub.requests[0].headers["Authorization"] == f"Bearer {KEY}"


PASSING = {
    "a dropped connection": Response(drop=True),
    "502": problem(502),
    "503": problem(503),
    "504": Response(504, text="<html>gateway</html>"),
    "429": problem(429, headers={"Retry-After": "0"}),
}


@pytest.mark.parametrize("failure", PASSING.values(), ids=PASSING)
def test_a_transient_failure_is_retried_under_the_same_generated_id(failure: Response):
    success = Response(200, {"uid": "u", "created": False, "correlation_id": "c"})
    with ScriptedHub(failure, failure, success) as hub, client(hub) as producer:
        result = producer.publish("a", 1)
    assert len(hub.requests) == 3
    [external_id] = {request.document["external_id"] for request in hub.requests}
    assert (result.external_id, result.created) == (external_id, False)
    assert len(external_id) == 32


def test_two_events_without_an_id_get_two():
    with ScriptedHub(respond=stored) as hub, client(hub) as producer:
        assert producer.publish("a", 1).external_id != producer.publish("a", 1).external_id


def test_a_timeout_is_retried():
    published = threading.Event()
    first = Response(before=lambda: published.wait(60), drop=True)
    with ScriptedHub(first, Response(201, {"uid": "u", "created": True})) as hub, client(hub, timeout=2) as producer:
        assert producer.publish("a", 1).uid == "u"
        published.set()
    assert len(hub.requests) == 2


def test_retry_after_is_respected():
    waits = problem(429, headers={"Retry-After": "1"})
    with ScriptedHub(waits, Response(201, {"uid": "u"})) as hub, client(hub) as producer:
        started = time.monotonic()
        producer.publish("a", 1)
        assert time.monotonic() - started >= 1


def test_a_wait_beyond_the_deadline_is_an_error_at_once():
    with ScriptedHub(problem(429, headers={"Retry-After": "60"})) as hub, client(hub) as producer:
        started = time.monotonic()
        with pytest.raises(RateLimited) as caught:
            producer.publish("a", 1, external_id="x")
        assert time.monotonic() - started < 15
    assert (caught.value.retry_after, caught.value.status, caught.value.external_id) == (60.0, 429, "x")
    assert len(hub.requests) == 1


def test_it_stops_at_the_deadline_and_names_the_external_id():
    with ScriptedHub(problem(503, "The database is away.")) as hub, client(hub, deadline=3.0) as producer:
        started = time.monotonic()
        with pytest.raises(Unavailable, match="The database is away") as caught:
            producer.publish("a", 1)
        assert time.monotonic() - started < 20
    assert 2 <= len(hub.requests) <= 12
    assert caught.value.external_id == hub.requests[0].document["external_id"]


def test_an_unreachable_hub_is_unavailable():
    with ScriptedHub(Response()) as hub:
        pass
    with Client(hub.url, KEY, deadline=0.5) as producer, pytest.raises(Unavailable) as caught:
        producer.publish("a", 1)
    assert caught.value.status is None


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, Unauthorized),
        (403, Forbidden),
        (409, Conflict),
        (413, TooLarge),
        (422, Invalid),
        (404, UnexpectedResponse),
        (302, UnexpectedResponse),
        (500, Unavailable),
    ],
)
def test_a_permanent_error_is_raised_at_once(status: int, kind: type[HubError]):
    refusal = problem(status, "payload is wrong.", errors=[{"field": "payload", "message": "is wrong"}], uid="u-1")
    with ScriptedHub(refusal) as hub, client(hub) as producer, pytest.raises(HubError) as caught:
        producer.publish("a", 1)
    assert type(caught.value) is kind
    assert (caught.value.status, len(hub.requests)) == (status, 1)
    assert str(caught.value) == f"payload is wrong. (status {status})"
    assert caught.value.errors == (("payload", "is wrong"),)
    assert not isinstance(caught.value, Conflict) or caught.value.uid == "u-1"


@pytest.mark.parametrize("text", ["<html>welcome</html>", "[]", "{}", ""])
def test_a_response_that_is_not_from_a_hub_is_an_error(text: str):
    with ScriptedHub(Response(200, text=text)) as hub, client(hub) as producer, pytest.raises(UnexpectedResponse):
        producer.publish("a", 1)


@pytest.mark.parametrize("payload", [float("nan"), {1, 2}, "\ud800"])
def test_a_payload_that_is_not_json_is_refused_before_it_is_sent(payload: Any):
    with ScriptedHub(respond=stored) as hub, client(hub) as producer, pytest.raises(Invalid) as caught:
        producer.publish("a", payload)
    assert caught.value.errors[0].field == "payload"
    assert hub.requests == []


@pytest.mark.parametrize("url", ["", "hub.example.com", "ftp://hub", "https://", "https://hub/?x=1"])
def test_a_wrong_address_is_refused(url: str):
    with pytest.raises(ValueError, match="url must be the hub's address"):
        Client(url, KEY)


@pytest.mark.parametrize("key", ["", " ", "whk_\n", "schlüssel"])
def test_a_wrong_key_is_refused_and_not_shown(key: str):
    with pytest.raises(ValueError, match=r"^key must be an API key"):
        Client("https://hub.example.com", key)


def events(count: int, payload: Any = 1) -> list[Event]:
    return [Event("a", payload, external_id=f"e{n}") for n in range(count)]


def test_many_events_go_a_thousand_at_a_time():
    with ScriptedHub(respond=stored) as hub, client(hub) as producer:
        results = producer.publish_many(iter(events(2500)))
    assert [len(request.document["events"]) for request in hub.requests] == [1000, 1000, 500]
    assert [result.external_id for result in results] == [f"e{n}" for n in range(2500)]
    assert all(isinstance(result, Published) and result.created for result in results)
    raise_for_failures(results)


def test_large_events_go_fewer_at_a_time():
    with ScriptedHub(respond=stored) as hub, client(hub) as producer:
        assert len(producer.publish_many(events(50, "x" * 200_000))) == 50
    assert [len(request.document["events"]) for request in hub.requests] == [19, 19, 12]


def test_no_events_are_no_request():
    with ScriptedHub(respond=stored) as hub, client(hub) as producer:
        assert producer.publish_many([]) == []
    assert hub.requests == []


def test_a_batch_that_is_too_large_for_the_hub_is_halved():
    def respond(request: Request) -> Response:
        return stored(request) if len(request.document["events"]) <= 3 else problem(413)

    with ScriptedHub(respond=respond) as hub, client(hub) as producer:
        results = producer.publish_many(events(10))
    assert [result.external_id for result in results] == [f"e{n}" for n in range(10)]
    assert all(isinstance(result, Published) for result in results)

    with ScriptedHub(problem(413)) as hub, client(hub) as producer:
        [result] = producer.publish_many(events(1))
    assert isinstance(result, Failed)
    assert isinstance(result.error, TooLarge)


def test_a_refused_event_does_not_affect_the_others():
    items = [
        {"status": 201, "uid": "u0", "correlation_id": "c"},
        {"status": 422, "problem": {"detail": "events[1].payload is bad.", "errors": [{"field": "f", "message": "m"}]}},
        {"status": 200, "uid": "u2", "correlation_id": "c"},
        {"status": 409, "problem": {"detail": "conflict", "uid": "u9"}},
    ]
    sent = [*events(2), Event("a", {1}, external_id="no json"), *events(4)[2:]]
    with ScriptedHub(Response(200, {"results": items})) as hub, client(hub) as producer:
        results = producer.publish_many(sent)
    kinds = [type(result.error if isinstance(result, Failed) else result) for result in results]
    assert kinds == [Published, Invalid, Invalid, Published, Conflict]
    assert [result.external_id for result in results] == ["e0", "e1", "no json", "e2", "e3"]
    assert [result.created for result in results if isinstance(result, Published)] == [True, False]
    with pytest.raises(Invalid, match="payload is bad"):
        raise_for_failures(results)


def test_a_failed_batch_has_a_result_for_each_event_and_the_next_is_sent():
    def respond(request: Request) -> Response:
        return problem(503) if request.document["events"][0]["external_id"] == "e0" else stored(request)

    with ScriptedHub(respond=respond) as hub, client(hub, deadline=0.3) as producer:
        results = producer.publish_many(events(1500))
    assert [isinstance(result, Failed) for result in results] == [True] * 1000 + [False] * 500
    assert isinstance(results[0], Failed)
    assert isinstance(results[0].error, Unavailable)


def test_after_a_wrong_key_nothing_more_is_tried():
    with ScriptedHub(problem(401)) as hub, client(hub) as producer:
        results = producer.publish_many(events(2500))
    assert len(hub.requests) == 1
    assert len(results) == 2500
    assert {type(result.error) for result in results if isinstance(result, Failed)} == {Unauthorized}


def test_a_response_with_too_few_results_is_an_error():
    with ScriptedHub(Response(200, {"results": [{"status": 201, "uid": "u"}]})) as hub, client(hub) as producer:
        results = producer.publish_many(events(2))
    assert [type(result.error) for result in results if isinstance(result, Failed)] == [UnexpectedResponse] * 2
