"""Runs a receiver of docs/receivers.md as a process behind a TLS proxy, and checks it against the hub's own code."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import requests

from events.intake import publish
from sagas.models import Saga
from subscriptions.signing import new_secret
from subscriptions.verification import verify
from tests.factories import SubscriptionFactory
from tests.support import drive
from tools.support.raw_endpoint import RawEndpoint, read_request
from webhookhub import crypto

GUIDE = (Path(__file__).resolve().parents[2] / "docs" / "receivers.md").read_text()


def programs(heading: str) -> list[str]:
    """The code blocks of a section of the guide."""
    section = re.split(r"^##+ ", GUIDE.partition(f"\n### {heading}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]
    return re.findall(r"^```\w+\n(.*?)^```", section, re.MULTILINE | re.DOTALL)


class ReceiverProcess:
    def __init__(self, port: int, secret: str, log: Path) -> None:
        self.port, self.secret, self.log = port, secret, log
        self.lost_responses = 0

    def received(self) -> list[str]:
        return re.findall(r"received (\S+)", self.log.read_text())

    def post(
        self,
        body: bytes,
        *,
        webhook_id: str = "m1",
        age: int = 0,
        secret: str = "",
        timestamp: str = "",
        signature: str | None = None,
    ) -> int:
        """Posts a request that is signed here, without the hub's code; returns the status."""
        timestamp = timestamp or str(int(time.time()) - age)
        key = base64.b64decode((secret or self.secret).removeprefix("whsec_"))
        digest = hmac.new(key, f"{webhook_id}.{timestamp}.".encode() + body, hashlib.sha256).digest()
        genuine = f"v1,bm90IG91cnM= v1,{base64.b64encode(digest).decode()}"
        headers = {
            "Webhook-Id": webhook_id,
            "Webhook-Timestamp": timestamp,
            "Webhook-Signature": genuine if signature is None else signature,
            "Content-Type": "application/json",
        }
        url = f"http://127.0.0.1:{self.port}/hook"
        return requests.post(url, data=body, headers=headers, timeout=30).status_code

    def forward(self, client: ssl.SSLSocket) -> None:
        """The TLS proxy: relays one request. While `lost_responses` is positive, the client never gets the response."""
        request = read_request(client)
        if not request:
            return
        head, _, rest = request.partition(b"\r\n")
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as upstream:
            upstream.sendall(head + b"\r\nConnection: close\r\n" + rest)
            response = b"".join(iter(lambda: upstream.recv(65536), b""))
        if self.lost_responses > 0:
            self.lost_responses -= 1
            return
        client.sendall(response)
        client.unwrap()  # an orderly close, which the client distinguishes from a lost connection


@contextmanager
def running(
    command: Sequence[str], port: int, secret: str, folder: Path, **environment: str
) -> Iterator[ReceiverProcess]:
    """Runs the receiver; on entry, it accepts connections."""
    log = folder / "receiver.log"
    variables = os.environ | {"PORT": str(port), "WEBHOOK_SECRET": secret, "PYTHONUNBUFFERED": "1"} | environment
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=folder, env=variables, stdout=output, stderr=subprocess.STDOUT)
    try:
        end = time.monotonic() + 60
        while not _accepts(port):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < end, "the receiver does not accept connections"
            time.sleep(0.05)
        yield ReceiverProcess(port, secret, log)
    finally:
        process.kill()
        process.wait()


def _accepts(port: int) -> bool:
    with closing(socket.socket()) as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0


def check(receiver: ReceiverProcess, certificate: Path) -> None:
    """It echoes the challenge, verifies signatures and drops duplicates."""
    with RawEndpoint(certificate, receiver.forward) as proxy:
        subscription = SubscriptionFactory.create(
            callback_url=proxy.url, secret=crypto.encrypt(receiver.secret), verified=False
        )
        assert verify(subscription).verified

        receiver.lost_responses = 1
        publish(subscription.event_type, {"order": 1, "name": "Zoë"})
        drive.until_terminal()
        saga = Saga.objects.get()
        assert (saga.status, receiver.lost_responses) == ("Completed", 0)
        assert receiver.received() == [subscription.event_type]

        stranger = SubscriptionFactory.create(
            callback_url=proxy.url + "?x", secret=crypto.encrypt(new_secret("v1")), verified=False
        )
        assert not verify(stranger).verified

    body = '{"type":"order.paid","timestamp":"2026-01-01T00:00:00Z","data":{"name":"Zoë"}}'.encode()
    assert receiver.post(body) == 204  # the headers are written Webhook-Id here
    assert receiver.post(body) == 204
    assert receiver.post(body, webhook_id="m2", secret=new_secret("v1")) == 401
    assert receiver.post(body, webhook_id="m3", age=600) == 401
    assert receiver.post(body, webhook_id="m4", age=-600) == 401
    assert receiver.post(body, webhook_id="m5", timestamp="soon") == 401
    assert receiver.post(body, webhook_id="m6", signature="") == 401
    assert requests.post(f"http://127.0.0.1:{receiver.port}/hook", timeout=30).status_code == 401
    assert receiver.received() == [subscription.event_type, "order.paid"]
