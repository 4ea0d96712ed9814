"""Parse and validate definitions. An error names the definition and the field."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any, NoReturn

from events.intake import EVENT_TYPE, is_reserved
from webhookhub.validators import first_forbidden, is_forbidden

from .definition import CORRELATION_ID, Definition, Step, label
from .state import DONE, FAILURE, UNDO_FAILED, UNDONE

KEY = re.compile(r"[a-z][a-z0-9_]*\Z")
PATH = re.compile(r"payload(\.[A-Za-z0-9_-]+)+\Z")
NAME_LENGTH = 30
STEP_LENGTH = 28
MAX_STEPS = 50
TIMEOUT = 1800.0
MAX_TIMEOUT = 366 * 86400.0
# Field and reason.
Contradiction = tuple[str, str]
UNDO_PHRASES = {UNDONE: "was undone", UNDO_FAILED: "could not be undone"}

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


def parse(document: Mapping[str, Any], called: str, *, stored: bool = False) -> Definition:
    """`called`: the file, for errors. `stored`: it was accepted before and has runs, so newer rules do not apply."""
    return _Parser(called, stored).definition(document)


class _Parser:
    def __init__(self, called: str, stored: bool) -> None:
        self._called = called
        self._stored = stored
        self._file = "" if stored else called

    def definition(self, document: Mapping[str, Any]) -> Definition:
        self._known(document, FIELDS, "")
        name = self._key(document.get("name"), "name", NAME_LENGTH)
        version = document.get("version")
        if not isinstance(version, int) or isinstance(version, bool) or not 1 <= version <= 30000:
            self._refuse("version", "must be a whole number from 1 to 30000")
        self._called = label(name, version, self._file)
        steps = self._steps(document.get("steps"))
        definition = Definition(
            name=name,
            version=version,
            starts=self._types(document, "starts", "starts", required=True),
            steps=steps,
            timeout=self._seconds(document, "timeout_seconds", "timeout_seconds") or timedelta(seconds=TIMEOUT),
            compensation_timeout=self._seconds(document, "compensation_timeout_seconds", "compensation_timeout_seconds")
            or timedelta(seconds=TIMEOUT),
            correlation=self._path(document, "correlation", CORRELATION_ID) or CORRELATION_ID,
            aggregate=self._path(document, "aggregate"),
            error=self._path(document, "error") or "payload.reason",
            title=self._text(document, "title", "title") or name.replace("_", " ").capitalize(),
            description=self._text(document, "description", "description"),
            document=dict(document),
            file=self._file,
        )
        if not self._stored:
            for place, why in _contradictions(definition):
                self._refuse(place, why)
        for step in steps:
            if step.timeout and step.timeout > definition.timeout:
                self._refuse(
                    f"steps.{step.key}.timeout_seconds",
                    f"is longer than the timeout of the whole run, which is {definition.timeout.total_seconds():g}",
                )
        return definition

    def _steps(self, table: Any) -> tuple[Step, ...]:
        if not isinstance(table, list) or not 1 <= len(table) <= MAX_STEPS:
            self._refuse("steps", f"must be 1 to {MAX_STEPS} tables [[steps]]")
        steps = [self._step(each, position) for position, each in enumerate(table, 1)]
        keys = [step.key for step in steps]
        for key in keys:
            if keys.count(key) > 1:
                self._refuse("steps", f"has two steps with the key {key!r}")
        for step in steps:
            for other in step.after:
                if other not in keys:
                    self._refuse(
                        f"steps.{step.key}.after",
                        f"contains {other!r}, which is not a step; the steps are {', '.join(keys)}",
                    )
        self._refuse_cycle(steps)
        self._refuse_waiting_for_optional(steps)
        if all(step.optional for step in steps):
            self._refuse("steps", "are all optional; at least one must be required")
        return tuple(steps)

    def _step(self, table: Any, position: int) -> Step:
        place = f"steps[{position}]"
        if not isinstance(table, dict):
            self._refuse(place, "must be a table")
        key = self._key(table.get("key"), f"{place}.key", STEP_LENGTH)
        place = f"steps.{key}"
        self._known(table, STEP_FIELDS, f"{place}.")
        optional = table.get("optional", False)
        if not isinstance(optional, bool):
            self._refuse(f"{place}.optional", "must be true or false")
        after = table.get("after", [])
        if not isinstance(after, list) or not all(isinstance(each, str) for each in after):
            self._refuse(f"{place}.after", "must be a list of step keys")
        step = Step(
            key=key,
            done=self._types(table, "done", f"{place}.done", required=True),
            failed=self._types(table, "failed", f"{place}.failed"),
            compensated=self._types(table, "compensated", f"{place}.compensated"),
            compensation_failed=self._types(table, "compensation_failed", f"{place}.compensation_failed"),
            after=tuple(after),
            timeout=self._seconds(table, "timeout_seconds", f"{place}.timeout_seconds"),
            optional=optional,
            title=self._text(table, "title", f"{place}.title") or key.replace("_", " ").capitalize(),
        )
        if step.compensation_failed and not step.compensated:
            self._refuse(f"{place}.compensation_failed", "needs compensated as well")
        roles: dict[str, str] = {}
        for role, types in step.types().items():
            for event_type in types:
                if event_type in roles:
                    self._refuse(place, f"has {event_type!r} both in {roles[event_type]} and in {role}")
                roles[event_type] = role
        return step

    def _refuse_cycle(self, steps: list[Step]) -> None:
        left, passed = list(steps), set[str]()
        while left:
            ready = [step for step in left if passed.issuperset(step.after)]
            if not ready:
                around = ", ".join(step.key for step in left)
                self._refuse("steps", f"come after each other in a cycle: {around}")
            passed.update(step.key for step in ready)
            left = [step for step in left if step.key not in passed]

    def _refuse_waiting_for_optional(self, steps: list[Step]) -> None:
        """Its time would never start to run."""
        optional = {step.key for step in steps if step.optional}
        for step in steps:
            for other in step.after:
                if other in optional and not step.optional and not self._stored:
                    self._refuse(
                        f"steps.{step.key}.after",
                        f"contains {other!r}, which is optional; a required step can only come after required steps",
                    )

    def _types(self, table: Mapping[str, Any], name: str, place: str, *, required: bool = False) -> tuple[str, ...]:
        types = table.get(name, [])
        if not isinstance(types, list) or not all(isinstance(each, str) for each in types):
            self._refuse(place, "must be a list of event types")
        if required and not types:
            self._refuse(place, "is missing; give at least one event type")
        for each in types:
            if not EVENT_TYPE.match(each):
                self._refuse(
                    place, f"contains {each!r}; an event type has 1 to 100 letters, digits, dots, dashes, underscores"
                )
            if is_reserved(each) and not self._stored:
                # Otherwise runs could start runs in a loop.
                self._refuse(place, f"contains {each!r}, which only the hub publishes; workflows cannot listen to it")
            if types.count(each) > 1:
                self._refuse(place, f"contains {each!r} twice")
        return tuple(types)

    def _seconds(self, table: Mapping[str, Any], name: str, place: str) -> timedelta | None:
        if name not in table:
            return None
        value = table[name]
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0.001 <= value <= MAX_TIMEOUT:
            self._refuse(place, f"must be a number of seconds from 0.001 to {MAX_TIMEOUT:.0f}")
        return timedelta(seconds=value)

    def _path(self, table: Mapping[str, Any], name: str, *also: str) -> str | None:
        if name not in table:
            return None
        value = table[name]
        if not isinstance(value, str) or (value not in also and not PATH.match(value)):
            others = "".join(f"{each!r} or " for each in also)
            self._refuse(name, f"must be {others}a path into the payload such as 'payload.order_id'")
        return value

    def _key(self, value: Any, place: str, limit: int) -> str:
        if not isinstance(value, str) or not KEY.match(value) or len(value) > limit:
            self._refuse(place, f"must be a lowercase letter and up to {limit - 1} of a-z, 0-9 and _")
        return value

    def _text(self, table: Mapping[str, Any], name: str, place: str) -> str:
        value = table.get(name, "")
        if not isinstance(value, str) or len(value) > 2000:
            self._refuse(place, "must be a text of at most 2000 characters")
        value = value.strip().replace("\t", " ")
        if self._stored:
            return "".join("" if is_forbidden(character) else character for character in value)
        if code := first_forbidden(value):
            self._refuse(
                place,
                f"must not contain control characters except line breaks, or bidirectional marks; {code} is one",
            )
        return value

    def _known(self, table: Mapping[str, Any], fields: set[str], place: str) -> None:
        for name in table:
            if name not in fields:
                self._refuse(f"{place}{name}", f"does not exist; the fields are {', '.join(sorted(fields))}")

    def _refuse(self, field: str, why: str) -> NoReturn:
        raise InvalidDefinition(self._called, field, why)


def _contradictions(definition: Definition) -> Iterator[Contradiction]:
    yield from _named_twice(definition)
    yield from _starts_with_its_failure(definition)
    yield from _reports_two_steps(definition)
    yield from _done_by_undoing(definition)


def _named_twice(definition: Definition) -> Iterator[Contradiction]:
    for step in definition.steps:
        for other in step.after:
            if step.after.count(other) > 1:
                yield f"steps.{step.key}.after", f"contains {other!r} twice"


def _starts_with_its_failure(definition: Definition) -> Iterator[Contradiction]:
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


def _reports_two_steps(definition: Definition) -> Iterator[Contradiction]:
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


def _done_by_undoing(definition: Definition) -> Iterator[Contradiction]:
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
