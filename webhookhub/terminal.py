"""The command line's user, the parsing of its options, tables, and a progress bar."""

from __future__ import annotations

import getpass
import re
import sys
import time
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import TextIO

from django.core.management.base import CommandError
from django.utils.dateparse import parse_datetime

EXAMPLE = "2026-01-31T00:00:00Z"
BAR_WIDTH = 32
LINE_SECONDS = 2.0


class Operator:
    """The user of the command line. Has every permission: commands run with full access to the database."""

    def get_username(self) -> str:
        try:
            return f"{getpass.getuser()} (command line)"
        except (OSError, KeyError):
            return "command line"

    def has_perm(self, perm: str) -> bool:
        return True


def parse_time(option: str, text: str | None) -> datetime | None:
    """The value of an option that takes a time; UTC unless the text has another offset."""
    if text is None:
        return None
    try:
        value = parse_datetime(text)
    except ValueError:
        value = None
    if value is None or not 1970 < value.year < 9999:
        raise CommandError(f"{option}: {text!r} is not a time; write it as {EXAMPLE}.")
    return (value if value.tzinfo else value.replace(tzinfo=UTC)).astimezone(UTC)


def whole_number(maximum: int, minimum: int = 1) -> Callable[[str], int]:
    """The `type` of an argument in this range. int() would also accept 1_000 and digits of other scripts."""

    def parse(text: str) -> int:
        if not re.fullmatch(r"[0-9]{1,19}", text) or not minimum <= int(text) <= maximum:
            raise ArgumentTypeError(f"must be a whole number from {minimum} to {maximum}, not {text[:30]!r}")
        return int(text)

    return parse


def table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The rows as lines with aligned columns; an empty cell is shown as a dash."""
    cells = [[cell or "–" for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        yield "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()


class ProgressBar:
    """One moving line on a terminal, a line every two seconds elsewhere."""

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
        filled = BAR_WIDTH * min(done, self._total) // self._total
        line = f"{self._title:<10} [{'█' * filled}{'·' * (BAR_WIDTH - filled)}] {done}/{self._total} {note}"
        start, end = ("\r", "\n" if finished else "") if self._moving else ("", "\n")
        self._stream.write(start + line + ("\033[K" if self._moving else "") + end)
        self._stream.flush()


def progress(title: str, total: int) -> Callable[[int, str], None]:
    """Shows a bar on a terminal and nothing elsewhere."""
    if not sys.stderr.isatty():
        return lambda done, note: None
    return ProgressBar(title, total, sys.stderr).show
