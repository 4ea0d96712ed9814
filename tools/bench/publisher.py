"""`python -m tools.bench.publisher RATE SECONDS [--api PORT KEY] [--types TYPE …]`: publishes events at a fixed rate.

By publish(), or through the HTTP API at PORT. The types take turns.

Each event has a due time. A late one is published at once, and its latency counts from the due time: otherwise a slow
hub would look fast by slowing the publisher down. Prints a JSON list of (uid, due time, time of completion).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from http.client import HTTPConnection

from tools.bench.load import PAYLOAD, event_types

THREADS = 8
LEAD_SECONDS = 0.5
Publish = Callable[[str], str]  # takes an event type, returns the event's uid


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.bench.publisher", description=__doc__)
    parser.add_argument("rate", type=int)
    parser.add_argument("seconds", type=float)
    parser.add_argument("--api", nargs=2, metavar=("PORT", "KEY"))
    parser.add_argument("--types", nargs="+", default=event_types(1), metavar="TYPE")
    options = parser.parse_args()
    connect = _through_api(int(options.api[0]), options.api[1]) if options.api else _in_process()
    run(options.rate, options.seconds, options.types, connect)


def run(rate: int, seconds: float, types: Sequence[str], connect: Callable[[], Publish]) -> None:
    count = int(rate * seconds)
    published: list[tuple[str, float, float]] = []
    ready = threading.Barrier(THREADS + 1)
    start: list[float] = []
    threads = [
        threading.Thread(target=_publish, args=(number, count, rate, types, connect, ready, start, published))
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
    types: Sequence[str],
    connect: Callable[[], Publish],
    ready: threading.Barrier,
    start: list[float],
    published: list[tuple[str, float, float]],
) -> None:
    """Publishes every eighth event."""
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
    main()
