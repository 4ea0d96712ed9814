"""Choosing dead letters by what they have in common, a bounded stretch of the table at a time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, NamedTuple

from django.db import connection
from django.utils.translation import gettext as _

from events.models import Event
from webhookhub.console import forms
from webhookhub.console.format import visible
from webhookhub.db import vendors

from . import lookup
from .models import DeadLetter

NAMES = [field.column for field in DeadLetter._meta.concrete_fields if field.name != "payload_snapshot"]
COLUMNS = ", ".join(NAMES)
TIMES = {"since", "until"}
# What these two can be at all.
ERROR_CODE = re.compile(r"\A[a-z0-9_]{1,100}\Z")
EVENT_TYPE = re.compile(r"\A[A-Za-z0-9_.-]{1,100}\Z")
# What an index of its own finds, that which finds fewest first: its column and the index.
LEADING = {
    "saga_id": ("saga_id", "idx_dead_saga"),
    "event_id": ("event_id", "idx_dead_event"),
    "subscription_id": ("subscription_id", "idx_dead_subscription"),
    "error_code": ("final_error_code", "idx_dead_error"),
}


class Position(NamedTuple):
    """Where a walk along the dead letters, in the order of their failure, has come to."""

    failed_at: datetime
    id: int


@dataclass(frozen=True)
class Choice:
    """Those for which everything that is not None holds.

    `source` is the event's producer, `search` a term that names them.
    """

    error_code: str | None = None
    subscription_id: int | None = None
    event_type: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    source: str | None = None
    event_id: int | None = None
    saga_id: int | None = None
    search: str | None = None

    @cached_property
    def named(self) -> lookup.Named | None:
        """What the term names, looked for once; None without one."""
        return None if self.search is None else lookup.find(self.search)

    @property
    def may_name_more(self) -> bool:
        """Whether the term names more than are looked at."""
        return self.named is not None and self.named.more

    @property
    def by_events(self) -> bool:
        return self.event_type is not None or self.source is not None

    @property
    def is_indexed(self) -> bool:
        """Whether an index finds exactly these, so that none has to be looked at in vain."""
        given = [name for name in ("search", *LEADING) if getattr(self, name) is not None]
        return not self.by_events and len(given) <= 1

    def in_words(self) -> str:
        """What has been chosen, for people, in their language and time zone."""
        given = [
            (_("error"), self.error_code),
            (_("subscription"), self.subscription_id),
            (_("event type"), self.event_type),
            (_("source"), self.source),
            (_("since"), self.since and forms.named(self.since)),
            (_("until"), self.until and forms.named(self.until)),
            (_("event"), self.event_id),
            (_("delivery"), self.saga_id),
            (_("search"), self.search and visible(self.search)),
        ]
        return ", ".join(f"{name} {value}" for name, value in given if value) or _("all dead letters")

    def as_facts(self) -> dict[str, Any]:
        """What is given, as JSON can hold it; `from_facts` reads it."""
        facts = {name: value for name, value in asdict(self).items() if value is not None}
        return {name: value.isoformat() if name in TIMES else value for name, value in facts.items()}

    @classmethod
    def from_facts(cls, facts: dict[str, Any]) -> Choice:
        times = {name: datetime.fromisoformat(facts[name]) for name in TIMES & facts.keys()}
        return cls(**{**facts, **times})

    def _leading(self) -> tuple[str, str, list[Any]]:
        """The table along the index that leads, and what that is asked for; the rest is for `keep`."""
        table = DeadLetter._meta.db_table
        if self.named is not None:
            places = ", ".join(["%s"] * len(self.named.ids))
            numbered = vendors.by_primary_key(connection, table, "letter")
            return numbered, f"id IN ({places})" if places else "1 = 0", self.named.ids
        for name, (column, index) in LEADING.items():
            if (value := getattr(self, name)) is not None:
                return vendors.by_index(connection, table, index), f"{column} = %s", [value]
        return vendors.by_index(connection, table, "idx_dead_failed"), "1 = 1", []

    def keep(self, letters: Sequence[DeadLetter]) -> list[DeadLetter]:
        for name, (column, _index) in LEADING.items():
            if (value := getattr(self, name)) is not None:
                letters = [letter for letter in letters if getattr(letter, column) == value]
        if self.named is not None:
            named = set(self.named.ids)
            letters = [letter for letter in letters if letter.id in named]
        if not self.by_events or not letters:
            return list(letters)
        ids = {letter.event_id for letter in letters}
        ids = Event.objects.among(ids, event_type=self.event_type, source=self.source)
        return [letter for letter in letters if letter.event_id in ids]


def newest_first(choice: Choice, after: Position | None, most: int) -> list[DeadLetter]:
    return _walk(choice, after, most, "<", "DESC")


def oldest_first(choice: Choice, after: Position | None, most: int, highest: int) -> list[DeadLetter]:
    """Of those up to the id `highest`."""
    return _walk(choice, after, most, ">", "ASC", highest)


def _walk(
    choice: Choice, after: Position | None, most: int, beyond: str, order: str, highest: int | None = None
) -> list[DeadLetter]:
    """The next so many in order."""
    stretch = along(choice, COLUMNS, after, beyond, highest)
    sql = f"{stretch.sql} ORDER BY failed_at {order}, id {order} LIMIT %s"
    return list(DeadLetter.objects.raw(sql, [*stretch.parameters, most]))


class Stretch(NamedTuple):
    sql: str
    parameters: list[Any]


def along(
    choice: Choice, columns: str, after: Position | None, beyond: str = ">", highest: int | None = None
) -> Stretch:
    """A query for what lies beyond `after`. In SQL, because the index must be named: else all rows may be read and
    sorted. The order and the limit are the caller's to add; of the choice, what the index does not know is left to
    `keep`."""
    table, leading, values = choice._leading()
    conditions = [(leading, values)]
    if choice.since is not None:
        conditions.append(("failed_at >= %s", [_moment(choice.since)]))
    if choice.until is not None:
        conditions.append(("failed_at <= %s", [_moment(choice.until)]))
    if after is not None:
        # Not (failed_at < …) OR (failed_at = … AND id < …): an OR would hide the range from the optimizers.
        there = _moment(after.failed_at)
        conditions.append((f"failed_at {beyond}= %s", [there]))
        conditions.append((f"NOT (failed_at = %s AND NOT id {beyond} %s)", [there, after.id]))
    if highest is not None:
        conditions.append(("id <= %s", [highest]))
    where = " AND ".join(condition for condition, values in conditions)
    sql = f"SELECT {columns} FROM {table} WHERE {where}"  # noqa: S608
    return Stretch(sql, [value for condition, values in conditions for value in values])


def _moment(value: datetime) -> Any:
    """In the form in which this database holds it."""
    return DeadLetter._meta.get_field("failed_at").get_db_prep_value(value, connection)


def position(letter: DeadLetter) -> Position:
    return Position(letter.failed_at, letter.id)
