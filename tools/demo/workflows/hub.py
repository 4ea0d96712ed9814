"""The hub's API as the services use it."""

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
        """Creates a subscription. Returns its id and its signing secret."""
        body = {"event_type": event_type, "callback_url": callback_url, "description": description}
        created = self._request("POST", "/subscriptions", body)
        return created["id"], created["secret"]

    def verify(self, subscription: int) -> None:
        result = self._request("POST", f"/subscriptions/{subscription}/verify")
        if not result["verified"]:
            raise SystemExit(f"subscription {subscription} could not be verified: {result['reason']}")

    def workflow_runs(self, aggregate_id: str, saga_type: str) -> list[dict[str, Any]]:
        runs = self._request("GET", f"/sagas?saga_type={saga_type}&limit=200")["items"]
        return [run for run in runs if run["aggregate_id"] == aggregate_id]

    def timeline(self, run_id: str) -> list[dict[str, Any]]:
        return list(self._request("GET", f"/sagas/{run_id}/timeline")["items"])

    def wait_until_ready(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while True:
            try:
                if requests.get(f"{self.url}/readyz", timeout=SECONDS).ok:
                    return
            except requests.ConnectionError:
                pass
            if time.monotonic() > end:
                raise SystemExit(f"the hub does not respond at {self.url}")
            time.sleep(0.05)

    def _request(self, method: str, path: str, body: Any = None) -> Any:
        headers = {"Authorization": f"Bearer {self.key}"}
        response = requests.request(method, f"{self.url}/api/v1{path}", json=body, headers=headers, timeout=SECONDS)
        if not response.ok:
            raise SystemExit(f"the hub refused {method} {path}: {response.text}")
        return response.json()
