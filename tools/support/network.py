"""Hosts in network namespaces, joined by a bridge, whose connections can be cut.

Each host has its own address and host name. A namespace lives as long as its processes, which end with this one:
nothing is left behind, not even after SIGKILL.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

SUBNET = "10.77.0"
TOOLS = ("ip", "nft", "nsenter", "unshare")
PR_SET_PDEATHSIG = 1
START_SECONDS = 10.0
BOTH, IN, OUT = "both", "in", "out"
DROP, REJECT = "drop", "reject"


class NoNetwork(Exception):
    """This machine or user cannot make network namespaces."""


def require() -> None:
    """Raises NoNetwork if hosts cannot be made here."""
    missing = [tool for tool in TOOLS if shutil.which(tool, path=f"{os.environ.get('PATH', '')}:/usr/sbin") is None]
    if missing:
        raise NoNetwork(f"needs {', '.join(missing)} (apt-get install iproute2 nftables util-linux)")
    if os.geteuid() != 0 or subprocess.run(["unshare", "--net", "--uts", "true"], capture_output=True).returncode:
        raise NoNetwork("needs root and the right to make network namespaces")


def end_with_parent() -> None:
    """In a child: be killed when the parent ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Host:
    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self.address = f"{SUBNET}.{number}"
        self._holder = subprocess.Popen(
            ["unshare", "--net", "--uts", "--mount", "sh", "-c", f"hostname {name} && exec sleep infinity"],
            preexec_fn=end_with_parent,
        )
        self.pid = self._holder.pid
        own = os.stat("/proc/self/ns/uts").st_ino
        until = time.monotonic() + START_SECONDS
        while os.stat(f"/proc/{self.pid}/ns/uts").st_ino == own or self._name() != name:
            if time.monotonic() > until or self._holder.poll() is not None:
                raise NoNetwork(f"the host {name} did not start")
            time.sleep(0.01)

    def _name(self) -> str:
        return subprocess.run([*self.prefix, "hostname"], capture_output=True, text=True).stdout.strip()

    @property
    def prefix(self) -> list[str]:
        """The beginning of a command that runs on this host."""
        return ["nsenter", "--target", str(self.pid), "--net", "--uts", "--mount", f"--wdns={os.getcwd()}", "--"]

    def start(self, command: Sequence[str], log: Path, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
        with log.open("ab") as file:
            return subprocess.Popen(
                [*self.prefix, *command],
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                preexec_fn=end_with_parent,
            )

    def run(self, *command: str, text: str | None = None) -> str:
        result = subprocess.run([*self.prefix, *command], input=text, capture_output=True, text=True)
        if result.returncode:
            raise RuntimeError(f"{' '.join(command)} on {self.name}: {result.stderr}")
        return result.stdout

    def cut(self, *others: Host, direction: str = BOTH, how: str = DROP) -> None:
        """Cuts this host off from others: what it sends (OUT), what it receives (IN) or both."""
        verdict = "drop" if how == DROP else "reject with tcp reset"
        lines = []
        for hook, side, name in (("input", "saddr", IN), ("output", "daddr", OUT)):
            lines += [f"chain {hook} {{", f"type filter hook {hook} priority 0"]
            if direction in (BOTH, name):
                lines += [f"ip {side} {other.address} meta l4proto tcp {verdict}" for other in others]
            lines.append("}")
        self.heal()
        self.run("nft", "-f", "-", text="\n".join(["table inet cut {", *lines, "}", ""]))

    def heal(self) -> None:
        """Ends all cuts of this host."""
        self.run("nft", "-f", "-", text="table inet cut\ndelete table inet cut\n")

    def name_hosts(self, file: Path, names: Mapping[str, str]) -> None:
        """Makes these names lead to their addresses on this host. `file` is its own and stays where it is."""
        is_new = not file.exists()
        lines = [f"{address} {name}" for name, address in names.items()]
        # Written in place: the file is mounted.
        file.write_text("\n".join(["127.0.0.1 localhost", f"{self.address} {self.name}", *lines, ""]))
        if is_new:
            self.run("mount", "--bind", str(file), "/etc/hosts")

    def end(self) -> None:
        self._holder.kill()
        self._holder.wait()


class LocalHost(Host):
    """This machine itself, for processes that need no network of their own."""

    def __init__(self) -> None:
        self.name = "localhost"
        self.address = "127.0.0.1"

    @property
    def prefix(self) -> list[str]:
        return []

    def end(self) -> None:
        """There is nothing to end."""


class Network:
    """A context manager of hosts by name."""

    def __init__(self, *names: str) -> None:
        self._names = names
        self.hosts: dict[str, Host] = {}

    def __getitem__(self, name: str) -> Host:
        return self.hosts[name]

    def __enter__(self) -> Network:
        require()
        try:
            self._switch = Host("switch", 254)
            self._switch.run("ip", "link", "add", "bridge", "type", "bridge")
            self._switch.run("ip", "link", "set", "bridge", "up")
            for number, name in enumerate(self._names, 1):
                self.hosts[name] = self._joined(Host(name, number), number)
        except BaseException:
            self.__exit__()
            raise
        return self

    def _joined(self, host: Host, number: int) -> Host:
        link = ["ip", "link", "add", f"port{number}", "type", "veth", "peer", "name", "eth0", "netns", str(host.pid)]
        self._switch.run(*link)
        self._switch.run("ip", "link", "set", f"port{number}", "master", "bridge", "up")
        for arguments in (
            ("addr", "add", f"{host.address}/24", "dev", "eth0"),
            ("link", "set", "eth0", "up"),
            ("link", "set", "lo", "up"),
        ):
            host.run("ip", *arguments)
        return host

    def __exit__(self, *exception: Any) -> None:
        for host in [*self.hosts.values(), *([self._switch] if hasattr(self, "_switch") else [])]:
            host.end()
