import json
from argparse import ArgumentTypeError
from collections.abc import Callable
from re import Pattern
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from deadletters.bulk_requeue import MOST_AT_ONCE, Outcome, Preview, preview, requeue_matching
from deadletters.filters import ERROR_CODE, EVENT_TYPE, Choice
from deadletters.requeue import InvalidRequeue
from webhookhub.console.exact_search import LARGEST_ID
from webhookhub.terminal import EXAMPLE, Operator, parse_time, progress, whole_number

USUALLY = 1000
MOST = 1_000_000


class Command(BaseCommand):
    help = "Delivers dead letters anew, chosen by what they have in common. Safe to repeat: each is requeued once."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--reason", help="why; kept with each of them (required unless --dry-run)")
        parser.add_argument(
            "--error-code",
            type=_matching(ERROR_CODE, "an error code, such as http_500 or timeout"),
            help="those that failed with this, such as http_500 or timeout",
        )
        parser.add_argument(
            "--subscription", type=whole_number(LARGEST_ID), metavar="N", help="those of this subscription"
        )
        parser.add_argument(
            "--event-type",
            type=_matching(EVENT_TYPE, "1 to 100 letters, digits, dots, dashes and underscores"),
            help="those of events of this type",
        )
        parser.add_argument("--since", metavar="TIME", help=f"those that failed then or later, such as {EXAMPLE}")
        parser.add_argument("--until", metavar="TIME", help="those that failed then or earlier")
        parser.add_argument(
            "--limit", type=whole_number(MOST), default=USUALLY, metavar="N", help=f"how many at most ({USUALLY})"
        )
        parser.add_argument("--dry-run", action="store_true", help="only say how many there are, and show some")
        parser.add_argument("--json", action="store_true", help="print the result as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        choice = Choice(
            error_code=options["error_code"],
            subscription_id=options["subscription"],
            event_type=options["event_type"],
            since=parse_time("--since", options["since"]),
            until=parse_time("--until", options["until"]),
        )
        if choice.since and choice.until and choice.until < choice.since:
            raise CommandError("--until lies before --since.")
        if options["dry_run"]:
            self._preview(preview(choice), options["json"])
            return
        if not options["reason"]:
            raise CommandError("Say why: --reason 'the endpoint is back'. With --dry-run none is needed.")
        count, more = _requeue(choice, options["reason"], options["limit"])
        if options["json"]:
            self.stdout.write(json.dumps({"dry_run": False, "count": count, "more": more}))
        else:
            rest = " There may be more: repeat the command." if more else ""
            self.stdout.write(f"{count} dead letters are delivered anew.{rest}")

    def _preview(self, found: Preview, as_json: bool) -> None:
        sample = [
            {
                "id": letter.id,
                "subscription": letter.subscription_id,
                "error_code": letter.final_error_code,
                "failed_at": letter.failed_at.isoformat().replace("+00:00", "Z"),
            }
            for letter in found.sample
        ]
        if as_json:
            document = {"dry_run": True, "count": found.count, "more": found.more, "sample": sample}
            self.stdout.write(json.dumps(document))
            return
        self.stdout.write(f"{'More than ' if found.more else ''}{found.count} dead letters would be delivered anew.")
        for letter in sample:
            self.stdout.write("  {id}  subscription {subscription}  {error_code}  {failed_at}".format(**letter))


def _matching(form: Pattern[str], what: str) -> Callable[[str], str]:
    """An argument's `type`. What no dead letter can have must not look as if there were nothing to do."""

    def read(text: str) -> str:
        if not form.fullmatch(text):
            raise ArgumentTypeError(f"must be {what}, not {text[:30]!r}")
        return text

    return read


def _requeue(choice: Choice, reason: str, limit: int) -> tuple[int, bool]:
    """How many, and whether there may be more; in portions, until the limit is reached or nothing is left."""
    show = progress("requeued", limit)
    count = taken = part = 0
    outcome = Outcome()
    while True:
        part += 1
        try:
            outcome = requeue_matching(
                choice,
                by=Operator(),
                reason=reason,
                limit=min(limit - taken, MOST_AT_ONCE),
                after=outcome.after,
                part=part if limit > MOST_AT_ONCE else None,
                progress=lambda done, before=taken: show(before + done, ""),  # type: ignore[misc]
            )
        except InvalidRequeue as error:
            raise CommandError(f"Nothing was requeued: {error}.") from None
        taken += len(outcome.requeued)
        count += sum(result.is_delivered_now for result in outcome.requeued)
        if outcome.after is None or taken >= limit:
            return count, outcome.after is not None
