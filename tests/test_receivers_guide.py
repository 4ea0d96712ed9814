"""The snippets of docs/receivers.md, run as they stand there on real deliveries."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from events.intake import publish
from subscriptions import secrets
from subscriptions.signing import new_secret
from subscriptions.test_event import send_now, send_test
from tests.factories import SubscriptionFactory
from tests.support import drive
from tools.demo.receiver import Received, Receiver

pytestmark = pytest.mark.django_db

GUIDE = (Path(__file__).resolve().parent.parent / "docs" / "receivers.md").read_text()


def snippets(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)


def deliver(receiver: Receiver, scheme: str = "v1") -> tuple[str, Received]:
    subscription = SubscriptionFactory.create(callback_url=receiver.url(), signing_scheme=scheme)
    send_now(subscription, "order.created", {"order": 1, "name": "Zoë"})
    return secrets.reveal(subscription), receiver.received[-1]


def test_the_guide_says_which_headers_come_with_events_only(receiver: Receiver):
    rows = dict(re.findall(r"^\| `([a-z-]+)` \| (.*) \|$", GUIDE, re.MULTILINE))
    subscription = SubscriptionFactory.create(callback_url=receiver.url())
    publish(subscription.event_type, {})
    drive.until_terminal()
    send_test(subscription)
    event, test = (set(request.headers) for request in receiver.received)

    assert set(rows) <= event
    assert {name for name, meaning in rows.items() if meaning.endswith("events only")} == event - test


def test_the_python_receiver_accepts_ours_once_and_refuses_others(receiver: Receiver, capsys: Any):
    namespace: dict[str, Any] = {}
    exec(snippets("python")[0], namespace)
    secret, request = deliver(receiver)

    assert namespace["receive"](secret, request.headers, request.body) == 200
    assert namespace["receive"](secret, request.headers, request.body) == 200
    assert capsys.readouterr().out == "order.created {'order': 1, 'name': 'Zoë'}\n"
    assert namespace["receive"](secret, request.headers, request.body + b" ") == 401
    assert namespace["receive"](new_secret("v1"), request.headers, request.body) == 401


def test_the_python_check_with_a_public_key_accepts_ours_and_refuses_others(receiver: Receiver):
    namespace: dict[str, Any] = {}
    exec(snippets("python")[1], namespace)
    public_key, request = deliver(receiver, "v1a")

    assert namespace["is_genuine"](public_key, request.headers, request.body)
    assert not namespace["is_genuine"](public_key, request.headers, request.body + b" ")


@pytest.mark.skipif(not shutil.which("npm"), reason="needs Node.js and npm")
def test_the_node_receiver_accepts_ours_once_and_refuses_others(receiver: Receiver, tmp_path: Path):
    installed = subprocess.run(
        ["npm", "install", "--no-audit", "--no-fund", "standardwebhooks@1"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    if installed.returncode:
        pytest.skip(f"the package cannot be installed here: {installed.stderr[-300:]}")
    secret, request = deliver(receiver)
    calls = [
        (secret, request.body),
        (secret, request.body),
        (secret, request.body + b" "),
        (new_secret("v1"), request.body),
    ]
    lines = [
        f"console.log(receive({json.dumps(key)}, {json.dumps(request.headers)}, {json.dumps(body.decode())}));"
        for key, body in calls
    ]
    (tmp_path / "receive.js").write_text("\n".join([*snippets("javascript"), *lines]))

    result = subprocess.run(["node", "receive.js"], cwd=tmp_path, capture_output=True, text=True, check=True)

    assert result.stdout.splitlines() == ['order.created {"order":1,"name":"Zoë"}', "200", "200", "401", "401"]
