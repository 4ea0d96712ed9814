"""Several hubs, called cells, that share nothing. Each customer belongs to one of them, by an explicit map."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

from .client import Client
from .events import Published

BUCKETS = 1024
MAX_NAMED = 5


def bucket_of(customer: str) -> int:
    """The bucket of a customer's key, from 0 to 1023: the first four bytes of its SHA-256, as a number, modulo 1024."""
    return int.from_bytes(hashlib.sha256(customer.encode()).digest()[:4], "big") % BUCKETS


class Cells:
    """`clients` by the name of their cell, `buckets` the buckets of each cell. Every bucket belongs to one cell.

    To move a bucket, stop sending its customers' events, wait until its cell has delivered them, and change the map: a
    repeat that goes to another cell is another event there.
    """

    def __init__(self, clients: Mapping[str, Client], buckets: Mapping[str, Iterable[int]]) -> None:
        if unknown := sorted(buckets.keys() - clients.keys()):
            raise ValueError(f"buckets has cells without a client: {', '.join(unknown)}")
        self._clients = dict(clients)
        self._cells: dict[int, str] = {}
        for cell, own in buckets.items():
            for bucket in own:
                if not 0 <= bucket < BUCKETS:
                    raise ValueError(f"buckets of {cell}: {bucket} is not a number from 0 to {BUCKETS - 1}")
                if bucket in self._cells:
                    raise ValueError(f"bucket {bucket} belongs to {self._cells[bucket]} and to {cell}")
                self._cells[bucket] = cell
        if missing := [bucket for bucket in range(BUCKETS) if bucket not in self._cells]:
            named = ", ".join(map(str, missing[:MAX_NAMED]))
            raise ValueError(f"{len(missing)} buckets belong to no cell, such as {named}")

    def cell_of(self, customer: str) -> str:
        return self._cells[bucket_of(customer)]

    def client_of(self, customer: str) -> Client:
        return self._clients[self.cell_of(customer)]

    def publish(
        self,
        customer: str,
        event_type: str,
        payload: Any,
        external_id: str | None = None,
        correlation_id: str | None = None,
    ) -> Published:
        """Like Client.publish, in the customer's cell. A cell that is down delays only its own customers' events if
        each cell has a thread of its own."""
        return self.client_of(customer).publish(event_type, payload, external_id, correlation_id)

    def close(self) -> None:
        for client in self._clients.values():
            client.close()

    def __enter__(self) -> Cells:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
