"""`python -m bench.publisher RATE SECONDS`: publishes at a rate fixed beforehand, however long each takes.

Each event has its moment; one that is late is published at once and counted from the moment it should have been, so
that a slow hub cannot make itself look quick by slowing down those who publish. Prints one JSON document.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time

from bench.load import event_types

THREADS = 8
LEAD_SECONDS = 0.5


def main(rate: int, seconds: float) -> None:
    os.environ["DJANGO_SETTINGS_MODULE"] = "webhookhub.settings"
    import django

    django.setup()
    count = int(rate * seconds)
    published: list[tuple[str, float, float]] = []
    ready = threading.Barrier(THREADS + 1)
    start: list[float] = []
    threads = [
        threading.Thread(target=_publish, args=(mine, count, rate, ready, start, published)) for mine in range(THREADS)
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
    ready: threading.Barrier,
    start: list[float],
    published: list[tuple[str, float, float]],
) -> None:
    """Every eighth event: its id, when it should have been published, when it was."""
    from django.db import connection

    from bench.load import PAYLOAD
    from events.intake import publish

    payload = json.loads(PAYLOAD)
    types = event_types(1)
    connection.ensure_connection()
    ready.wait()
    ready.wait()
    for number in range(mine, count, THREADS):
        moment = start[0] + number / rate
        time.sleep(max(0.0, moment - time.monotonic()))
        stored = publish(types[number % len(types)], payload, source="bench")
        published.append((str(stored.uid), moment, time.monotonic()))
    connection.close()


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
