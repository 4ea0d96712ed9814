"""A progress bar: one line that moves on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TextIO

WIDTH = 32
LINE_SECONDS = 2.0


class Bar:
    def __init__(self, title: str, total: int, stream: TextIO | None = None) -> None:
        self._title = title
        self._total = max(1, total)
        self._stream = stream or sys.stdout
        self._moving = self._stream.isatty()
        self._shown_at = 0.0

    def show(self, done: int, note: str = "") -> None:
        finished = done >= self._total
        if not self._moving and not finished and time.monotonic() - self._shown_at < LINE_SECONDS:
            return
        self._shown_at = time.monotonic()
        filled = WIDTH * min(done, self._total) // self._total
        line = f"{self._title:<10} [{'█' * filled}{'·' * (WIDTH - filled)}] {done}/{self._total} {note}"
        start, end = ("\r", "\n" if finished else "") if self._moving else ("", "\n")
        self._stream.write(start + line + ("\033[K" if self._moving else "") + end)
        self._stream.flush()
