"""An append-only log of facts, one JSON document a line; a durable one is on the disk before `write` returns."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any


class Journal:
    def __init__(self, path: Path, durable: bool = False) -> None:
        self._durable = durable
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def write(self, say: str, **fields: Any) -> None:
        os.write(self._file, json.dumps({"at": time.time(), "say": say, **fields}).encode() + b"\n")
        if self._durable:
            os.fsync(self._file)

    def close(self) -> None:
        os.close(self._file)

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read(path: Path) -> Iterator[dict[str, Any]]:
    """Whole lines; the last may have been cut short by a kill, and then its writer went no further."""
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                yield json.loads(line)
