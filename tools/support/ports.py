"""Ports for servers that are killed and started again at the same address."""

from __future__ import annotations

import random
import socket
from pathlib import Path

LOWEST = 10240
RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
USUAL_FIRST = 32768


def free_port() -> int:
    """A port outside the range of outgoing connections: otherwise a connection could get the port while its server is
    down, even a connection to that server, which would then be connected to itself."""
    first = int(RANGE.read_text().split()[0]) if RANGE.exists() else USUAL_FIRST
    candidates = range(LOWEST, first) if first > LOWEST else [0]
    for port in random.SystemRandom().sample(candidates, len(candidates)):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue  # in use
            return int(probe.getsockname()[1])
    raise OSError("there is no free port")
