"""The receiver is a witness: it writes down what it gets before it understands it, and is heard when it fails."""

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
from tools.torture.receiver import JOURNAL
from tools.torture.run import receiver

WAIT_SECONDS = 10.0
NOT_JSON = b'{"type": "order.created", '


@pytest.fixture
def urls(tmp_path: Path):
    certificates.write(tmp_path)
    with receiver(tmp_path, 1) as found:
        yield found


def post(url: str, body: bytes, headers: dict[str, str]) -> int:
    parts = urlsplit(url)
    context = ssl._create_unverified_context()
    client = http.client.HTTPSConnection(parts.netloc, context=context, timeout=WAIT_SECONDS)
    try:
        client.request("POST", parts.path, body, headers)
        return client.getresponse().status
    finally:
        client.close()


def test_what_is_no_json_is_written_down_and_answered(urls: dict[str, str], tmp_path: Path):
    headers = {"webhook-id": "uid", "webhook-attempt": "1", "webhook-timestamp": "5", "webhook-signature": "v1,x"}

    status = post(urls["/steady"], NOT_JSON, headers)

    [fact] = journal.read(tmp_path / JOURNAL)
    assert (fact["say"], fact["uid"], fact["path"], fact["attempt"]) == ("received", "uid", "/steady", 1)
    assert (fact["timestamp"], fact["signature"]) == ("5", "v1,x")
    assert fact["body"] == hashlib.sha256(NOT_JSON).hexdigest()
    assert fact["answer"] == str(status)


def test_when_it_fails_itself_the_judge_hears_of_it(urls: dict[str, str], tmp_path: Path):
    with pytest.raises(http.client.RemoteDisconnected):
        post(urls["/steady"], NOT_JSON, {"webhook-id": "uid"})

    [fact] = journal.read(tmp_path / JOURNAL)
    assert fact["body"] == hashlib.sha256(NOT_JSON).hexdigest()
    until = time.monotonic() + WAIT_SECONDS
    while "JSONDecodeError" not in (found := "".join(logs.read((tmp_path / "logs").glob("*.log")).tracebacks)):
        assert time.monotonic() < until, found
        time.sleep(0.01)
