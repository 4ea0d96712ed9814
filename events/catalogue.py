"""The catalogue of event types: declared, changed and removed here, and nowhere else."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from typing import Any, NamedTuple

from django.db import transaction
from django.utils.translation import gettext as _

from subscriptions.filters import LABEL_NAME, LABEL_NAME_RULE
from webhookhub.auditlog import actions
from webhookhub.auditlog.record import changes, record
from webhookhub.db import clock
from webhookhub.validators import first_forbidden, forbidden_message

from . import json_schema, payloads
from .errors import InvalidEvent
from .intake import EVENT_TYPE, is_reserved
from .labels import MAX_LABELS
from .models import Event, EventType
from .pointers import MAX_LENGTH, Pointer

DESCRIPTION_LENGTH = 10_000
TEXT_LENGTHS = {"description": DESCRIPTION_LENGTH, "group": 100, "deprecation_note": 500}
MAX_SAMPLE_BYTES = 64 * 1024
MAX_TYPES = 5000
# Types whose names are read from the events, one index look-up each.
MAX_SEEN = 500
AUDITED = ("description", "group", "strict", "deprecated", "deprecation_note", "label_pointers")
# Too long for the audit log, which says only whether there was and is one.
DOCUMENTS = ("sample", "json_schema")


class InvalidEventType(ValueError):
    """Nothing was stored; `errors` maps each field to its error."""

    def __init__(self, errors: Mapping[str, str], name: str = "") -> None:
        super().__init__("; ".join(f"{field} {error}" for field, error in errors.items()))
        self.errors = dict(errors)
        self.name = name


@dataclass(frozen=True)
class Declaration:
    """What is declared about an event type. `sample` and `json_schema` are JSON values; None: there is none."""

    description: str = ""
    group: str = ""
    sample: Any = None
    json_schema: Any = None
    label_pointers: Mapping[str, str] = field(default_factory=dict)
    strict: bool = False
    deprecated: bool = False
    deprecation_note: str = ""

    @classmethod
    def of(cls, row: EventType) -> Declaration:
        return cls(
            description=row.description,
            group=row.group,
            sample=_value(row.sample),
            json_schema=_value(row.json_schema),
            label_pointers=_value(row.label_pointers) or {},
            strict=row.strict,
            deprecated=row.deprecated_at is not None,
            deprecation_note=row.deprecation_note,
        )


FIELDS = tuple(item.name for item in fields(Declaration))


class Saved(NamedTuple):
    event_type: EventType
    created: bool


class Seen(NamedTuple):
    """An event type of stored events, and when the last of them was stored."""

    name: str
    last_at: datetime


def declare(name: str, declaration: Declaration) -> Saved:
    """Store the declaration in the place of the earlier one. The same again changes nothing.

    Raises InvalidEventType.
    """
    check(name, declaration)
    with transaction.atomic():
        return _store(name, declaration)


def declare_all(declarations: Mapping[str, Declaration]) -> list[Saved]:
    """All of them or none. Raises InvalidEventType, with the name of the first that is invalid."""
    for name, declaration in declarations.items():
        check(name, declaration)
    with transaction.atomic():
        return [_store(name, declaration) for name, declaration in sorted(declarations.items())]


def delete(name: str) -> bool:
    """Remove the declaration; events of this type stay as they are. False if there was none."""
    with transaction.atomic():
        row = EventType.objects.select_for_update().filter(name=name).first()
        if row is None:
            return False
        record(actions.DELETE_EVENT_TYPE, row)
        row.delete()
        return True


def check(name: str, declaration: Declaration) -> None:
    """Raises InvalidEventType with the errors of all fields."""
    errors = dict(_errors(name, declaration))
    if errors:
        raise InvalidEventType(errors, name)


def undeclared() -> tuple[list[Seen], bool]:
    """The types of stored events that are not declared, and whether there may be more of them.

    One look-up in the index of event types per type: the number of events does not matter.
    """
    declared = set(EventType.objects.values_list("name", flat=True))
    names, more = _seen()
    unknown = [name for name in names if name not in declared and not is_reserved(name)]
    return [Seen(name, _last_at(name)) for name in unknown], more


def _seen() -> tuple[list[str], bool]:
    names: list[str] = []
    while len(names) <= MAX_SEEN:
        rows = Event.objects.filter(event_type__gt=names[-1]) if names else Event.objects.all()
        found = rows.order_by("event_type", "created_at").values_list("event_type", flat=True).first()
        if found is None:
            return names, False
        names.append(found)
    return names[:MAX_SEEN], True


def _last_at(name: str) -> datetime:
    rows = Event.objects.filter(event_type=name).order_by("-created_at")
    return rows.values_list("created_at", flat=True)[0]


def _errors(name: str, declaration: Declaration) -> Iterator[tuple[str, str]]:
    if not EVENT_TYPE.match(name):
        yield "name", _("must be 1 to 100 letters, digits, dots, dashes and underscores")
    elif is_reserved(name):
        yield "name", _("is reserved for the hub's own events")
    for text, limit in TEXT_LENGTHS.items():
        value = getattr(declaration, text)
        if len(value) > limit:
            yield text, _("must have at most %(limit)s characters") % {"limit": limit}
        elif code := first_forbidden(value):
            yield text, forbidden_message(code)
    if declaration.deprecation_note and not declaration.deprecated:
        yield "deprecation_note", _("is only for a deprecated event type")
    yield from _pointer_errors(declaration.label_pointers)
    yield from _schema_errors(declaration)


def _pointer_errors(pointers: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    if len(pointers) > MAX_LABELS:
        yield "label_pointers", _("must have at most %(limit)s labels") % {"limit": MAX_LABELS}
    for label, pointer in pointers.items():
        if not LABEL_NAME.match(label):
            yield "label_pointers", f"{label[:100]!r}: {LABEL_NAME_RULE}"
            return
        try:
            Pointer.parse(pointer)
        except ValueError as error:
            yield "label_pointers", f"{label}: {error}"
            return
        if len(pointer) > MAX_LENGTH:
            yield "label_pointers", f"{label}: " + _("must have at most %(limit)s characters") % {"limit": MAX_LENGTH}
            return


def _schema_errors(declaration: Declaration) -> Iterator[tuple[str, str]]:
    if declaration.sample is not None:
        try:
            text = payloads.encode(declaration.sample)
        except InvalidEvent as error:
            yield "sample", error.why
        else:
            if len(text.encode()) > MAX_SAMPLE_BYTES:
                yield "sample", _("must have at most %(limit)s bytes") % {"limit": MAX_SAMPLE_BYTES}
    if declaration.json_schema is None:
        if declaration.strict:
            yield "strict", _("needs a JSON Schema")
        return
    try:
        json_schema.check(declaration.json_schema)
    except json_schema.InvalidSchema as error:
        yield "json_schema", str(error)
        return
    if declaration.sample is not None and (
        wrong := json_schema.Validator(declaration.json_schema).errors(declaration.sample)
    ):
        yield "sample", _("breaks the JSON Schema: %(errors)s") % {"errors": wrong}


def _store(name: str, declaration: Declaration) -> Saved:
    row = EventType.objects.select_for_update().filter(name=name).first()
    if row is None:
        if EventType.objects.count() >= MAX_TYPES:
            why = _("is one too many: at most %(limit)s event types can be declared") % {"limit": MAX_TYPES}
            raise InvalidEventType({"name": why}, name)
        row = EventType(name=name)
        _assign(row, declaration)
        row.save(force_insert=True)
        record(actions.DECLARE_EVENT_TYPE, row, details=_filled(_audited(declaration)))
        row.refresh_from_db()
        return Saved(row, True)
    before, columns = Declaration.of(row), _columns(row)
    _assign(row, declaration)
    if _columns(row) != columns:
        row.updated_at = clock.now()
        row.save()
        changed = changes(_audited(before), _audited(declaration))
        now = _columns(row)
        changed |= {
            name: {"from": bool(columns[name]), "to": bool(now[name])}
            for name in DOCUMENTS
            if now[name] != columns[name]
        }
        record(actions.CHANGE_EVENT_TYPE, row, details=changed)
    return Saved(row, False)


def _columns(row: EventType) -> dict[str, Any]:
    return {name: getattr(row, name) for name in ("deprecated_at", *FIELDS) if name != "deprecated"}


def _assign(row: EventType, declaration: Declaration) -> None:
    for name in ("description", "group", "strict", "deprecation_note"):
        setattr(row, name, getattr(declaration, name))
    row.sample = _text(declaration.sample)
    row.json_schema = _text(declaration.json_schema)
    row.label_pointers = _text(dict(declaration.label_pointers) or None)
    if not declaration.deprecated:
        row.deprecated_at = None
    elif row.deprecated_at is None:
        row.deprecated_at = clock.now()


def _audited(declaration: Declaration) -> dict[str, Any]:
    values = asdict(declaration)
    return {name: values[name] for name in AUDITED}


def _filled(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value}


def _value(text: str) -> Any:
    return json.loads(text) if text else None


def _text(value: Any) -> str:
    return "" if value is None else json.dumps(value, ensure_ascii=False, indent=2)
