import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from events.backfill import NotRoutable, Position, backfill
from webhookhub.db import clock
from webhookhub.terminal import EXAMPLE, parse_time, progress


class Command(BaseCommand):
    help = "Delivers past events to a subscription that is new or was disabled. Safe to repeat."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("subscription", type=int, help="the subscription's number")
        parser.add_argument("--since", required=True, metavar="TIME", help=f"events stored then or later: {EXAMPLE}")
        parser.add_argument("--until", metavar="TIME", help="events stored then or earlier (now)")
        parser.add_argument("--json", action="store_true", help="print the result as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        since, until = parse_time("--since", options["since"]), parse_time("--until", options["until"]) or clock.now()
        assert since is not None
        if until < since:
            raise CommandError("--until lies before --since.")
        show = progress("backfill", 100)
        span = max((until - since).total_seconds(), 1e-6)

        def show_position(position: Position) -> None:
            part = (position.created_at - since).total_seconds() / span
            show(min(99, int(100 * part)), f"% · {position.created_at:%Y-%m-%d %H:%M}")

        try:
            result = backfill(options["subscription"], since, until, limit=None, progress=show_position)
        except NotRoutable as error:
            before = f" {error.created} deliveries were created before." if error.created else ""
            raise CommandError(f"{error}.{before}") from None
        show(100, f"% · {result.created} deliveries")
        if options["json"]:
            self.stdout.write(json.dumps({"examined": result.examined, "created": result.created}))
        else:
            self.stdout.write(f"{result.created} deliveries created, {result.examined} events examined.")
