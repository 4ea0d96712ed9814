"""An append-only log with one JSON object per line."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any


class Journal:
    """If `durable`, an entry is on disk before `write` returns."""

    def __init__(self, path: Path, durable: bool = False) -> None:
        self._durable = durable
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def write(self, type: str, **fields: Any) -> None:
        os.write(self._file, json.dumps({"at": time.time(), "type": type, **fields}).encode() + b"\n")
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
    """Complete entries; a kill may have cut off the last one."""
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                yield json.loads(line)
