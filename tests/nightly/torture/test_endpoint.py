"""The endpoint of the torture records requests before it parses them, and its own failures are noticed."""

from __future__ import annotations

import hashlib
import http.client
import ssl
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tools.demo import certificates
from tools.torture import journal, logs
from tools.torture.endpoint import JOURNAL
from tools.torture.run import run_endpoint

WAIT_SECONDS = 10.0
NOT_JSON = b'{"type": "order.created", '


@pytest.fixture
def urls(tmp_path: Path):
    certificates.write(tmp_path)
    with run_endpoint(tmp_path, 1) as urls:
        yield urls


def post(url: str, body: bytes, headers: dict[str, str]) -> int:
    parts = urlsplit(url)
    context = ssl._create_unverified_context()
    client = http.client.HTTPSConnection(parts.netloc, context=context, timeout=WAIT_SECONDS)
    try:
        client.request("POST", parts.path, body, headers)
        return client.getresponse().status
    finally:
        client.close()


def test_invalid_json_is_recorded_and_gets_a_response(urls: dict[str, str], tmp_path: Path):
    headers = {"webhook-id": "uid", "webhook-attempt": "1", "webhook-timestamp": "5", "webhook-signature": "v1,x"}

    status = post(urls["/steady"], NOT_JSON, headers)

    [entry] = journal.read(tmp_path / JOURNAL)
    assert (entry["type"], entry["uid"], entry["path"], entry["attempt"]) == ("received", "uid", "/steady", 1)
    assert (entry["timestamp"], entry["signature"]) == ("5", "v1,x")
    assert entry["body"] == hashlib.sha256(NOT_JSON).hexdigest()
    assert entry["response"] == str(status)


def test_its_own_failure_is_logged(urls: dict[str, str], tmp_path: Path):
    with pytest.raises(http.client.RemoteDisconnected):
        post(urls["/steady"], NOT_JSON, {"webhook-id": "uid"})

    [entry] = journal.read(tmp_path / JOURNAL)
    assert entry["body"] == hashlib.sha256(NOT_JSON).hexdigest()
    until = time.monotonic() + WAIT_SECONDS
    while "JSONDecodeError" not in (text := "".join(logs.read((tmp_path / "logs").glob("*.log")).tracebacks)):
        assert time.monotonic() < until, text
        time.sleep(0.01)
