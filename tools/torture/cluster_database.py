"""A Galera cluster as the database under torture: to kill it is to kill the node that is written to, and to restore it
is to move on to the next, behind an address that stays the same, as a proxy or a moving address gives it."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from tools.support.galera import Cluster, Node
from tools.support.proxy import Proxy

from .target import Target

FIT_SECONDS = 20.0
REUNITE_SECONDS = 60.0
REJOIN_TRIES = 3
LOOK_SECONDS = 0.05


class FailoverTarget(Target):
    """Runs while entered."""

    # A node may show a moment that others have passed already. Whoever compares two nodes must wait for the second.
    session = f"{Target.session}, wsrep_sync_wait = 1"

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._writer = cluster.nodes[0]
        self._proxy = Proxy("127.0.0.1", self._writer.port)
        self._hands = ThreadPoolExecutor(len(cluster.nodes))
        self._rejoining: list[Future[None]] = []
        super().__init__(self._proxy.port)

    def __enter__(self) -> FailoverTarget:
        self._proxy.__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        self._hands.shutdown()
        self._proxy.__exit__(*exception)

    @property
    def url(self) -> str:
        return f"mysql://hub:hub@127.0.0.1:{self._proxy.port}/webhookhub"

    def get_ready(self) -> None:
        """Of three nodes, two must be left."""
        for rejoining in self._rejoining:
            rejoining.result()
        size = str(len(self._cluster.nodes))
        wait(lambda: self._states("wsrep_cluster_size") == {size}, REUNITE_SECONDS, self._cluster)

    def kill(self) -> None:
        self._writer.kill()

    def restore(self) -> None:
        """The next node at once, though it may not be ready yet; the one that was killed comes back as the last."""
        killed, nodes = self._writer, self._cluster.nodes
        self._writer = nodes[(nodes.index(killed) + 1) % len(nodes)]
        self._proxy.turn_to("127.0.0.1", self._writer.port)
        try:
            # The others have given up the one that was killed, and go on without it.
            wait(lambda: self._serves_with(len(nodes) - 1), FIT_SECONDS, self._cluster)
        except TimeoutError:
            # They have lost each other too, and so the majority. It comes back when all are there who belonged to it.
            self._rejoining = [self._hands.submit(rejoin, node) for node in nodes if not node.is_running]
            wait(lambda: self._serves_with(len(nodes)), REUNITE_SECONDS, self._cluster)
        else:
            self._rejoining = [self._hands.submit(rejoin, killed)]

    def _serves_with(self, size: int) -> bool:
        state = self._writer.state()
        return state.get("wsrep_ready") == "ON" and state.get("wsrep_cluster_size") == str(size)

    def _states(self, name: str) -> set[str]:
        return {node.state().get(name, "") for node in self._cluster.nodes}


def rejoin(node: Node) -> None:
    """As whoever supervises it would: one that does not get there is started anew."""
    for tries_left in reversed(range(REJOIN_TRIES)):
        try:
            node.start()
        except RuntimeError:
            node.kill()
            if not tries_left:
                raise
        else:
            break


def wait(condition: Callable[[], bool], seconds: float, cluster: Cluster) -> None:
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            raise TimeoutError("the cluster is not whole:\n" + "\n".join(node.describe() for node in cluster.nodes))
        time.sleep(LOOK_SECONDS)
