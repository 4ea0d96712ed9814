"""The producer, tested with a small HTTP server."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from typing import Any

import pytest

from tools.bench.producer import Producer, run_producer


class Api(ThreadingHTTPServer):
    """Responds like the API of the hub."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.reset()

    def reset(self) -> None:
        self.lock = threading.Lock()
        self.connections: set[tuple[str, int]] = set()
        self.events: list[dict[str, Any]] = []
        self.keys: set[str | None] = set()
        self.status = 201
        self.delay = 0.0
        self.closing = 0  # requests that are not answered: the connection is closed instead

    @property
    def port(self) -> int:
        return int(self.server_address[1])


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Api

    def do_POST(self) -> None:
        document = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            if self.server.closing:
                self.server.closing -= 1
                self.close_connection = True
                return
            self.server.connections.add(self.client_address)
            self.server.keys.add(self.headers["Authorization"])
            events = document["events"] if self.path.endswith("/batch") else [document]
            self.server.events += events
        time.sleep(self.server.delay)
        body = json.dumps([{"uid": event["external_id"]} for event in events]).encode()
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: Any) -> None:
        pass


@pytest.fixture(scope="module")
def running_api() -> Iterator[Api]:
    with Api() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def api(running_api: Api) -> Api:
    running_api.reset()
    return running_api


@pytest.fixture(scope="module")
def producer() -> Iterator[Producer]:
    with run_producer() as running:
        yield running


def test_each_event_is_posted_once_over_few_connections(api: Api, producer: Producer):
    posted = producer.drain(api.port, "whk_key", "order.created", 50, connections=4)

    ids = [event["external_id"] for event in api.events]
    assert len(set(ids)) == len(ids) == 50
    assert sorted(uid for request in posted for uid in request.uids) == sorted(ids)
    assert {event["event_type"] for event in api.events} == {"order.created"}
    assert api.keys == {"Bearer whk_key"}
    assert 1 <= len(api.connections) <= 4
    assert all(request.due < request.done for request in posted)


def test_a_batch_contains_several_events(api: Api, producer: Producer):
    posted = producer.drain(api.port, "key", "order.created", 25, size=10, connections=1)

    assert [len(request.uids) for request in posted] == [10, 10, 5]
    assert len(api.events) == 25


def test_events_of_a_trickle_are_due_at_a_fixed_rate_even_if_the_api_is_slow(api: Api, producer: Producer):
    api.delay = 0.2

    posted = producer.trickle(api.port, "key", "order.created", 5, rate=100)

    pauses = [after.due - before.due for before, after in pairwise(posted)]
    assert pauses == pytest.approx([0.01] * 4)
    # Sent while the first ones still waited for their response.
    assert len(api.connections) == 5
    assert posted[-1].done - posted[0].due < 5 * 0.2


def test_latency_counts_from_the_due_time_if_no_connection_is_free(api: Api, producer: Producer):
    api.delay = 0.1

    posted = producer.trickle(api.port, "key", "order.created", 3, rate=1000, connections=1)

    assert [request.done - request.due >= 0.1 * number for number, request in enumerate(posted, 1)] == [True] * 3
    assert len(api.connections) == 1


def test_a_request_is_repeated_if_the_server_closes_the_connection(api: Api, producer: Producer):
    api.closing = 2

    posted = producer.drain(api.port, "key", "order.created", 10, connections=2)

    assert len(posted) == len(api.events) == 10


def test_a_server_that_never_responds_is_reported(api: Api, producer: Producer):
    api.closing = 1000

    with pytest.raises(RuntimeError, match="closes connections without a response"):
        producer.drain(api.port, "key", "order.created", 10)


def test_a_refused_event_is_reported(api: Api, producer: Producer):
    api.status = 429

    with pytest.raises(RuntimeError, match=r"unexpected response: HTTP.* 429"):
        producer.drain(api.port, "key", "order.created", 1)
