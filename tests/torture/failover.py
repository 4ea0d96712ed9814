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
        self.get_ready()
        self._proxy.__exit__(*exception)

    @property
    def url(self) -> str:
        return f"mysql://hub:hub@127.0.0.1:{self._proxy.port}/webhookhub"

    def get_ready(self) -> None:
        """Of three nodes, two must be left."""
        if self._rejoining is not None:
            self._rejoining.join(REJOIN_SECONDS)

    def kill(self) -> None:
        self._writer.kill()

    def restore(self) -> None:
        """The next node at once, though it may not be ready yet; the one that was killed comes back as the last."""
        killed, nodes = self._writer, self._cluster.nodes
        self._writer = nodes[(nodes.index(killed) + 1) % len(nodes)]
        self._proxy.turn_to("127.0.0.1", self._writer.port)
        until = time.monotonic() + FIT_SECONDS
        while not self._is_fit(state := self._writer.state()):
            if time.monotonic() > until:
                raise RuntimeError(f"{self._writer.name} has not become fit: {state}")
            time.sleep(LOOK_SECONDS)
        self._rejoining = threading.Thread(target=killed.start, daemon=True)
        self._rejoining.start()

    def _is_fit(self, state: dict[str, str]) -> bool:
        """The others have given up the one that was killed, and go on without it."""
        left = str(len(self._cluster.nodes) - 1)
        return state.get("wsrep_ready") == "ON" and state.get("wsrep_cluster_size") == left
