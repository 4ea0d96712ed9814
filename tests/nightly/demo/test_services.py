"""The demo's services follow the receivers' guide: they check signatures and process each event once."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import requests
from standardwebhooks import Webhook

from tools.demo.workflows.hub import Hub
from tools.demo.workflows.service import Data, Published, Reaction, Service
from tools.demo.workflows.signatures import is_genuine

SECRET = "whsec_" + base64.b64encode(b"k" * 32).decode()
BODY = json.dumps({"type": "order.submitted", "data": {"order_id": "o-1", "correlation_id": "o-1"}}).encode()


class Recorder(Service):
    """Records its events and publishes nothing."""

    name = "recorder"

    def __init__(self, hub: Hub, key: str, certificate: Path) -> None:
        super().__init__(hub, key, certificate)
        self.events: list[Data] = []
        self._secrets["/recorder/order.submitted"] = SECRET

    @property
    def reactions(self) -> dict[str, Reaction]:
        return {"order.submitted": self._record}

    def _record(self, data: Data) -> Iterable[Published]:
        self.events.append(data)
        return ()


def signed(body: bytes, *, uid: str = "uid-1", age: int = 0, secret: str = SECRET) -> dict[str, str]:
    timestamp = int(time.time()) - age
    content = f"{uid}.{timestamp}.".encode() + body
    signature = base64.b64encode(hmac.digest(base64.b64decode(secret[6:]), content, hashlib.sha256)).decode()
    return {"webhook-id": uid, "webhook-timestamp": str(timestamp), "webhook-signature": f"v1,{signature}"}


def test_only_signatures_of_the_standard_are_genuine():
    now = datetime.now(UTC)
    headers = {
        "webhook-id": "uid-1",
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Webhook(SECRET).sign("uid-1", now, BODY.decode()),
    }

    assert is_genuine(SECRET, headers, BODY)
    assert is_genuine(SECRET, {**headers, "webhook-signature": f"v1,AAAA {headers['webhook-signature']}"}, BODY)
    assert not is_genuine(SECRET, headers, BODY + b" ")
    assert not is_genuine(SECRET, {**headers, "webhook-id": "uid-2"}, BODY)
    assert not is_genuine(SECRET, signed(BODY, age=301), BODY)
    assert not is_genuine(SECRET, signed(BODY, secret="whsec_" + base64.b64encode(b"x" * 32).decode()), BODY)
    assert not is_genuine(SECRET, {}, BODY)


@pytest.mark.requirement("R5-1g")
@pytest.mark.parametrize("times", [1, 3])
def test_a_service_processes_a_repeated_event_once(certificate_files: tuple[Path, Path], times: int):
    authority, server = certificate_files
    service = Recorder(Hub("http://127.0.0.1:1", "none"), "whk_none", server)
    with service:
        url = service._endpoint.url("/recorder/order.submitted")

        def post(**headers: Any) -> int:
            return requests.post(url, BODY, headers=headers, verify=str(authority), timeout=30).status_code

        assert [post(**signed(BODY)) for _ in range(times)] == [200] * times
        assert post(**signed(BODY + b" ", uid="uid-2")) == 401

    assert service.events == [{"order_id": "o-1", "correlation_id": "o-1"}]
    assert service.failures == []
