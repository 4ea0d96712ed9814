"""The shop's services are receivers as the guide wants them: they believe signatures only, and do everything once."""

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


class Books(Service):
    """Notes what it is told, and says nothing."""

    name = "books"

    def __init__(self, hub: Hub, key: str, certificate: Path) -> None:
        super().__init__(hub, key, certificate)
        self.told: list[Data] = []
        self._secrets["/books/order.submitted"] = SECRET

    @property
    def reactions(self) -> dict[str, Reaction]:
        return {"order.submitted": self._note}

    def _note(self, data: Data) -> Iterable[Published]:
        self.told.append(data)
        return ()


def signed(body: bytes, *, uid: str = "uid-1", age: int = 0, secret: str = SECRET) -> dict[str, str]:
    timestamp = int(time.time()) - age
    content = f"{uid}.{timestamp}.".encode() + body
    signature = base64.b64encode(hmac.digest(base64.b64decode(secret[6:]), content, hashlib.sha256)).decode()
    return {"webhook-id": uid, "webhook-timestamp": str(timestamp), "webhook-signature": f"v1,{signature}"}


def test_what_the_standard_signs_is_genuine_and_anything_else_is_not():
    moment = datetime.now(UTC)
    theirs = {
        "webhook-id": "uid-1",
        "webhook-timestamp": str(int(moment.timestamp())),
        "webhook-signature": Webhook(SECRET).sign("uid-1", moment, BODY.decode()),
    }

    assert is_genuine(SECRET, theirs, BODY)
    assert is_genuine(SECRET, {**theirs, "webhook-signature": f"v1,AAAA {theirs['webhook-signature']}"}, BODY)
    assert not is_genuine(SECRET, theirs, BODY + b" ")
    assert not is_genuine(SECRET, {**theirs, "webhook-id": "uid-2"}, BODY)
    assert not is_genuine(SECRET, signed(BODY, age=301), BODY)
    assert not is_genuine(SECRET, signed(BODY, secret="whsec_" + base64.b64encode(b"x" * 32).decode()), BODY)
    assert not is_genuine(SECRET, {}, BODY)


@pytest.mark.parametrize("times", [1, 3])
def test_a_service_does_its_step_once_however_often_it_is_told(certificate_files: tuple[Path, Path], times: int):
    authority, server = certificate_files
    service = Books(Hub("http://127.0.0.1:1", "none"), "whk_none", server)
    with service:
        url = service._receiver.url("/books/order.submitted")

        def post(**headers: Any) -> int:
            return requests.post(url, BODY, headers=headers, verify=str(authority), timeout=30).status_code

        assert [post(**signed(BODY)) for _ in range(times)] == [200] * times
        assert post(**signed(BODY + b" ", uid="uid-2")) == 401

    assert service.told == [{"order_id": "o-1", "correlation_id": "o-1"}]
    assert service.failures == []
