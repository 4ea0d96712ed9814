"""`python -m tools.bench.publisher RATE SECONDS [PORT KEY]`: publishes at a fixed rate.

By publish(), or through the HTTP API that is served at PORT.

Each event has its moment; one that is late is published at once and counted from the moment it should have been, so
that a slow hub cannot make itself look quick by slowing down those who publish. Prints one JSON document.
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
Publish = Callable[[str], str]  # of an event of this type; returns its id


def main(rate: int, seconds: float, port: int = 0, key: str = "") -> None:
    prepare = _through_api(port, key) if port else _in_process()
    count = int(rate * seconds)
    published: list[tuple[str, float, float]] = []
    ready = threading.Barrier(THREADS + 1)
    start: list[float] = []
    threads = [
        threading.Thread(target=_publish, args=(mine, count, rate, prepare, ready, start, published))
        for mine in range(THREADS)
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
    mine: int,
    count: int,
    rate: int,
    prepare: Callable[[], Publish],
    ready: threading.Barrier,
    start: list[float],
    published: list[tuple[str, float, float]],
) -> None:
    """Every eighth event: its id, when it should have been published, when it was."""
    types = event_types(1)
    publish = prepare()
    ready.wait()
    ready.wait()
    for number in range(mine, count, THREADS):
        moment = start[0] + number / rate
        time.sleep(max(0.0, moment - time.monotonic()))
        published.append((publish(types[number % len(types)]), moment, time.monotonic()))


def _in_process() -> Callable[[], Publish]:
    os.environ["DJANGO_SETTINGS_MODULE"] = "webhookhub.settings"
    import django

    django.setup()
    from django.db import connection

    from events.intake import publish

    def prepare() -> Publish:
        payload = json.loads(PAYLOAD)
        connection.ensure_connection()  # each thread has its own
        return lambda event_type: str(publish(event_type, payload, source="bench").uid)

    return prepare


def _through_api(port: int, key: str) -> Callable[[], Publish]:
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}

    def prepare() -> Publish:
        connection = HTTPConnection("127.0.0.1", port, timeout=30)
        connection.connect()

        def publish(event_type: str) -> str:
            body = f'{{"event_type":"{event_type}","payload":{PAYLOAD}}}'
            connection.request("POST", "/api/v1/events", body, headers)
            answer = connection.getresponse()
            document = answer.read()
            assert answer.status == 201, document
            return str(json.loads(document)["uid"])

        return publish

    return prepare


if __name__ == "__main__":
    port, key = sys.argv[3:] or ["0", ""]
    main(int(sys.argv[1]), float(sys.argv[2]), int(port), key)
