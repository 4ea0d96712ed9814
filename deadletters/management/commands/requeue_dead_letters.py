import itertools
import json
from argparse import ArgumentTypeError
from collections.abc import Callable
from dataclasses import asdict, dataclass
from re import Pattern
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from deadletters.bulk_requeue import MAX_LIMIT, SAMPLE, Cursor, Part, preview, requeue_matching
from deadletters.filters import CUSTOMER, ERROR_CODE, EVENT_TYPE, DeadLetterFilter
from deadletters.requeue import InvalidRequeue, WouldWait
from webhookhub.search_terms import MAX_ID
from webhookhub.terminal import EXAMPLE, Operator, parse_time, progress, whole_number

DEFAULT_LIMIT = 1000
MAX_TOTAL = 1_000_000


class Command(BaseCommand):
    help = "Requeues the dead letters that match a filter. Safe to repeat: each is requeued once."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--reason", help="saved with each dead letter (required unless --dry-run)")
        parser.add_argument(
            "--error-code",
            type=_matching(ERROR_CODE, "an error code, such as http_500 or timeout"),
            help="failed with this error, such as http_500 or timeout",
        )
        parser.add_argument("--subscription", type=whole_number(MAX_ID), metavar="N", help="of this subscription")
        parser.add_argument(
            "--event-type",
            type=_matching(EVENT_TYPE, "1 to 100 letters, digits, dots, dashes and underscores"),
            help="of events of this type",
        )
        parser.add_argument(
            "--customer", type=_matching(CUSTOMER, "the key of a customer"), metavar="KEY", help="of this customer"
        )
        parser.add_argument("--since", metavar="TIME", help=f"failed at this time or later, such as {EXAMPLE}")
        parser.add_argument("--until", metavar="TIME", help="failed at this time or earlier")
        parser.add_argument(
            "--limit",
            type=whole_number(MAX_TOTAL),
            default=DEFAULT_LIMIT,
            metavar="N",
            help=f"maximum number of dead letters (default {DEFAULT_LIMIT})",
        )
        parser.add_argument(
            "--allow-waiting",
            action="store_true",
            help="requeue also for subscriptions that are paused or not verified; the new deliveries wait",
        )
        parser.add_argument("--dry-run", action="store_true", help="only print how many match, and a sample")
        parser.add_argument("--json", action="store_true", help="print the result as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        letter_filter = DeadLetterFilter(
            error_code=options["error_code"],
            subscription_id=options["subscription"],
            event_type=options["event_type"],
            customer=options["customer"],
            since=parse_time("--since", options["since"]),
            until=parse_time("--until", options["until"]),
        )
        if letter_filter.since and letter_filter.until and letter_filter.until < letter_filter.since:
            raise CommandError("--until is before --since.")
        if options["dry_run"]:
            self._preview(letter_filter, options["json"])
            return
        if not options["reason"]:
            raise CommandError("Give a reason: --reason 'the endpoint is back'. With --dry-run none is needed.")
        done = _requeue(letter_filter, options["reason"], options["limit"], options["allow_waiting"])
        if options["json"]:
            self.stdout.write(json.dumps({"dry_run": False, **asdict(done)}))
        else:
            rest = " There may be more: repeat the command." if done.more else ""
            self.stdout.write(f"{done.count} dead letters requeued.{_skipped(done.not_ended)}{rest}")

    def _preview(self, letter_filter: DeadLetterFilter, as_json: bool) -> None:
        selection = preview(letter_filter)
        count, more = len(selection.letters), selection.next is not None
        sample = [
            {
                "id": letter.id,
                "subscription": letter.subscription_id,
                "error_code": letter.final_error_code,
                "failed_at": letter.failed_at.isoformat().replace("+00:00", "Z"),
            }
            for letter in selection.letters[:SAMPLE]
        ]
        if as_json:
            done = Done(count, selection.not_ended, more)
            self.stdout.write(json.dumps({"dry_run": True, **asdict(done), "sample": sample}))
            return
        skipped = _skipped(selection.not_ended)
        self.stdout.write(f"{count}{' or more' if more else ''} dead letters would be requeued.{skipped}")
        for row in sample:
            self.stdout.write("  {id}  subscription {subscription}  {error_code}  {failed_at}".format(**row))


def _matching(pattern: Pattern[str], what: str) -> Callable[[str], str]:
    """An argument type that refuses values that no dead letter can have."""

    def read(text: str) -> str:
        if not pattern.fullmatch(text):
            raise ArgumentTypeError(f"must be {what}, not {text[:30]!r}")
        return text

    return read


@dataclass(frozen=True)
class Done:
    """How many were requeued, how many skipped, and whether there may be more."""

    count: int
    not_ended: int
    more: bool


def _skipped(not_ended: int) -> str:
    return f" {not_ended} skipped: their deliveries have not ended yet; try again in a minute." if not_ended else ""


def _requeue(letter_filter: DeadLetterFilter, reason: str, limit: int, allow_waiting: bool) -> Done:
    show = progress("requeued", limit)
    count = selected = not_ended = 0
    cursor: Cursor | None = None
    for part in itertools.count(1):
        try:
            result = requeue_matching(
                letter_filter,
                by=Operator(),
                reason=reason,
                limit=min(limit - selected, MAX_LIMIT),
                cursor=cursor,
                part=Part(part) if limit > MAX_LIMIT else None,
                allow_waiting=allow_waiting,
            )
        except InvalidRequeue as error:
            hint = " Use --allow-waiting to requeue anyway." if isinstance(error, WouldWait) else ""
            before = f" {count} dead letters were requeued before." if count else ""
            raise CommandError(f"Nothing was requeued: {error}.{hint}{before}") from None
        selected, count, cursor = selected + len(result.results), count + result.count, result.next
        not_ended += result.not_ended
        show(selected, "")
        if cursor is None or selected >= limit:
            break
    return Done(count, not_ended, cursor is not None)
