import json
import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from events import payloads
from events.errors import EventConflict, InvalidEvent
from events.intake import publish
from events.models import DEFAULT_SOURCE


class Command(BaseCommand):
    help = "Publishes one event."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("event_type", help="such as order.created")
        parser.add_argument("payload", help="JSON text; @FILE reads a file, - reads standard input")
        parser.add_argument("--source", default=DEFAULT_SOURCE, help="the producer's name")
        parser.add_argument("--external-id", help="the producer's own id: the same id is stored once")
        parser.add_argument("--correlation-id", help="groups the events of one business case")
        parser.add_argument(
            "--label", action="append", default=[], metavar="NAME=VALUE", help="repeatable: a text to filter by"
        )
        parser.add_argument("--json", action="store_true", help="print the result as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            published = publish(
                options["event_type"],
                payloads.read(_text(options["payload"])),
                source=options["source"],
                external_id=options["external_id"],
                correlation_id=options["correlation_id"],
                labels=_labels(options["label"]),
            )
        except (InvalidEvent, EventConflict) as error:
            raise CommandError(str(error)) from None
        if options["json"]:
            self.stdout.write(json.dumps({"uid": str(published.uid), "created": published.created}))
        else:
            self.stdout.write(f"event {published.uid} {'stored' if published.created else 'was already stored'}")


def _labels(arguments: list[str]) -> dict[str, str]:
    labels: dict[str, str] = {}
    for argument in arguments:
        name, sign, value = argument.partition("=")
        if not sign or name in labels:
            raise CommandError(f"--label {argument}: give each label once, as NAME=VALUE")
        labels[name] = value
    return labels


def _text(argument: str) -> str | bytes:
    if argument == "-":
        return sys.stdin.buffer.read()
    if argument == "@":
        raise CommandError("payload: a file's path must follow the @, as in @order.json")
    if argument.startswith("@"):
        try:
            return Path(argument[1:]).read_bytes()
        except OSError as error:
            raise CommandError(f"payload: {argument[1:]} cannot be read: {error.strerror}") from None
    return argument
