"""Identifiers made by the hub."""

import os
import time
import uuid


def new_uid() -> uuid.UUID:
    """A UUID of version 7: random, but ordered by time, so that a unique index over millions grows at its end."""
    milliseconds = time.time_ns() // 1_000_000
    random_bits = int.from_bytes(os.urandom(10), "big")
    value = milliseconds << 80 | random_bits
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return uuid.UUID(int=value)


def new_token() -> str:
    """Unguessable and never used before: marks one claim of one worker."""
    return uuid.uuid4().hex
