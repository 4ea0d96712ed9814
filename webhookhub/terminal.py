"""Who sits at the command line, what they type for a time, and the bar that they watch."""

from __future__ import annotations

import getpass
import sys
from argparse import ArgumentTypeError
from collections.abc import Callable
from datetime import UTC, datetime

from django.core.management.base import CommandError
from django.utils.dateparse import parse_datetime

from .progress_bar import Bar
from .search_terms import parse_id

EXAMPLE = "2026-01-31T00:00:00Z"


class Operator:
    """Whoever may start the hub's commands has its database in their hands: they may do anything."""

    def get_username(self) -> str:
        try:
            return f"{getpass.getuser()} (command line)"
        except (OSError, KeyError):
            return "command line"

    def has_perm(self, perm: str) -> bool:
        return True


def moment(option: str, text: str | None) -> datetime | None:
    """The time that an option gives, in UTC unless it says otherwise."""
    if text is None:
        return None
    try:
        found = parse_datetime(text)
    except ValueError:
        found = None
    if found is None or not 1970 < found.year < 9999:
        raise CommandError(f"{option}: {text!r} is not a time; write it as {EXAMPLE}.")
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)


def whole_number(most: int) -> Callable[[str], int]:
    """An argument's `type`, for one from 1 to `most`. int() would also read 1_000, the digits of other scripts, and
    more than a database can hold."""

    def read(text: str) -> int:
        value = parse_id(text)
        if value is None or not 1 <= value <= most:
            raise ArgumentTypeError(f"must be a whole number from 1 to {most}, not {text[:30]!r}")
        return value

    return read


def progress(title: str, total: int) -> Callable[[int, str], None]:
    """A bar on a terminal; nothing elsewhere, where only the result is of use."""
    if not sys.stderr.isatty():
        return lambda done, note: None
    bar = Bar(title, total, sys.stderr)
    return bar.show
