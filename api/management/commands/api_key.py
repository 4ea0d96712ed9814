import json
from datetime import datetime, timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db.models import QuerySet

from api import keys
from api.models import ApiKey
from api.scopes import SCOPES
from webhookhub.console.exact_search import number
from webhookhub.db import clock
from webhookhub.terminal import EXAMPLE, Operator, parse_time, whole_number

LISTED = 1000
MOST_DAYS = 99_999


class Command(BaseCommand):
    help = "Makes, lists and revokes the keys by which programs use the API."

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True, metavar="create|list|revoke")
        create = verbs.add_parser("create", help="make a key and print it, once")
        create.add_argument("name", help="what it is called, such as shop")
        create.add_argument(
            "--scope", action="append", default=[], metavar="SCOPE", help=f"repeatable: {', '.join(SCOPES)}"
        )
        create.add_argument("--source", help="bind it to this producer: it sees nothing of others")
        create.add_argument(
            "--expires", metavar="WHEN", help="a number of days, or a time such as 2027-01-31T00:00:00Z"
        )
        create.add_argument(
            "--rate",
            type=whole_number(keys.HIGHEST_RATE),
            metavar="N",
            help="events a second, if not the hub's default",
        )
        listing = verbs.add_parser("list", help="list the keys; what they open with is not stored")
        revoke = verbs.add_parser("revoke", help="from now on it opens nothing")
        revoke.add_argument("key", help="the key's name or id")
        for verb in (create, listing, revoke):
            verb.add_argument("--json", action="store_true", help="print the result as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        getattr(self, f"_{options['verb']}")(options)

    def _create(self, options: dict[str, Any]) -> None:
        if options["source"] == "":
            # Most likely a variable that is not set; a key without a source would see what all producers send.
            raise CommandError("No key was made: source is empty; name a producer, or leave --source out.")
        try:
            key, text = keys.create(
                options["name"],
                options["scope"],
                by=Operator().get_username(),
                source=options["source"] or "",
                expires_at=_expiry(options["expires"]),
                events_per_second=options["rate"],
            )
        except keys.InvalidKey as error:
            raise CommandError(f"No key was made: {error}.") from None
        if options["json"]:
            self._print_json({**_described(key, clock.now()), "key": text})
            return
        self.stdout.write(text)
        self.stderr.write("It is shown this once. Programs send it as: Authorization: Bearer whk_…")

    def _list(self, options: dict[str, Any]) -> None:
        now = clock.now()
        found = [_described(key, now) for key in ApiKey.objects.order_by("name")[:LISTED]]
        if options["json"]:
            self._print_json({"keys": found})
            return
        for key in found:
            what = f"{key['name']}  {key['id']}  {key['state']}  {' '.join(key['scopes'])}"
            source = f"  source {key['source']}" if key["source"] else ""
            self.stdout.write(f"{what}{source}  last used {key['last_used_at'] or 'never'}")

    def _revoke(self, options: dict[str, Any]) -> None:
        key = _found(options["key"])
        if key is None:
            raise CommandError(f"There is no key {options['key']!r}; `api_key list` names them.")
        revoked = keys.revoke(key, by=Operator().get_username())
        if options["json"]:
            self._print_json({**_described(key, clock.now()), "revoked_now": revoked})
        else:
            self.stdout.write(f"{key} is revoked." if revoked else f"{key} was revoked before.")

    def _print_json(self, document: dict[str, Any]) -> None:
        self.stdout.write(json.dumps(document))


def _found(text: str) -> ApiKey | None:
    """By its name, or else by its id."""
    if not text.isprintable():
        return None  # no key is called so, and bytes that are no text cannot even be asked for
    named: QuerySet[ApiKey] = ApiKey.objects.filter(name=text)
    return named.first() or ApiKey.objects.filter(key_id=text).first()


def _expiry(text: str | None) -> datetime | None:
    if text is None or not (text.isascii() and text.isdigit()):
        return parse_time("--expires", text)
    days = number(text)
    if days is None or days > MOST_DAYS:
        raise CommandError(f"--expires: give at most {MOST_DAYS} days, or a time such as {EXAMPLE}, or leave it out.")
    return clock.now() + timedelta(days=days)


def _described(key: ApiKey, now: datetime) -> dict[str, Any]:
    return {
        "name": key.name,
        "id": key.key_id,
        "state": key.state(now),
        "scopes": key.scopes.split(),
        "source": key.source or None,
        "events_per_second": key.events_per_second,
        "expires_at": _said(key.expires_at),
        "last_used_at": _said(key.last_used_at),
        "revoked_at": _said(key.revoked_at),
        "created_by": key.created_by,
    }


def _said(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat().replace("+00:00", "Z")
