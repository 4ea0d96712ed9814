"""Scenarios generated from a definition: what services would publish, in order."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from workflows.definition import Definition, Step
from workflows.registry import SHIPPED, load
from workflows.state import DONE, EVENT, FAILURE, UNDO_FAILED, UNDONE, Fact

DEFINITIONS = load((SHIPPED,)).all()
BEGIN = datetime(2026, 1, 31, tzinfo=UTC)
MOMENT = timedelta(milliseconds=200)

# A step and a role.
Said = tuple[str, str]


def cases(which: str = "") -> list[tuple[Definition, Step]]:
    """Each definition with each of its steps that can fail, time out or be undone."""
    return [
        (definition, step)
        for definition in DEFINITIONS
        for step in definition.required
        if not which or getattr(step, which)
    ]


def named(case: object) -> str:
    match case:
        case Definition():
            return case.name
        case Step():
            return case.key
    return ""


def at(number: float) -> datetime:
    return BEGIN + number * MOMENT


def facts(said: list[Said], first: int = 0) -> list[Fact]:
    """MOMENT apart."""
    return [fact(each, at(number)) for number, each in enumerate(said, first)]


def fact(said: Said, moment: datetime) -> Fact:
    step, role = said
    return Fact(role, step, moment, EVENT, f"{step} is out of order" if role in (FAILURE, UNDO_FAILED) else "")


def happy(definition: Definition) -> list[Said]:
    return [(step.key, DONE) for step in definition.in_order]


def before(definition: Definition, step: Step) -> list[Said]:
    """Everything that must be done before the step."""
    return [(key, DONE) for key in ordered(definition) if key in definition.ancestors[step.key]]


def undone(definition: Definition, said: list[Said]) -> list[Said]:
    """The compensations of done steps, in reverse order."""
    done = {step for step, role in said if role == DONE}
    return [(step.key, UNDONE) for step in reversed(definition.in_order) if step.key in done and step.can_be_undone]


def ordered(definition: Definition) -> list[str]:
    return [step.key for step in definition.in_order]


def event_type(definition: Definition, said: Said) -> str:
    """An event type that reports this."""
    step, role = said
    return definition.by_key[step].types()[role][0]
