"""The shipped definitions and their runs. What services would publish is in workflows/scenarios.py."""

from __future__ import annotations

from workflows.definition import Definition, Step
from workflows.registry import SAMPLES, load
from workflows.scenarios import Report, at, fact
from workflows.state import Fact

DEFINITIONS = load((SAMPLES,)).all()
ORDER = next(definition for definition in DEFINITIONS if definition.name == "order_submission")


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


def facts(reports: list[Report], first: int = 0) -> list[Fact]:
    """INTERVAL apart."""
    return [fact(report, at(number)) for number, report in enumerate(reports, first)]
