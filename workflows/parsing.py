"""Definitions from their documents, checked: whatever is wrong is said with the definition and the field."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, NoReturn

from events.intake import EVENT_TYPE, is_reserved
from webhookhub.validators import first_forbidden, is_forbidden

from . import contradictions
from .definition import CORRELATION_ID, Definition, Step, label

KEY = re.compile(r"[a-z][a-z0-9_]*\Z")
PATH = re.compile(r"payload(\.[A-Za-z0-9_-]+)+\Z")
NAME_LENGTH = 30
STEP_LENGTH = 28
MOST_STEPS = 50
TIMEOUT = 1800.0
LONGEST_TIMEOUT = 366 * 86400.0

FIELDS = {
    "name",
    "version",
    "title",
    "description",
    "starts",
    "correlation",
    "aggregate",
    "error",
    "timeout_seconds",
    "compensation_timeout_seconds",
    "steps",
}
STEP_FIELDS = {
    "key",
    "title",
    "after",
    "done",
    "failed",
    "compensated",
    "compensation_failed",
    "timeout_seconds",
    "optional",
}


class InvalidDefinition(ValueError):
    """A definition cannot be used; `field` says where, the message what would be right."""

    def __init__(self, definition: str, field: str, why: str) -> None:
        super().__init__(f"workflow definition {definition}: {field} {why}")
        self.definition = definition
        self.field = field
        self.why = why


def parse(document: Mapping[str, Any], called: str, *, stored: bool = False) -> Definition:
    """`called` is how the definition is named in errors until its own name is known, and beside that: its file.

    What is `stored` was accepted once, and its sagas must be followed to their end: it is not held to what has been
    asked for since.
    """
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
            for place, why in contradictions.of(definition):
                self._refuse(place, why)
        for step in steps:
            if step.timeout and step.timeout > definition.timeout:
                self._refuse(
                    f"steps.{step.key}.timeout_seconds",
                    f"is longer than the whole saga's, which is {definition.timeout.total_seconds():g}",
                )
        return definition

    def _steps(self, given: Any) -> tuple[Step, ...]:
        if not isinstance(given, list) or not 1 <= len(given) <= MOST_STEPS:
            self._refuse("steps", f"must be 1 to {MOST_STEPS} tables [[steps]]")
        steps = [self._step(each, position) for position, each in enumerate(given, 1)]
        keys = [step.key for step in steps]
        for key in keys:
            if keys.count(key) > 1:
                self._refuse("steps", f"has two steps with the key {key!r}; each needs its own")
        for step in steps:
            for other in step.after:
                if other not in keys:
                    self._refuse(
                        f"steps.{step.key}.after", f"names {other!r}, which is no step; there are {', '.join(keys)}"
                    )
        self._refuse_cycle(steps)
        self._refuse_waiting_for_optional(steps)
        if all(step.optional for step in steps):
            self._refuse("steps", "are all optional; at least one must be needed for the saga to complete")
        return tuple(steps)

    def _step(self, given: Any, position: int) -> Step:
        place = f"steps[{position}]"
        if not isinstance(given, dict):
            self._refuse(place, "must be a table")
        key = self._key(given.get("key"), f"{place}.key", STEP_LENGTH)
        place = f"steps.{key}"
        self._known(given, STEP_FIELDS, f"{place}.")
        optional = given.get("optional", False)
        if not isinstance(optional, bool):
            self._refuse(f"{place}.optional", "must be true or false")
        after = given.get("after", [])
        if not isinstance(after, list) or not all(isinstance(each, str) for each in after):
            self._refuse(f"{place}.after", "must be a list of steps' keys")
        step = Step(
            key=key,
            done=self._types(given, "done", f"{place}.done", required=True),
            failed=self._types(given, "failed", f"{place}.failed"),
            compensated=self._types(given, "compensated", f"{place}.compensated"),
            compensation_failed=self._types(given, "compensation_failed", f"{place}.compensation_failed"),
            after=tuple(after),
            timeout=self._seconds(given, "timeout_seconds", f"{place}.timeout_seconds"),
            optional=optional,
            title=self._text(given, "title", f"{place}.title") or key.replace("_", " ").capitalize(),
        )
        if step.compensation_failed and not step.compensated:
            self._refuse(f"{place}.compensation_failed", "needs compensated: a step that cannot be undone is not asked")
        said: dict[str, str] = {}
        for role, types in step.types().items():
            for event_type in types:
                if event_type in said:
                    self._refuse(place, f"takes {event_type!r} both for {said[event_type]} and for {role}")
                said[event_type] = role
        return step

    def _refuse_cycle(self, steps: list[Step]) -> None:
        left, passed = list(steps), set[str]()
        while left:
            ready = [step for step in left if passed.issuperset(step.after)]
            if not ready:
                around = ", ".join(step.key for step in left)
                self._refuse("steps", f"come after each other in a circle: {around}")
            passed.update(step.key for step in ready)
            left = [step for step in left if step.key not in passed]

    def _refuse_waiting_for_optional(self, steps: list[Step]) -> None:
        """The saga would wait for a step that it does not wait for: its time would never begin to run."""
        optional = {step.key for step in steps if step.optional}
        for step in steps:
            for other in step.after:
                if other in optional and not step.optional and not self._stored:
                    self._refuse(
                        f"steps.{step.key}.after",
                        f"names {other!r}, which is optional; a step that is needed comes after steps that are needed, "
                        f"so make {other!r} needed or {step.key!r} optional, or name what comes before {other!r}",
                    )

    def _types(self, given: Mapping[str, Any], name: str, place: str, *, required: bool = False) -> tuple[str, ...]:
        types = given.get(name, [])
        if not isinstance(types, list) or not all(isinstance(each, str) for each in types):
            self._refuse(place, "must be a list of event types")
        if required and not types:
            self._refuse(place, "is missing; name at least one event type")
        for each in types:
            if not EVENT_TYPE.match(each):
                self._refuse(
                    place, f"holds {each!r}; an event type is 1 to 100 letters, digits, dots, dashes, underscores"
                )
            if is_reserved(each) and not self._stored:
                # What sagas publish starts and moves no saga: no loop can begin.
                self._refuse(place, f"holds {each!r}, which only the hub publishes; a saga cannot listen to sagas")
            if types.count(each) > 1:
                self._refuse(place, f"holds {each!r} twice")
        return tuple(types)

    def _seconds(self, given: Mapping[str, Any], name: str, place: str) -> timedelta | None:
        if name not in given:
            return None
        value = given[name]
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0.001 <= value <= LONGEST_TIMEOUT:
            self._refuse(place, f"must be a number of seconds from 0.001 to {LONGEST_TIMEOUT:.0f}")
        return timedelta(seconds=value)

    def _path(self, given: Mapping[str, Any], name: str, *also: str) -> str | None:
        if name not in given:
            return None
        value = given[name]
        if not isinstance(value, str) or (value not in also and not PATH.match(value)):
            others = "".join(f"{each!r} or " for each in also)
            self._refuse(name, f"must be {others}a path into the payload such as 'payload.order_id'")
        return value

    def _key(self, value: Any, place: str, limit: int) -> str:
        if not isinstance(value, str) or not KEY.match(value) or len(value) > limit:
            self._refuse(place, f"must be 1 to {limit} small letters, digits and underscores, the first a letter")
        return value

    def _text(self, given: Mapping[str, Any], name: str, place: str) -> str:
        value = given.get(name, "")
        if not isinstance(value, str) or len(value) > 2000:
            self._refuse(place, "must be a text of at most 2000 characters")
        value = value.strip().replace("\t", " ")
        if self._stored:
            return "".join("" if is_forbidden(character) else character for character in value)
        if code := first_forbidden(value):
            self._refuse(
                place,
                "must hold no control characters but line breaks, and no marks that turn text round, "
                f"as {code} is: it is drawn in diagrams and shown on pages",
            )
        return value

    def _known(self, given: Mapping[str, Any], fields: set[str], place: str) -> None:
        for name in given:
            if name not in fields:
                self._refuse(f"{place}{name}", f"does not exist; there are {', '.join(sorted(fields))}")

    def _refuse(self, field: str, why: str) -> NoReturn:
        raise InvalidDefinition(self._called, field, why)
