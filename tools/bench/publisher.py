"""`python -m tools.bench.publisher RATE SECONDS [PORT KEY]`: publishes events at a fixed rate.

By publish(), or through the HTTP API at PORT.

Each event has a due time. A late one is published at once, and its latency counts from the due time: otherwise a slow
hub would look fast by slowing the publisher down. Prints a JSON list of (uid, due time, time of completion).
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from http.client import HTTPConnection

from tools.bench.load import PAYLOAD, event_types

THREADS = 8
LEAD_SECONDS = 0.5
Publish = Callable[[str], str]  # takes an event type, returns the event's uid


def main(rate: int, seconds: float, port: int = 0, key: str = "") -> None:
    connect = _through_api(port, key) if port else _in_process()
    count = int(rate * seconds)
    published: list[tuple[str, float, float]] = []
    ready = threading.Barrier(THREADS + 1)
    start: list[float] = []
    threads = [
        threading.Thread(target=_publish, args=(number, count, rate, connect, ready, start, published))
        for number in range(THREADS)
    ]
    for thread in threads:
        thread.start()
    ready.wait()
    start.append(time.monotonic() + LEAD_SECONDS)
    ready.wait()
    for thread in threads:
        thread.join()
    assert len(published) == count
    json.dump(published, sys.stdout)


def _publish(
    thread: int,
    count: int,
    rate: int,
    connect: Callable[[], Publish],
    ready: threading.Barrier,
    start: list[float],
    published: list[tuple[str, float, float]],
) -> None:
    """Publishes every eighth event."""
    types = event_types(1)
    publish = connect()
    ready.wait()
    ready.wait()
    for number in range(thread, count, THREADS):
        due = start[0] + number / rate
        time.sleep(max(0.0, due - time.monotonic()))
        published.append((publish(types[number % len(types)]), due, time.monotonic()))


def _in_process() -> Callable[[], Publish]:
    os.environ["DJANGO_SETTINGS_MODULE"] = "webhookhub.settings"
    import django

    django.setup()
    from django.db import connection

    from events.intake import publish

    def connect() -> Publish:
        payload = json.loads(PAYLOAD)
        connection.ensure_connection()  # each thread has its own
        return lambda event_type: str(publish(event_type, payload, source="bench").uid)

    return connect


def _through_api(port: int, key: str) -> Callable[[], Publish]:
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}

    def connect() -> Publish:
        connection = HTTPConnection("127.0.0.1", port, timeout=30)
        connection.connect()

        def publish(event_type: str) -> str:
            body = f'{{"event_type":"{event_type}","payload":{PAYLOAD}}}'
            connection.request("POST", "/api/v1/events", body, headers)
            response = connection.getresponse()
            document = response.read()
            assert response.status == 201, document
            return str(json.loads(document)["uid"])

        return publish

    return connect


if __name__ == "__main__":
    port, key = sys.argv[3:] or ["0", ""]
    main(int(sys.argv[1]), float(sys.argv[2]), int(port), key)
