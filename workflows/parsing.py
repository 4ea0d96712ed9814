"""Parse and validate definitions. An error names the definition and the field."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any, NoReturn

from events.intake import EVENT_TYPE, is_reserved
from webhookhub.validators import first_forbidden, is_forbidden

from .definition import CORRELATION_ID, Definition, Step, label, sort_steps
from .state import DONE, FAILURE, UNDO_FAILED, UNDONE

KEY = re.compile(r"[a-z][a-z0-9_]*\Z")
PATH = re.compile(r"payload(\.[A-Za-z0-9_-]+)+\Z")
NAME_LENGTH = 30
STEP_LENGTH = 28
MAX_STEPS = 50
TIMEOUT = timedelta(minutes=30)
MAX_TIMEOUT = 366 * 86400.0
UNDO_PHRASES = {UNDONE: "was undone", UNDO_FAILED: "could not be undone"}
# Field and reason.
Fault = tuple[str, str]

FIELDS = {"name", "version", "title", "description", "starts", "steps", "correlation", "aggregate", "error"}
FIELDS |= {"timeout_seconds", "compensation_timeout_seconds"}
STEP_FIELDS = {"key", "title", "after", "done", "failed", "compensated", "compensation_failed", "optional"}
STEP_FIELDS |= {"timeout_seconds"}


class InvalidDefinition(ValueError):
    """A definition cannot be used. The message names the field and how to fix it."""

    def __init__(self, definition: str, field: str, why: str) -> None:
        super().__init__(f"workflow definition {definition}: {field} {why}")
        self.definition = definition
        self.field = field
        self.why = why


def parse(document: Mapping[str, Any], file: str, *, stored: bool = False) -> Definition:
    """`file`: its name in errors. `stored`: it was accepted before and has runs, so newer rules do not apply."""
    reader = _Reader(document, file, stored)
    reader.require_fields(FIELDS)
    name = reader.key("name", NAME_LENGTH)
    version = document.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or not 1 <= version <= 30000:
        reader.refuse("version", "must be a whole number from 1 to 30000")
    file = "" if stored else file
    reader.definition = label(name, version, file)
    steps = _steps(reader)
    definition = Definition(
        name=name,
        version=version,
        starts=reader.types("starts", required=True),
        steps=steps,
        timeout=reader.seconds("timeout_seconds") or TIMEOUT,
        compensation_timeout=reader.seconds("compensation_timeout_seconds") or TIMEOUT,
        correlation=reader.path("correlation", CORRELATION_ID) or CORRELATION_ID,
        aggregate=reader.path("aggregate"),
        error=reader.path("error") or "payload.reason",
        title=reader.text("title") or name.replace("_", " ").capitalize(),
        description=reader.text("description"),
        document=dict(document),
        file=file,
    )
    for field, why in _faults(definition):
        reader.refuse(field, why)
    if not stored:
        for field, why in _contradictions(definition):
            reader.refuse(field, why)
    return definition


def _steps(reader: _Reader) -> tuple[Step, ...]:
    tables = reader.table.get("steps")
    if not isinstance(tables, list) or not 1 <= len(tables) <= MAX_STEPS:
        reader.refuse("steps", f"must be 1 to {MAX_STEPS} tables [[steps]]")
    for position, table in enumerate(tables, 1):
        if not isinstance(table, dict):
            reader.refuse(f"steps[{position}]", "must be a table")
    return tuple(
        _step(_Reader(table, reader.definition, reader.stored, f"steps[{position}]."))
        for position, table in enumerate(tables, 1)
    )


def _step(reader: _Reader) -> Step:
    key = reader.key("key", STEP_LENGTH)
    reader.prefix = f"steps.{key}."
    reader.require_fields(STEP_FIELDS)
    optional = reader.table.get("optional", False)
    if not isinstance(optional, bool):
        reader.refuse("optional", "must be true or false")
    return Step(
        key=key,
        done=reader.types("done", required=True),
        failed=reader.types("failed"),
        compensated=reader.types("compensated"),
        compensation_failed=reader.types("compensation_failed"),
        after=reader.texts("after", "step keys"),
        timeout=reader.seconds("timeout_seconds"),
        optional=optional,
        title=reader.text("title") or key.replace("_", " ").capitalize(),
    )


class _Reader:
    """Reads the fields of a table, or raises InvalidDefinition. `prefix` precedes the field's name in errors."""

    def __init__(self, table: Mapping[str, Any], definition: str, stored: bool, prefix: str = "") -> None:
        self.table = table
        self.definition = definition
        self.stored = stored
        self.prefix = prefix

    def refuse(self, field: str, why: str) -> NoReturn:
        raise InvalidDefinition(self.definition, f"{self.prefix}{field}", why)

    def require_fields(self, fields: set[str]) -> None:
        for field in self.table:
            if field not in fields:
                self.refuse(field, f"does not exist; the fields are {', '.join(sorted(fields))}")

    def texts(self, field: str, what: str) -> tuple[str, ...]:
        values = self.table.get(field, [])
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            self.refuse(field, f"must be a list of {what}")
        return tuple(values)

    def types(self, field: str, *, required: bool = False) -> tuple[str, ...]:
        types = self.texts(field, "event types")
        if required and not types:
            self.refuse(field, "is missing; give at least one event type")
        for name in types:
            if not EVENT_TYPE.match(name):
                rule = "an event type has 1 to 100 letters, digits, dots, dashes, underscores"
                self.refuse(field, f"contains {name!r}; {rule}")
            if is_reserved(name) and not self.stored:
                # Otherwise runs could start runs in a loop.
                self.refuse(field, f"contains {name!r}, which only the hub publishes; workflows cannot listen to it")
            if types.count(name) > 1:
                self.refuse(field, f"contains {name!r} twice")
        return types

    def seconds(self, field: str) -> timedelta | None:
        if field not in self.table:
            return None
        value = self.table[field]
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0.001 <= value <= MAX_TIMEOUT:
            self.refuse(field, f"must be a number of seconds from 0.001 to {MAX_TIMEOUT:.0f}")
        return timedelta(seconds=value)

    def path(self, field: str, *others: str) -> str | None:
        if field not in self.table:
            return None
        value = self.table[field]
        if not isinstance(value, str) or (value not in others and not PATH.match(value)):
            choices = "".join(f"{other!r} or " for other in others)
            self.refuse(field, f"must be {choices}a path into the payload such as 'payload.order_id'")
        return value

    def key(self, field: str, limit: int) -> str:
        value = self.table.get(field)
        if not isinstance(value, str) or not KEY.match(value) or len(value) > limit:
            self.refuse(field, f"must be a lowercase letter and up to {limit - 1} of a-z, 0-9 and _")
        return value

    def text(self, field: str) -> str:
        value = self.table.get(field, "")
        if not isinstance(value, str) or len(value) > 2000:
            self.refuse(field, "must be a text of at most 2000 characters")
        value = value.strip().replace("\t", " ")
        if self.stored:
            return "".join("" if is_forbidden(character) else character for character in value)
        if code := first_forbidden(value):
            rule = "must not contain control characters except line breaks, or bidirectional marks"
            self.refuse(field, f"{rule}; {code} is one")
        return value


def _faults(definition: Definition) -> Iterator[Fault]:
    keys = [step.key for step in definition.steps]
    for key in keys:
        if keys.count(key) > 1:
            yield "steps", f"has two steps with the key {key!r}"
    for step in definition.steps:
        for other in step.after:
            if other not in keys:
                known = f"the steps are {', '.join(keys)}"
                yield f"steps.{step.key}.after", f"contains {other!r}, which is not a step; {known}"
        if step.compensation_failed and not step.compensated:
            yield f"steps.{step.key}.compensation_failed", "needs compensated as well"
        roles: dict[str, str] = {}
        for role, types in step.types().items():
            for name in types:
                if name in roles:
                    yield f"steps.{step.key}", f"has {name!r} both in {roles[name]} and in {role}"
                roles[name] = role
        if step.timeout and step.timeout > definition.timeout:
            limit = f"{definition.timeout.total_seconds():g}"
            yield (
                f"steps.{step.key}.timeout_seconds",
                f"is longer than the timeout of the whole run, which is {limit}",
            )
    if cycle := sort_steps(definition.steps)[1]:
        yield "steps", f"come after each other in a cycle: {', '.join(step.key for step in cycle)}"
    if not definition.required:
        yield "steps", "are all optional; at least one must be required"


def _contradictions(definition: Definition) -> Iterator[Fault]:
    yield from _order(definition)
    yield from _starts_with_its_failure(definition)
    yield from _reports_two_steps(definition)
    yield from _done_by_undoing(definition)


def _order(definition: Definition) -> Iterator[Fault]:
    """The time of a required step that waits for an optional one would never start to run."""
    for step in definition.steps:
        for other in step.after:
            if definition.by_key[other].optional and not step.optional:
                yield (
                    f"steps.{step.key}.after",
                    f"contains {other!r}, which is optional; a required step can only come after required steps",
                )
            if step.after.count(other) > 1:
                yield f"steps.{step.key}.after", f"contains {other!r} twice"


def _starts_with_its_failure(definition: Definition) -> Iterator[Fault]:
    """A failure or compensation must not start a run."""
    for step in definition.steps:
        for name in ("failed", "compensated", "compensation_failed"):
            for event_type in getattr(step, name):
                if event_type in definition.starts:
                    yield (
                        f"steps.{step.key}.{name}",
                        f"contains {event_type!r}, which is in starts: a failure or compensation would start a run; "
                        "use different event types",
                    )


def _reports_two_steps(definition: Definition) -> Iterator[Fault]:
    """One event must not complete two steps, or complete one and fail another."""
    for event_type, pairs in definition.roles.items():
        done = [step for step, role in pairs if role == DONE]
        failed = [step for step, role in pairs if role == FAILURE]
        for other in done[1:]:
            yield (
                f"steps.{other}.done",
                f"contains {event_type!r}, which also means that step {done[0]!r} is done; use different event types",
            )
        if done and failed:
            yield (
                f"steps.{done[0]}.done",
                f"contains {event_type!r}, which also means that step {failed[0]!r} failed; use different event types",
            )


def _done_by_undoing(definition: Definition) -> Iterator[Fault]:
    """A required step must be able to succeed without the compensation of another required step."""
    undoing = {
        event_type: (other.key, role)
        for other in definition.required
        for role in UNDO_PHRASES
        for event_type in other.types()[role]
    }
    for step in definition.required:
        if undoing.keys() >= set(step.done):
            other, role = undoing[step.done[0]]
            yield (
                f"steps.{step.key}.done",
                f"contains {step.done[0]!r}, which also means that step {other!r} {UNDO_PHRASES[role]}: the run could "
                "complete only by a compensation; use different event types",
            )
