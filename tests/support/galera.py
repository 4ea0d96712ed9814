"""Three MariaDB nodes of one Galera cluster on loopback, for as long as they are needed.

No state is transferred whole: the others begin with a copy of the first, and a node that was killed says how far it
has come, as Debian's service does with galera_recovery, and gets what it has missed.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from .ports import free_port
from .server import ANSWER_SECONDS, NoServer, PrivateServer, find

PROVIDERS = ("/usr/lib/galera/libgalera_smm.so", "/usr/lib64/galera-4/libgalera_smm.so")
# A node that is gone is noticed within seconds, as on a network of one's own.
IMPATIENT = "evs.keepalive_period=PT0.5S;evs.suspect_timeout=PT2S;evs.inactive_timeout=PT4S;gcache.size=64M"
NODE_OPTIONS = (
    "--wsrep-on=ON",
    "--binlog-format=ROW",
    "--default-storage-engine=InnoDB",
    "--innodb-autoinc-lock-mode=2",
    "--wsrep-cluster-name=webhookhub",
    # A commit is on the other nodes before it is acknowledged: that, and not this node's disk, keeps it.
    "--innodb-flush-log-at-trx-commit=2",
    "--innodb-buffer-pool-size=128M",
    "--max-connections=300",
)


FOUNDING = "gcomm://"  # an address without a name: there is nobody to look for
UNPRIVILEGED = "mysql"
OWN_FILES = ("galera.cache", "gvwstate.dat")


def provider() -> str:
    """The library that makes a server a node; NoServer if there is none."""
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
        self.cluster = FOUNDING
        self._position = ""
        super().__init__(
            (
                *NODE_OPTIONS,
                f"--wsrep-provider={provider()}",
                f"--wsrep-provider-options=gmcast.listen_addr=tcp://127.0.0.1:{self._group_port};"
                f"ist.recv_addr=127.0.0.1:{free_port()};{IMPATIENT}",
                f"--wsrep-node-name={name}",
                "--wsrep-node-address=127.0.0.1",
                # Asked for even by who needs nothing whole; the usual port is one for all clusters of a machine.
                f"--wsrep-sst-receive-address=127.0.0.1:{free_port()}",
            )
        )
        if self._user == "root":
            # Nodes talk to each other through rsync, which gives up being root and then may not enter root's folder.
            self._user = UNPRIVILEGED

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._group_port}"

    def state(self) -> dict[str, str]:
        """What it says of itself; nothing while it does not answer."""
        import MySQLdb

        try:
            connection = self._connect(read_timeout=ANSWER_SECONDS)
            with connection.cursor() as cursor:
                cursor.execute("SHOW STATUS LIKE 'wsrep%'")
                found = dict(cursor.fetchall())
            connection.close()
        except MySQLdb.Error:
            return {}
        return found

    def last_words(self) -> str:
        """For whoever has to find out why the nodes are not together."""
        running = "running" if self.is_running else "not running"
        return f"--- {self.name} at {self.address}, {running}, {self.state()}\n{self._log_end()}"

    def start(self) -> None:
        self._position = self._recovered() if self._was_killed else ""
        super().start()

    def copy_to(self, other: Node) -> None:
        """Give another node, neither of them running, the same beginning."""
        shutil.rmtree(other._folder / "data", ignore_errors=True)
        shutil.copytree(self._folder / "data", other._folder / "data", ignore=shutil.ignore_patterns(*OWN_FILES))
        for path in [other._folder / "data", *(other._folder / "data").rglob("*")]:
            shutil.chown(path, self._user)

    @property
    def _was_killed(self) -> bool:
        state = self._folder / "data" / "grastate.dat"
        return state.exists() and "seqno:   -1" in state.read_text()

    def _recovered(self) -> str:
        said = subprocess.run([*self._command(), *self._options, "--wsrep-recover"], capture_output=True, text=True)
        found = re.findall(r"Recovered position: (\S+)", said.stderr)
        if not found:
            raise RuntimeError(f"{self.name} does not know how far it has come:\n{said.stderr[-2000:]}")
        return str(found[-1])

    def _command(self) -> list[str]:
        position = [f"--wsrep-start-position={self._position}"] if self._position else []
        return [*super()._command(), f"--wsrep-cluster-address={self.cluster}", *position]

    def _answers(self) -> bool:
        """A node that is still being brought up to date answers, but serves nobody."""
        return self.state().get("wsrep_local_state_comment") == "Synced"


class Cluster:
    """Runs while entered: the first node has founded it, the others have joined."""

    def __init__(self, size: int = 3) -> None:
        self.nodes = [Node(f"node-{number}") for number in range(1, size + 1)]

    def __enter__(self) -> Cluster:
        first, *others = self.nodes
        with ExitStack() as stack:
            for node in self.nodes:
                node.prepare()
                stack.push(node.__exit__)
            first.start()
            first.welcome_hub()
            first.stop()
            for node in others:
                first.copy_to(node)
            first.start()
            # From now on, whoever starts looks for the others.
            for node in self.nodes:
                node.cluster = FOUNDING + ",".join(each.address for each in self.nodes)
            for node in others:
                node.start()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exception: Any) -> None:
        self._stack.close()
