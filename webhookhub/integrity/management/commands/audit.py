import os
from datetime import timedelta
from functools import partial
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError, InterfaceError

from webhookhub import terminal
from webhookhub.db import requirements
from webhookhub.db.errors import kind_of
from webhookhub.db.requirements import UnsuitableDatabase
from webhookhub.db.timeouts import long_statements
from webhookhub.integrity import report
from webhookhub.integrity.checks import ALL
from webhookhub.integrity.run import Result, run

VIOLATED = 1


class Command(BaseCommand):
    help = (
        "Checks every invariant of the stored data on a live system, without writes or locks. "
        "Exits 1 on a violation, 0 otherwise (warnings included), 69 if the database cannot be reached."
    )
    # A failed system check would look like a violation.
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--list", action="store_true", help="list the checks")
        parser.add_argument(
            "--only",
            action="append",
            choices=[check.name for check in ALL],
            metavar="NAME",
            help="run only this check; may be repeated",
        )
        parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
        parser.add_argument(
            "--limit", type=terminal.whole_number(100_000, 0), default=10, help="violations shown per check (10)"
        )
        parser.add_argument(
            "--batch-size", type=terminal.whole_number(1_000_000), default=20_000, help="rows per statement (20000)"
        )
        parser.add_argument(
            "--grace",
            type=terminal.whole_number(86400, 0),
            default=300,
            metavar="SECONDS",
            help="how long an event may wait to be routed, a lease be overdue or a step be incomplete (300)",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["list"]:
            width = max(len(check.name) for check in ALL)
            for check in ALL:
                self.stdout.write(f"{check.name:<{width}}  {check.invariant}{' (warning)' if check.is_warning else ''}")
            return
        try:
            with long_statements():
                requirements.require_migrated()
                results = self._run(options)
        except UnsuitableDatabase as error:
            raise CommandError(f"The hub cannot use this database: {error}.", returncode=os.EX_CONFIG) from None
        except (DatabaseError, InterfaceError) as error:
            failure = "cannot be reached" if kind_of(error).closes else "refused"
            raise CommandError(f"The database {failure}: {error}", returncode=os.EX_UNAVAILABLE) from None
        self.stdout.write(report.as_json(results) if options["json"] else report.as_text(results))
        if any(result.is_violation for result in results):
            raise SystemExit(VIOLATED)

    def _run(self, options: dict[str, Any]) -> list[Result]:
        checks = [check for check in ALL if not options["only"] or check.name in options["only"]]
        return list(
            run(
                checks,
                batch_size=options["batch_size"],
                grace=timedelta(seconds=options["grace"]),
                limit=options["limit"],
                progress=partial(terminal.progress, "checked"),
            )
        )
