"""Scenarios generated from a definition: what services would publish, in order."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from workflows.definition import Definition, Step
from workflows.registry import SAMPLES, load
from workflows.state import DONE, EVENT, FAILURE, UNDO_FAILED, UNDONE, Fact

DEFINITIONS = load((SAMPLES,)).all()
ORDER = next(definition for definition in DEFINITIONS if definition.name == "order_submission")
BEGIN = datetime(2026, 1, 31, tzinfo=UTC)
INTERVAL = timedelta(milliseconds=200)

# What a service reports: a step and a role.
Report = tuple[str, str]


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
    return BEGIN + number * INTERVAL


def facts(reports: list[Report], first: int = 0) -> list[Fact]:
    """INTERVAL apart."""
    return [fact(report, at(number)) for number, report in enumerate(reports, first)]


def fact(report: Report, time: datetime) -> Fact:
    step, role = report
    return Fact(role, step, time, EVENT, f"{step} is out of order" if role in (FAILURE, UNDO_FAILED) else "")


def happy(definition: Definition) -> list[Report]:
    return [(step.key, DONE) for step in definition.in_order]


def before(definition: Definition, step: Step) -> list[Report]:
    """Everything that must be done before the step."""
    return [(key, DONE) for key in ordered(definition) if key in definition.ancestors[step.key]]


def undone(definition: Definition, reports: list[Report]) -> list[Report]:
    """The compensations of done steps, in reverse order."""
    done = {step for step, role in reports if role == DONE}
    return [(step.key, UNDONE) for step in reversed(definition.in_order) if step.key in done and step.can_be_undone]


def ordered(definition: Definition) -> list[str]:
    return [step.key for step in definition.in_order]


def event_type(definition: Definition, report: Report) -> str:
    """An event type that reports this."""
    step, role = report
    return definition.by_key[step].types()[role][0]
