import json
import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from events import catalogue, openapi, payloads
from events.errors import InvalidEvent
from events.models import EventType


class Command(BaseCommand):
    help = "Lists, imports and exports the catalogue of event types."

    def add_arguments(self, parser: CommandParser) -> None:
        subparsers = parser.add_subparsers(dest="action", required=True, metavar="list|undeclared|import|export")
        listing = subparsers.add_parser("list", help="list the declared event types")
        undeclared = subparsers.add_parser("undeclared", help="list types of stored events that are not declared")
        reading = subparsers.add_parser("import", help="declare the webhooks of an OpenAPI 3.1 document")
        reading.add_argument("file", help="the document, in JSON; - reads standard input")
        subparsers.add_parser("export", help="print the catalogue as an OpenAPI 3.1 document")
        for subparser in (listing, undeclared, reading):
            subparser.add_argument("--json", action="store_true", help="print the result as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        getattr(self, f"_{options['action']}")(options)

    def _list(self, options: dict[str, Any]) -> None:
        rows = list(EventType.objects.order_by("name"))
        if options["json"]:
            self._print({"event_types": [{"name": row.name, **vars(catalogue.Declaration.of(row))} for row in rows]})
            return
        for row in rows:
            marks = ["strict"] * row.strict + ["deprecated"] * (row.deprecated_at is not None)
            self.stdout.write("  ".join([row.name, *marks]))

    def _undeclared(self, options: dict[str, Any]) -> None:
        seen, more = catalogue.undeclared()
        if options["json"]:
            items = [{"name": item.name, "last_at": str(item.last_at)} for item in seen]
            self._print({"event_types": items, "more": more})
            return
        for item in seen:
            self.stdout.write(f"{item.name}  last event {item.last_at:%Y-%m-%d %H:%M}")
        if more:
            self.stderr.write(f"Only the first {catalogue.MAX_SEEN} types of stored events were examined.")

    def _import(self, options: dict[str, Any]) -> None:
        try:
            saved = openapi.import_document(payloads.parse(_bytes(options["file"])))
        except (openapi.InvalidDocument, InvalidEvent) as error:
            why = error.why if isinstance(error, InvalidEvent) else str(error)
            raise CommandError(f"Nothing was stored: {why}.") from None
        created = [item.event_type.name for item in saved if item.created]
        if options["json"]:
            existing = [item.event_type.name for item in saved if not item.created]
            self._print({"created": created, "existing": existing})
        else:
            self.stdout.write(f"{len(saved)} event types declared, {len(created)} of them new.")

    def _export(self, options: dict[str, Any]) -> None:
        self._print(openapi.export(EventType.objects.order_by("name")))

    def _print(self, document: Any) -> None:
        self.stdout.write(json.dumps(document, ensure_ascii=False, indent=2))


def _bytes(file: str) -> bytes:
    if file == "-":
        return sys.stdin.buffer.read(openapi.MAX_BYTES)
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise CommandError(f"{file} cannot be read: {error.strerror}") from None
