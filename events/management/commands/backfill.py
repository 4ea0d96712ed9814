import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from events.backfill import MOST_AT_ONCE, NotRoutable, Position, backfill
from webhookhub.db import clock
from webhookhub.terminal import EXAMPLE, parse_time, progress


class Command(BaseCommand):
    help = "Delivers past events to a subscription that is new or was off. Safe to repeat: what it has, it keeps."

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
        examined = created = 0
        told = False

        def passed(position: Position) -> None:
            part = (position.created_at - since).total_seconds() / span
            show(min(99, int(100 * part)), f"% · {position.created_at:%Y-%m-%d %H:%M}")

        after: Position | None = None
        while True:
            try:
                done = backfill(
                    options["subscription"],
                    since,
                    until,
                    after=after,
                    limit=MOST_AT_ONCE,
                    told=told,
                    progress=passed,
                )
            except NotRoutable as error:
                made = f" {created} deliveries had been made before." if created else ""
                raise CommandError(f"{error}.{made}") from None
            examined, created, after, told = examined + done.examined, created + done.created, done.after, done.told
            if after is None:
                break
        show(100, f"% · {created} deliveries")
        if options["json"]:
            self.stdout.write(json.dumps({"examined": examined, "created": created}))
        else:
            self.stdout.write(f"{created} deliveries are under way, for {examined} events looked at.")
