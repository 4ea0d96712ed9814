"""A Galera cluster as the database under test, behind a proxy with a fixed address: `kill` kills the node that is
written to, and `restore` moves the address to the next node."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from tools.support.galera import Cluster, Node
from tools.support.proxy import Proxy

from .database import Database

FAILOVER_SECONDS = 20.0
REJOIN_SECONDS = 60.0
REJOIN_ATTEMPTS = 3
POLL_SECONDS = 0.05


class ClusterDatabase(Database):
    """A context manager."""

    # A node may lag behind the others. Wait for it, because rows of different nodes are compared.
    session = f"{Database.session}, wsrep_sync_wait = 1"

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._writer = cluster.nodes[0]
        self._proxy = Proxy("127.0.0.1", self._writer.port)
        self._pool = ThreadPoolExecutor(len(cluster.nodes))
        self._rejoining: list[Future[None]] = []
        super().__init__(self._proxy.port)

    def __enter__(self) -> ClusterDatabase:
        self._proxy.__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        self._pool.shutdown()
        self._proxy.__exit__(*exception)

    @property
    def url(self) -> str:
        return f"mysql://hub:hub@127.0.0.1:{self._proxy.port}/webhookhub"

    def wait_until_killable(self) -> None:
        """Waits until all nodes are back: after a kill, a majority must be left."""
        for rejoining in self._rejoining:
            rejoining.result()
        size = str(len(self._cluster.nodes))
        wait(lambda: self._states("wsrep_cluster_size") == {size}, REJOIN_SECONDS, self._cluster)

    def kill(self) -> None:
        self._writer.kill()

    def restore(self) -> None:
        """Moves to the next node at once, which may not be ready yet, and starts the killed one again."""
        killed, nodes = self._writer, self._cluster.nodes
        self._writer = nodes[(nodes.index(killed) + 1) % len(nodes)]
        self._proxy.turn_to("127.0.0.1", self._writer.port)
        try:
            # Wait until the others continue without the killed node.
            wait(lambda: self._serves_with(len(nodes) - 1), FAILOVER_SECONDS, self._cluster)
        except TimeoutError:
            # They have lost each other and the majority, which needs all former members to recover.
            self._rejoining = [self._pool.submit(rejoin, node) for node in nodes if not node.is_running]
            wait(lambda: self._serves_with(len(nodes)), REJOIN_SECONDS, self._cluster)
        else:
            self._rejoining = [self._pool.submit(rejoin, killed)]

    def _serves_with(self, size: int) -> bool:
        state = self._writer.state()
        return state.get("wsrep_ready") == "ON" and state.get("wsrep_cluster_size") == str(size)

    def _states(self, name: str) -> set[str]:
        return {node.state().get(name, "") for node in self._cluster.nodes}


def rejoin(node: Node) -> None:
    """Starts a node again, as a supervisor would, until it has joined."""
    for attempts_left in reversed(range(REJOIN_ATTEMPTS)):
        try:
            node.start()
        except RuntimeError:
            node.kill()
            if not attempts_left:
                raise
        else:
            break


def wait(condition: Callable[[], bool], seconds: float, cluster: Cluster) -> None:
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            raise TimeoutError("the cluster is not complete:\n" + "\n".join(node.describe() for node in cluster.nodes))
        time.sleep(POLL_SECONDS)
