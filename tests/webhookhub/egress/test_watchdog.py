"""An endpoint that keeps libcurl reading is disconnected; other endpoints are not affected."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import pytest

from tests.support.egress_child import Child
from tests.support.ticket_flood import TicketFlood
from tests.webhookhub.egress.conftest import collect, post
from tools.demo.endpoint import HttpsEndpoint
from webhookhub.egress import watchdog
from webhookhub.egress.engine import Engine, send
from webhookhub.egress.messages import Response
from webhookhub.egress.watchdog import CHECK_SECONDS, MAX_BYTES, Watchdog

DEADLINE = 3.0
# Where the flood runs dry now and then, libcurl comes back by itself and keeps the time.
OVER = {"connection_lost", "timeout"}
PIECE = b"x" * 65536


def test_endless_tickets_cost_one_attempt_and_others_continue(certificate_files: tuple[Path, Path]):
    authority, server = certificate_files
    settings = {"WEBHOOKHUB_CA_BUNDLE": str(authority), "WEBHOOKHUB_REQUEST_TIMEOUT": str(DEADLINE)}
    settings |= {"WEBHOOKHUB_CONNECT_TIMEOUT": str(DEADLINE)}
    with ExitStack() as stack:
        floods = [stack.enter_context(TicketFlood(server)).url for _ in range(2)]
        healthy = [stack.enter_context(HttpsEndpoint(server)).url() for _ in range(5)]
        # The flood must never run dry: it has more of the processor than the engine.
        child = Child(**settings)
        child.niceness = 5
        stack.enter_context(child)

        responses = child.send([*floods, *healthy])["responses"]

        for url in floods:
            assert responses[url]["error_code"] in OVER
            assert responses[url]["seconds"] < DEADLINE + 2
        for url in healthy:
            assert responses[url]["error_code"] is None
            assert responses[url]["seconds"] < DEADLINE


def test_a_single_request_is_watched_as_well(trusted: Path, hub_settings: Callable[..., None]):
    hub_settings(request_timeout=timedelta(seconds=DEADLINE))

    def send_nicely(url: str) -> Response:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 5)
        return send(post(url))

    with TicketFlood(trusted) as flood, ThreadPoolExecutor(1) as thread:
        response = thread.submit(send_nicely, flood.url).result()

    assert response.error_code in OVER
    assert response.duration_ms < (DEADLINE + 2) * 1000


class Connection:
    """A connection that an engine has made, and its other end, which sends."""

    def __init__(self, made: socket.socket, other: socket.socket) -> None:
        self.made, self.other = made, other
        made.settimeout(10)
        other.settimeout(10)

    def bring(self, count: int) -> None:
        """Sends this many bytes and reads them."""
        while count > 0:
            self.other.sendall(PIECE[:count])
            wanted = min(count, len(PIECE))
            count -= wanted
            while wanted:
                wanted -= len(self.made.recv(wanted))

    def bring_until_cut_off(self, seconds: float) -> bool:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            try:
                self.other.sendall(PIECE)
                if not self.made.recv(len(PIECE)):
                    return True
            except OSError:
                return True
        return False


@pytest.fixture
def connections() -> Iterator[list[Connection]]:
    with socket.create_server(("127.0.0.1", 0)) as listener, ExitStack() as stack:
        made = []
        for _ in range(2):
            near = stack.enter_context(socket.create_connection(listener.getsockname()))
            far = stack.enter_context(listener.accept()[0])
            made.append(Connection(near, far))
        yield made


@pytest.fixture
def dog(connections: list[Connection]) -> Iterator[Watchdog]:
    dog = Watchdog()
    for each in connections:
        dog.watch(each.made)
    yield dog
    dog.close()


def test_a_connection_read_without_end_in_one_call_is_closed(dog: Watchdog, connections: list[Connection]):
    busy, quiet = connections
    dog.turn += 1

    assert busy.bring_until_cut_off(20)

    quiet.bring(10)


def test_a_connection_read_in_many_calls_is_left_alone(dog: Watchdog, connections: list[Connection]):
    until = time.monotonic() + 4 * CHECK_SECONDS
    while time.monotonic() < until:
        dog.turn += 1
        connections[0].bring(len(PIECE))
        dog.turn += 1


def test_unread_data_while_libcurl_is_busy_elsewhere_is_left_alone(dog: Watchdog, connections: list[Connection]):
    """Fills the buffers; the client does not read."""
    waiting, busy = connections
    waiting.other.settimeout(0)
    dog.turn += 1
    sent = 0
    try:
        for _ in range(1000):
            sent += waiting.other.send(PIECE)
    except BlockingIOError:
        pass

    assert sent > MAX_BYTES
    assert busy.bring_until_cut_off(20)
    dog.turn += 1
    waiting.made.recv(len(PIECE))
    waiting.made.sendall(b"still there")
    waiting.other.settimeout(10)
    assert waiting.other.recv(20) == b"still there"


def test_sockets_of_others_are_left_alone(connections: list[Connection]):
    noted, foreign = connections
    dog = Watchdog()
    dog.watch(noted.made)
    dog.turn += 1

    assert not foreign.bring_until_cut_off(5 * CHECK_SECONDS)

    dog.close()


def test_closed_connections_are_removed(monkeypatch: pytest.MonkeyPatch, connections: list[Connection]):
    monkeypatch.setattr(watchdog, "PRUNE_AT", 10)
    dog = Watchdog()
    dog.watch(connections[0].made)
    for _ in range(100):
        with socket.socket() as made:
            dog.watch(made)
    assert len(dog._inodes) <= 11
    dog.turn += 1

    assert connections[0].bring_until_cut_off(20)

    dog.close()


def test_a_closed_engine_leaves_no_thread_behind(endpoint: HttpsEndpoint):
    before = set(threading.enumerate())
    engine: Engine[int] = Engine(1)
    engine.submit(1, post(endpoint.url()))
    collect(engine, 1)
    assert any("watchdog" in thread.name for thread in set(threading.enumerate()) - before)

    engine.close()

    assert not any("watchdog" in thread.name for thread in set(threading.enumerate()) - before)


def test_a_connection_does_not_stay_open_because_it_was_watched(endpoint: HttpsEndpoint):
    """The other end would hear of its end only when the last descriptor is closed."""
    dog = Watchdog()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        made = socket.create_connection(listener.getsockname())
        far, _ = listener.accept()
        dog.watch(made)
        made.close()
        far.settimeout(10)
        with far:
            assert far.recv(1) == b""
    dog.close()
