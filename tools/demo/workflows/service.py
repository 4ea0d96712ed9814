"""A typical service: it receives events by webhook, does its step and publishes the result.

It checks every signature, ignores repeated messages, and responds before it does the work. The external id of the event
it publishes is derived from the received message, so publishing twice stores it once.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from tools.demo.endpoint import HttpsEndpoint, Received, Reply
from webhookhub.client import Client

from .hub import Hub
from .signatures import is_genuine

Data = dict[str, Any]


class Published(NamedTuple):
    """An event to publish: its data is that of the received event, plus `more`."""

    event_type: str
    more: Data = {}


Reaction = Callable[[Data], Iterable[Published]]


class Service:
    """Serves inside its `with` block. `reactions` maps event types to handlers; `key` is its API key."""

    name: str

    def __init__(self, hub: Hub, key: str, certificate: Path) -> None:
        self._hub = hub
        self._key = key
        self._endpoint = HttpsEndpoint(certificate, self._take)
        self._secrets: dict[str, str] = {}
        self._seen: set[tuple[str, str]] = set()  # a real service has a table with a unique key
        self._lock = threading.Lock()
        self._workers = ThreadPoolExecutor(4)
        self.failures: list[Exception] = []

    @property
    def reactions(self) -> dict[str, Reaction]:
        raise NotImplementedError

    def subscribe(self) -> None:
        """Creates and verifies a subscription for each event type it reacts to."""
        for event_type in self.reactions:
            path = f"/{self.name}/{event_type}"
            pk, self._secrets[path] = self._hub.subscribe(event_type, self._endpoint.url(path), f"{self.name} service")
            self._hub.verify(pk)

    def publish(self, event_type: str, data: Data) -> None:
        """Publishes an event that starts a workflow."""
        with Client(self._hub.url, self._key) as client:
            publish(client, Published(event_type), data, data["correlation_id"])

    def _take(self, request: Received) -> Reply:
        if not is_genuine(self._secrets[request.path], request.headers, request.body):
            return Reply(401, b"not signed by the hub")
        event_type = request.path.rpartition("/")[2]
        with self._lock:
            first = (request.event_uid, event_type) not in self._seen
            self._seen.add((request.event_uid, event_type))
        if first:
            self._workers.submit(self._work, request.event_uid, event_type, json.loads(request.body)["data"])
        return Reply()

    def _work(self, message: str, event_type: str, data: Data) -> None:
        try:
            with Client(self._hub.url, self._key) as client:
                for event in self.reactions[event_type](data):
                    publish(client, event, data, message)
        except Exception as error:  # noqa: BLE001  # reported at the end of the demo
            self.failures.append(error)

    def __enter__(self) -> Service:
        self._endpoint.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._endpoint.__exit__(kind, error, trace)
        self._workers.shutdown()


def publish(client: Client, event: Published, data: Data, message: str) -> None:
    """Publishes with the correlation id of the received event."""
    client.publish(
        event.event_type,
        {**data, **event.more},
        external_id=f"{message}/{event.event_type}",
        correlation_id=data["correlation_id"],
    )
