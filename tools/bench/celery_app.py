"""The same deliveries with Celery: one task for each, sent with `requests`, one row written.

`python -m tools.bench.celery_app COUNT URL …` puts COUNT tasks into the queue.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import uuid
from typing import Any

import MySQLdb
import requests
from celery import Celery

from subscriptions.signing import signer
from tools.bench.load import PAYLOAD

SECRET = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="

app = Celery("bench", broker=os.environ["BENCH_BROKER"])
app.conf.task_ignore_result = True
_thread = threading.local()


@app.task(name="bench.deliver")  # type: ignore[untyped-decorator]
def deliver(url: str, message_id: str, body: str) -> None:
    session, database, sign = _connections()
    now = int(time.time())
    content = body.encode()
    headers = {
        "Content-Type": "application/json",
        "webhook-id": message_id,
        "webhook-timestamp": str(now),
        "webhook-signature": sign(b"%b.%d.%b" % (message_id.encode(), now, content)),
    }
    response = session.post(url, data=content, headers=headers, timeout=(5, 30), allow_redirects=False)
    with database.cursor() as cursor:
        cursor.execute(
            "INSERT INTO celery_deliveries (message_id, status, snippet) VALUES (%s, %s, %s)",
            (message_id, response.status_code, response.text[:500]),
        )


def _connections() -> Any:
    """A session with keep-alive, a database connection and a signer, one of each per thread."""
    if not hasattr(_thread, "connections"):
        session = requests.Session()
        session.verify = os.environ["WEBHOOKHUB_CA_BUNDLE"]
        session.trust_env = False  # otherwise every request looks for proxies and passwords
        database = MySQLdb.connect(
            host="127.0.0.1",
            port=int(os.environ["BENCH_PORT"]),
            user="hub",
            passwd="hub",
            database="webhookhub",
            autocommit=True,
        )
        _thread.connections = session, database, signer(SECRET)
    return _thread.connections


def enqueue(count: int, urls: list[str]) -> None:
    for number in range(count):
        body = f'{{"type":"order.created","timestamp":"2026-01-01T00:00:00Z","data":{PAYLOAD}}}'
        deliver.delay(urls[number % len(urls)], str(uuid.uuid4()), body)


if __name__ == "__main__":
    enqueue(int(sys.argv[1]), sys.argv[2:])
