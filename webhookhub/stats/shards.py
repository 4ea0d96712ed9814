"""Which of a figure's rows this process adds to."""

from __future__ import annotations

import os
import socket
import zlib

# A figure is the sum of its shards: processes that count at the same time rarely meet at one row.
SHARDS = 16


def own_shard() -> int:
    """Asked anew each time: a process may have been forked from one that asked before."""
    return zlib.crc32(f"{socket.gethostname()}:{os.getpid()}".encode()) % SHARDS
