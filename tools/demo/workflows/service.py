"""A service as anybody might write one: it hears of events by webhook, does its step and publishes what came of it.

It checks every signature, drops what it has had before, answers as soon as it has taken a message in and works
afterwards. What it publishes has an id made from the message it answers: done twice, it is stored once.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from tools.demo.receiver import Received, Receiver, Reply
from webhookhub.client import Client

from .hub import Hub
from .signatures import is_genuine

Data = dict[str, Any]


class Said(NamedTuple):
    """An event that a service publishes: what it says is added to what it was told."""

    event_type: str
    more: Data = {}


Reaction = Callable[[Data], Iterable[Said]]


class Service:
    """Serves while entered. `reactions`: what it does on which event; `key` is its own, for publishing."""

    name: str

    def __init__(self, hub: Hub, key: str, certificate: Path) -> None:
        self._hub = hub
        self._key = key
        self._receiver = Receiver(certificate, self._take)
        self._secrets: dict[str, str] = {}
        self._seen: set[tuple[str, str]] = set()  # in real life: a table with a unique key
        self._lock = threading.Lock()
        self._workers = ThreadPoolExecutor(4)
        self.failures: list[Exception] = []

    @property
    def reactions(self) -> dict[str, Reaction]:
        raise NotImplementedError

    def subscribe(self) -> None:
        """One subscription for each type it reacts to, each proved and with a secret of its own."""
        for event_type in self.reactions:
            path = f"/{self.name}/{event_type}"
            number, self._secrets[path] = self._hub.subscribe(
                event_type, self._receiver.url(path), f"{self.name} service"
            )
            self._hub.verify(number)

    def say(self, event_type: str, data: Data) -> None:
        """Publish something of its own accord."""
        with Client(self._hub.url, self._key) as client:
            publish(client, Said(event_type), data, data["correlation_id"])

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
                for said in self.reactions[event_type](data):
                    publish(client, said, data, message)
        except Exception as error:  # noqa: BLE001 - kept for whoever watches; the next message is another's
            self.failures.append(error)

    def __enter__(self) -> Service:
        self._receiver.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._receiver.__exit__(kind, error, trace)
        self._workers.shutdown()


def publish(client: Client, said: Said, told: Data, message: str) -> None:
    """In the same business case as what it answers."""
    client.publish(
        said.event_type,
        {**told, **said.more},
        external_id=f"{message}/{said.event_type}",
        correlation_id=told["correlation_id"],
    )
