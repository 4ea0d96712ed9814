"""A Galera cluster of three MariaDB nodes on loopback.

There is no full state transfer: the other nodes start with a copy of the first. A killed node reports its last
position, as Debian's service does with galera_recovery, and receives only the missing transactions.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from .database_server import RESPONSE_SECONDS, NoServer, PrivateServer, find
from .ports import free_port

PROVIDERS = ("/usr/lib/galera/libgalera_smm.so", "/usr/lib64/galera-4/libgalera_smm.so")
# A lost node is detected within seconds, as on a local network.
SHORT_TIMEOUTS = "evs.keepalive_period=PT0.5S;evs.suspect_timeout=PT2S;evs.inactive_timeout=PT4S;gcache.size=64M"
NODE_OPTIONS = (
    "--wsrep-on=ON",
    "--binlog-format=ROW",
    "--default-storage-engine=InnoDB",
    "--innodb-autoinc-lock-mode=2",
    "--wsrep-cluster-name=webhookhub",
    # A commit is on the other nodes before it is acknowledged, so this node needs no sync to disk.
    "--innodb-flush-log-at-trx-commit=2",
    "--innodb-buffer-pool-size=128M",
    "--max-connections=300",
)
NEW_CLUSTER = "gcomm://"  # an address without nodes starts a new cluster
UNPRIVILEGED_USER = "mysql"
NODE_FILES = ("galera.cache", "gvwstate.dat")


def provider() -> str:
    """The path of Galera's library. Raises NoServer if it is not installed."""
    if not find().endswith("mariadbd") or not shutil.which("rsync"):
        raise NoServer("Galera needs mariadbd and rsync; install mariadb-server")
    for path in PROVIDERS:
        if Path(path).exists():
            return path
    raise NoServer("Galera's library was not found; install galera-4")


class Node(PrivateServer):
    def __init__(self, name: str) -> None:
        self.name = name
        self._group_port = free_port()
        self.cluster = NEW_CLUSTER
        self._position = ""
        super().__init__(
            (
                *NODE_OPTIONS,
                f"--wsrep-provider={provider()}",
                f"--wsrep-provider-options=gmcast.listen_addr=tcp://127.0.0.1:{self._group_port};"
                f"ist.recv_addr=127.0.0.1:{free_port()};{SHORT_TIMEOUTS}",
                f"--wsrep-node-name={name}",
                "--wsrep-node-address=127.0.0.1",
                # Required even without a full transfer; the default port is the same for all clusters of a machine.
                f"--wsrep-sst-receive-address=127.0.0.1:{free_port()}",
            )
        )
        if self._user == "root":
            # The nodes use rsync, which drops root's rights and then cannot read root's folder.
            self._user = UNPRIVILEGED_USER

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._group_port}"

    def state(self) -> dict[str, str]:
        """Its wsrep status variables; empty if it does not respond."""
        import MySQLdb

        try:
            connection = self._connect(read_timeout=RESPONSE_SECONDS)
            with connection.cursor() as cursor:
                cursor.execute("SHOW STATUS LIKE 'wsrep%'")
                state = dict(cursor.fetchall())
            connection.close()
        except MySQLdb.Error:
            return {}
        return state

    def describe(self) -> str:
        """Status and log, for error messages."""
        running = "running" if self.is_running else "not running"
        return f"--- {self.name} at {self.address}, {running}, {self.state()}\n{self._log_end()}"

    def start(self) -> None:
        self._position = self._recovered_position() if self._was_killed else ""
        super().start()

    def copy_to(self, other: Node) -> None:
        """Copies the data to another node. Both must be stopped."""
        shutil.rmtree(other._folder / "data", ignore_errors=True)
        shutil.copytree(self._folder / "data", other._folder / "data", ignore=shutil.ignore_patterns(*NODE_FILES))
        for path in [other._folder / "data", *(other._folder / "data").rglob("*")]:
            shutil.chown(path, self._user)

    @property
    def _was_killed(self) -> bool:
        state = self._folder / "data" / "grastate.dat"
        return state.exists() and "seqno:   -1" in state.read_text()

    def _recovered_position(self) -> str:
        result = subprocess.run([*self._command(), *self._options, "--wsrep-recover"], capture_output=True, text=True)
        positions = re.findall(r"Recovered position: (\S+)", result.stderr)
        if not positions:
            raise RuntimeError(f"{self.name} has no recovered position:\n{result.stderr[-2000:]}")
        return str(positions[-1])

    def _command(self) -> list[str]:
        position = [f"--wsrep-start-position={self._position}"] if self._position else []
        return [*super()._command(), f"--wsrep-cluster-address={self.cluster}", *position]

    def _is_ready(self) -> bool:
        """A node that is not synced yet accepts connections, but no statements."""
        return self.state().get("wsrep_local_state_comment") == "Synced"


class Cluster:
    """A context manager; on entry, all nodes have joined."""

    def __init__(self, size: int = 3) -> None:
        self.nodes = [Node(f"node-{number}") for number in range(1, size + 1)]

    def __enter__(self) -> Cluster:
        first, *others = self.nodes
        with ExitStack() as stack:
            for node in self.nodes:
                node.prepare()
                stack.push(node.__exit__)
            first.start()
            first.create_database()
            first.stop()
            for node in others:
                first.copy_to(node)
            first.start()
            # A node that starts from now on joins the others.
            for node in self.nodes:
                node.cluster = NEW_CLUSTER + ",".join(peer.address for peer in self.nodes)
            for node in others:
                node.start()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exception: Any) -> None:
        self._stack.close()
