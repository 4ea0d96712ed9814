"""A group of three genuine MySQL servers with group replication, one on each host of a network."""

from __future__ import annotations

import os
import signal
import time
from contextlib import ExitStack
from typing import Any

from .database_server import NoServer
from .genuine_mysql import GenuineServer, root
from .network import Host

PORT, GROUP_PORT = 3306, 33061
GROUP = "8c1d9a52-6f0e-4d5b-9f0a-4d1c6a7c9e11"
ELECTION_SECONDS = 60.0
# Seconds until a silent member is expelled, and until a member without a majority gives up.
EXPEL_SECONDS, MAJORITY_SECONDS = 1, 3
PLUGIN = "usr/lib/mysql/plugin/group_replication.so"
ONLINE = "SELECT member_id FROM performance_schema.replication_group_members WHERE member_state = 'ONLINE'"
STATE = (
    "SELECT member_role, member_state FROM performance_schema.replication_group_members WHERE member_id = @@server_uuid"
)
RECOVERY = (
    "SET SQL_LOG_BIN = 0; CREATE USER replication@'%' IDENTIFIED BY 'replication'; "
    "GRANT REPLICATION SLAVE, CONNECTION_ADMIN, BACKUP_ADMIN, GROUP_REPLICATION_STREAM ON *.* TO replication@'%'; "
    "SET SQL_LOG_BIN = 1; "
    "CHANGE REPLICATION SOURCE TO SOURCE_USER = 'replication', SOURCE_PASSWORD = 'replication' "
    "FOR CHANNEL 'group_replication_recovery'"
)


def require() -> None:
    """Raises NoServer without a genuine MySQL with group replication."""
    folder = root()
    if not (folder / PLUGIN).exists():
        raise NoServer(f"no group replication in {folder}")


class Member(GenuineServer):
    def __init__(self, host: Host, number: int, hosts: list[Host]) -> None:
        seeds = ",".join(f"{each.address}:{GROUP_PORT}" for each in hosts)
        options = (
            f"--server-id={number}",
            "--gtid-mode=ON",
            "--enforce-gtid-consistency=ON",
            "--plugin-load-add=group_replication.so",
            f"--group-replication-group-name={GROUP}",
            "--group-replication-start-on-boot=OFF",
            f"--group-replication-local-address={host.address}:{GROUP_PORT}",
            f"--group-replication-group-seeds={seeds}",
            "--group-replication-recovery-get-public-key=ON",
            f"--group-replication-member-expel-timeout={EXPEL_SECONDS}",
            f"--group-replication-unreachable-majority-timeout={MAJORITY_SECONDS}",
            "--group-replication-exit-state-action=OFFLINE_MODE",
            "--group-replication-autorejoin-tries=0",
            f"--report-host={host.address}",
            "--innodb-buffer-pool-size=128M",
            "--log-bin-trust-function-creators=1",
            "--max-connections=300",
        )
        super().__init__(options, host, PORT)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Empty if the server does not respond."""
        import MySQLdb

        try:
            connection = self._connect(read_timeout=2)
            with connection.cursor() as cursor:
                cursor.execute(sql)
                found = list(cursor.fetchall())
            connection.close()
        except MySQLdb.Error:
            return []
        return found

    @property
    def is_primary(self) -> bool:
        return self.is_running and self.rows(STATE) == [("PRIMARY", "ONLINE")]

    def join(self, *, first: bool = False) -> None:
        bootstrap = "SET GLOBAL group_replication_bootstrap_group = {}; "
        self.execute(
            f"{bootstrap.format('ON') if first else ''}START GROUP_REPLICATION"
            f"{'; ' + bootstrap.format('OFF').rstrip('; ') if first else ''}"
        )

    def rejoin(self) -> None:
        """What an operator does with a member that left its group, whatever its state is."""
        if not self.is_running:
            self.start()
        self.execute("STOP GROUP_REPLICATION")
        self.execute("SET GLOBAL offline_mode = OFF")
        self.join()

    def pause(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)


class Group:
    """A context manager; on entry, all members are online and the first is the primary."""

    def __init__(self, hosts: list[Host]) -> None:
        self.members = [Member(host, number, hosts) for number, host in enumerate(hosts, 1)]

    def __enter__(self) -> Group:
        with ExitStack() as stack:
            for member in self.members:
                member.prepare()
                stack.push(member.__exit__)
                member.start()
                member.execute(RECOVERY)
            first, *others = self.members
            first.join(first=True)
            first.create_database()
            first.execute("CREATE USER plain@'%' IDENTIFIED BY 'plain'; GRANT ALL ON webhookhub.* TO plain@'%'")
            first.execute("GRANT SELECT ON performance_schema.replication_group_members TO plain@'%'")
            for member in others:
                member.join()
            self.wait_until_complete()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exception: Any) -> None:
        for member in self.members:
            if member.is_running:
                member.resume()
                member.kill()
        self._stack.close()

    @property
    def primary(self) -> Member:
        """The member that is written to, after an election if one is going on."""
        return self.elected()

    def elected(self, instead_of: Member | None = None) -> Member:
        """The primary. One that was cut off takes itself for it for a while: `instead_of`."""
        until = time.monotonic() + ELECTION_SECONDS
        while True:
            for member in self.members:
                if member is not instead_of and member.is_primary and len(member.rows(ONLINE)) * 2 > len(self.members):
                    return member
            if time.monotonic() > until:
                raise TimeoutError("the group has no primary")
            time.sleep(0.1)

    def wait_until_complete(self) -> None:
        until = time.monotonic() + ELECTION_SECONDS
        while any(len(member.rows(ONLINE)) < len(self.members) for member in self.members):
            if time.monotonic() > until:
                states = [
                    member.rows("SELECT * FROM performance_schema.replication_group_members") for member in self.members
                ]
                raise TimeoutError(f"the group is not complete: {states}\n{self.members[-1]._log_end()}")
            time.sleep(0.2)
