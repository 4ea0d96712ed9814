"""The hub as the shop's services see it: an address and a key."""

from __future__ import annotations

import time
from typing import Any

import requests

SECONDS = 30.0


class Hub:
    def __init__(self, url: str, key: str) -> None:
        self.url = url
        self.key = key

    def subscribe(self, event_type: str, callback_url: str, description: str) -> tuple[int, str]:
        """A new subscription's number and its signing secret. It gets nothing before it is verified."""
        wanted = {"event_type": event_type, "callback_url": callback_url, "description": description}
        made = self._asked("POST", "/subscriptions", wanted)
        return made["id"], made["secret"]

    def verify(self, subscription: int) -> None:
        result = self._asked("POST", f"/subscriptions/{subscription}/verify")
        if not result["verified"]:
            raise SystemExit(f"subscription {subscription} could not be verified: {result['reason']}")

    def sagas_of(self, aggregate_id: str, saga_type: str) -> list[dict[str, Any]]:
        found = self._asked("GET", f"/sagas/aggregate/{aggregate_id}")["items"]
        return [saga for saga in found if saga["saga_type"] == saga_type]

    def timeline(self, saga: str) -> list[dict[str, Any]]:
        return list(self._asked("GET", f"/sagas/{saga}/timeline")["items"])

    def wait_until_it_answers(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while True:
            try:
                if requests.get(f"{self.url}/readyz", timeout=SECONDS).ok:
                    return
            except requests.ConnectionError:
                pass
            if time.monotonic() > end:
                raise SystemExit(f"the hub does not answer at {self.url}")
            time.sleep(0.05)

    def _asked(self, method: str, path: str, body: Any = None) -> Any:
        headers = {"Authorization": f"Bearer {self.key}"}
        answer = requests.request(method, f"{self.url}/api/v1{path}", json=body, headers=headers, timeout=SECONDS)
        if not answer.ok:
            raise SystemExit(f"the hub refused {method} {path}: {answer.text}")
        return answer.json()
