"""The common base of the run_* commands: their options, and one clear line when they cannot start."""

from __future__ import annotations

import os
from argparse import ArgumentTypeError
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError

from webhookhub.checks import HUB
from webhookhub.conf import MAX_BATCH, hub
from webhookhub.db.errors import Kind, kind_of
from webhookhub.db.requirements import UnsuitableDatabase
from webhookhub.logs import Log, log
from webhookhub.terminal import whole_number

from .database import usual
from .loop import Loop
from .managed_step import ManagedStep
from .step import CannotStart, Step


class LoopCommand(BaseCommand):
    """A subclass sets `kind` and creates its step."""

    kind: str
    requires_system_checks = [HUB]

    def make_step(self, process_name: str) -> Step:
        raise NotImplementedError

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--once", action="store_true", help="do one batch and exit")
        parser.add_argument(
            "--batch-size", type=whole_number(MAX_BATCH), default=hub().batch_size, help="rows per statement"
        )
        parser.add_argument(
            "--interval",
            type=_seconds,
            default=hub().poll_interval.total_seconds(),
            help="seconds to wait when there is nothing to do",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        step = ManagedStep(self.kind, self.make_step, usual(), options["interval"])
        run_loop(Loop([step], options["batch_size"]), once=options["once"])


def run_loop(loop: Loop, *, once: bool = False) -> None:
    """Runs the loop until it is stopped. Raises CommandError with one clear line if it cannot go on."""
    try:
        loop.run(once=once)
    except UnsuitableDatabase as error:
        raise CommandError(f"The hub cannot use this database: {error}.", returncode=os.EX_CONFIG) from None
    except CannotStart as error:
        raise CommandError(str(error), returncode=os.EX_CONFIG) from None
    except DatabaseError as error:
        kind = kind_of(error)
        if kind is Kind.LOGIN:
            raise CommandError(f"The database refused: {error}. Check DATABASE_URL.", returncode=os.EX_CONFIG) from None
        if kind is Kind.DENIED:
            raise CommandError(
                f"The database user of this {loop.kind} may not do its work: {error}. "
                "Grant it its role: manage.py grant_roles.",
                returncode=os.EX_CONFIG,
            ) from None
        log(Log.PROCESS_FAILED, kind=loop.kind, error=str(error), exc_info=True)
        raise CommandError(f"The database refused: {error}") from None
    except Exception as error:  # noqa: BLE001  # logged with its traceback, and the process ends
        log(Log.PROCESS_FAILED, kind=loop.kind, error=str(error), exc_info=True)
        raise CommandError(f"{type(error).__name__}: {error}") from None


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 3600:
        raise ArgumentTypeError(f"{text!r} is not a number of seconds above 0, up to 3600")
    return value
