import json
from datetime import datetime, timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db.models import QuerySet

from api import keys
from api.models import ApiKey
from api.scopes import SCOPES
from webhookhub.db import clock
from webhookhub.terminal import EXAMPLE, Operator, parse_time, whole_number

LIST_LIMIT = 1000
MAX_DAYS = 99_999


class Command(BaseCommand):
    help = "Creates, lists and revokes API keys."

    def add_arguments(self, parser: CommandParser) -> None:
        subparsers = parser.add_subparsers(dest="action", required=True, metavar="create|list|revoke")
        create = subparsers.add_parser("create", help="create a key and print it; it cannot be shown again")
        create.add_argument("name", help="the name of the key, such as shop")
        create.add_argument(
            "--scope", action="append", default=[], metavar="SCOPE", help=f"repeatable: {', '.join(SCOPES)}"
        )
        create.add_argument("--source", help="bind the key to this producer")
        create.add_argument(
            "--network",
            action="append",
            default=[],
            metavar="CIDR",
            help="repeatable: a network that the key may be used from (default: everywhere)",
        )
        create.add_argument(
            "--expires", metavar="WHEN", help="a number of days, or a time such as 2027-01-31T00:00:00Z"
        )
        create.add_argument(
            "--rate",
            type=whole_number(keys.MAX_RATE),
            metavar="N",
            help="events per second (default: the hub's setting)",
        )
        listing = subparsers.add_parser("list", help="list the keys, without their secrets")
        revoke = subparsers.add_parser("revoke", help="revoke a key")
        revoke.add_argument("key", help="the key's name or id")
        for subparser in (create, listing, revoke):
            subparser.add_argument("--json", action="store_true", help="print the result as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        getattr(self, f"_{options['action']}")(options)

    def _create(self, options: dict[str, Any]) -> None:
        if options["source"] == "":
            # Most likely an unset variable. A key without a source could read the events of all producers.
            raise CommandError("No key was created: source is empty; name a producer, or omit --source.")
        try:
            key, text = keys.create(
                options["name"],
                options["scope"],
                by=Operator().get_username(),
                source=options["source"] or "",
                expires_at=_expiry(options["expires"]),
                events_per_second=options["rate"],
                networks=",".join(options["network"]),
            )
        except keys.InvalidKey as error:
            raise CommandError(f"No key was created: {error}.") from None
        if options["json"]:
            self._print_json({**_described(key, clock.now()), "key": text})
            return
        self.stdout.write(text)
        self.stderr.write("The key is not shown again. Send it as: Authorization: Bearer whk_…")

    def _list(self, options: dict[str, Any]) -> None:
        now = clock.now()
        rows = [_described(key, now) for key in ApiKey.objects.order_by("name")[:LIST_LIMIT]]
        if options["json"]:
            self._print_json({"keys": rows})
            return
        for key in rows:
            line = f"{key['name']}  {key['id']}  {key['state']}  {' '.join(key['scopes'])}"
            source = f"  source {key['source']}" if key["source"] else ""
            self.stdout.write(f"{line}{source}  last used {key['last_used_at'] or 'never'}")

    def _revoke(self, options: dict[str, Any]) -> None:
        key = _find(options["key"])
        if key is None:
            raise CommandError(f"There is no key {options['key']!r}; `api_key list` shows all keys.")
        revoked = keys.revoke(key, by=Operator().get_username())
        if options["json"]:
            self._print_json({**_described(key, clock.now()), "revoked_now": revoked})
        else:
            self.stdout.write(f"{key} is revoked." if revoked else f"{key} was revoked before.")

    def _print_json(self, document: dict[str, Any]) -> None:
        self.stdout.write(json.dumps(document))


def _find(text: str) -> ApiKey | None:
    """The key with this name or id."""
    if not text.isprintable():
        return None  # no key has such a name, and undecodable bytes cannot be sent to the database
    by_name: QuerySet[ApiKey] = ApiKey.objects.filter(name=text)
    return by_name.first() or ApiKey.objects.filter(key_id=text).first()


def _expiry(text: str | None) -> datetime | None:
    if text is None or not (text.isascii() and text.isdigit()):
        return parse_time("--expires", text)
    if len(text) > len(str(MAX_DAYS)):
        raise CommandError(f"--expires: give at most {MAX_DAYS} days, or a time such as {EXAMPLE}, or omit it.")
    return clock.now() + timedelta(days=int(text))


def _described(key: ApiKey, now: datetime) -> dict[str, Any]:
    return {
        "name": key.name,
        "id": key.key_id,
        "state": key.state(now),
        "scopes": key.scopes.split(),
        "source": key.source or None,
        "networks": key.networks.split(",") if key.networks else None,
        "events_per_second": key.events_per_second,
        "expires_at": _iso(key.expires_at),
        "last_used_at": _iso(key.last_used_at),
        "revoked_at": _iso(key.revoked_at),
        "created_by": key.created_by,
    }


def _iso(value: datetime | None) -> str | None:
    return None if value is None else value.isoformat().replace("+00:00", "Z")
