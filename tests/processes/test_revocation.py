"""A revoked key is refused by every web server within a second."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import requests

from api import keys
from api.models import ApiKey
from tests.support.web import RunWeb

EVENT = {"event_type": "order.created", "payload": {}}
# How long it may take: the second, and what a busy machine needs for the requests themselves.
SECONDS = 1.0
GRACE_SECONDS = 1.0


@pytest.mark.every_engine
@pytest.mark.usefixtures("committed")
def test_revocation_has_effect_within_a_second_in_all_processes(tmp_path: Path) -> None:
    _, text = keys.create("shop", ["events:write", "read"], by="tests")
    headers = {"Authorization": f"Bearer {text}"}
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    with RunWeb(tmp_path / "a") as first, RunWeb(tmp_path / "b") as second:

        def statuses() -> set[int]:
            sent = [requests.post(f"{web.url}/api/v1/events", json=EVENT, headers=headers) for web in (first, second)]
            read = [requests.get(f"{web.url}/api/v1/deliveries", headers=headers) for web in (first, second)]
            return {response.status_code for response in sent + read}

        assert statuses() == {201, 200}
        keys.revoke(ApiKey.objects.get(), by="tests")
        revoked_at = time.monotonic()
        while statuses() != {401}:
            assert time.monotonic() - revoked_at < SECONDS + GRACE_SECONDS
        # No process goes back to an older state.
        assert {status for _ in range(5) for status in statuses()} == {401}
