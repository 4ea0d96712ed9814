"""Ports for servers that are killed and come back at the same address."""

from __future__ import annotations

import random
import socket
from pathlib import Path

LOWEST = 10240
RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
USUAL_FIRST = 32768


def free_port() -> int:
    """Not one that the system gives to outgoing connections. While its server is away somebody's connection could get
    it otherwise, even one that was looking for that very server and then talks to itself."""
    first = int(RANGE.read_text().split()[0]) if RANGE.exists() else USUAL_FIRST
    candidates = range(LOWEST, first) if first > LOWEST else [0]
    for port in random.SystemRandom().sample(candidates, len(candidates)):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue  # somebody is there
            return int(probe.getsockname()[1])
    raise OSError("there is no free port")
