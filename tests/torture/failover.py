"""A Galera cluster as the database under torture: to kill it is to kill the node that is written to, and to restore it
is to move on to the next, behind an address that stays the same, as a proxy or a moving address gives it."""

from __future__ import annotations

import threading
import time
from typing import Any

from tests.processes.proxy import Proxy
from tests.support.galera import Cluster

from .target import Target

REJOIN_SECONDS = 90.0
FIT_SECONDS = 60.0
LOOK_SECONDS = 0.05


class FailoverTarget(Target):
    """Runs while entered."""

    # A node may show a moment that others have passed already. Whoever compares two nodes must wait for the second.
    session = f"{Target.session}, wsrep_sync_wait = 1"

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._writer = cluster.nodes[0]
        self._proxy = Proxy("127.0.0.1", self._writer.port)
        self._rejoining: threading.Thread | None = None
        super().__init__(self._proxy.port)

    def __enter__(self) -> FailoverTarget:
        self._proxy.__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        self._wait_for_rejoining()
        self._proxy.__exit__(*exception)

    @property
    def url(self) -> str:
        return f"mysql://hub:hub@127.0.0.1:{self._proxy.port}/webhookhub"

    def kill(self) -> None:
        self._wait_for_rejoining()
        self._writer.kill()

    def restore(self) -> None:
        """The next node at once, though it may not be ready yet; the one that was killed comes back as the last."""
        killed, nodes = self._writer, self._cluster.nodes
        self._writer = nodes[(nodes.index(killed) + 1) % len(nodes)]
        self._proxy.turn_to("127.0.0.1", self._writer.port)
        until = time.monotonic() + FIT_SECONDS
        while self._writer.state()["wsrep_ready"] != "ON" or self._writer.state()["wsrep_cluster_size"] == "3":
            if time.monotonic() > until:
                raise RuntimeError(f"{self._writer.name} has not become fit: {self._writer.state()}")
            time.sleep(LOOK_SECONDS)
        self._rejoining = threading.Thread(target=killed.start, daemon=True)
        self._rejoining.start()

    def _wait_for_rejoining(self) -> None:
        if self._rejoining is not None:
            self._rejoining.join(REJOIN_SECONDS)
