"""`manage.py workflows test`: the generated cases, without a database."""

from __future__ import annotations

import tomllib
from collections import defaultdict
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from tests.workflows.lives import DEFINITIONS, ORDER, named
from workflows import fold, simulation
from workflows.definition import Definition
from workflows.fact_set import FactSet
from workflows.parsing import parse
from workflows.registry import SAMPLES
from workflows.scenarios import results
from workflows.state import DONE, SAGA_TIMED_OUT, Effect

KINDS = {
    "happy path",
    "failure",
    "time-out",
    "failed compensation",
    "overdue compensation",
    "late success",
    "late compensation",
    "failed late compensation",
    "doubled events",
    "reordered events",
}
# Two branches, a start of its own, an optional step, a step that cannot be undone, and very short time-outs.
TRIP = """
name = "trip"
version = 3
starts = ["trip.requested"]
timeout_seconds = 60
[[steps]]
key = "flight"
done = ["flight.booked"]
failed = ["flight.refused"]
compensated = ["flight.cancelled"]
timeout_seconds = 0.001
[[steps]]
key = "hotel"
done = ["hotel.booked"]
compensated = ["hotel.cancelled"]
compensation_failed = ["hotel.cancellation_failed"]
[[steps]]
key = "ticket"
after = ["flight", "hotel"]
done = ["ticket.issued"]
failed = ["ticket.refused"]
[[steps]]
key = "insurance"
after = ["flight"]
done = ["insurance.sold"]
compensated = ["insurance.cancelled"]
optional = true
"""
# The start of a run, or the first step, whichever is published.
TWO_STARTS = TRIP.replace('["trip.requested"]', '["flight.booked", "trip.requested"]')
# One event type reports the compensation of two steps, also of the one that was not done.
SHARED = TRIP.replace('["flight.cancelled"]', '["trip.cancelled"]').replace('["hotel.cancelled"]', '["trip.cancelled"]')


def run_on(folder: Path) -> str:
    """What the command prints. It has no database here: these tests are not marked with django_db."""
    out = StringIO()
    call_command("workflows", "test", str(folder), stdout=out)
    return out.getvalue()


def of_text(text: str) -> Definition:
    return parse(tomllib.loads(text), "trip.toml")


def failing(definition: Definition) -> set[str]:
    return {result.kind for result in results(definition) if not result.passed}


@pytest.mark.requirement("R5-5g", "R5-9c")
@pytest.mark.parametrize("definition", [*DEFINITIONS, of_text(TRIP), of_text(TWO_STARTS)], ids=named)
def test_every_case_ends_as_the_rules_require(definition: Definition):
    found = list(results(definition))

    assert [str(result) for result in found if not result.passed] == []
    optional = [step for step in definition.steps if step.optional]
    kinds = {"optional step left out"} if optional else set()
    kinds |= {"optional step failed"} if any(step.failed for step in optional) else set()
    assert {result.kind for result in found} == KINDS | kinds


@pytest.mark.requirement("R5-9c")
def test_there_is_a_case_for_every_step():
    steps: dict[str, set[str]] = defaultdict(set)
    for result in results(ORDER):
        steps[result.kind].add(result.step)

    later = {"inventory", "payment", "shipping", "confirmation"}
    assert steps["failure"] == {step.key for step in ORDER.steps if step.failed}
    assert steps["time-out"] == steps["late success"] == later
    assert steps["overdue compensation"] == {step.key for step in ORDER.steps if step.can_be_undone}
    assert steps["failed compensation"] == {step.key for step in ORDER.steps if step.compensation_failed}
    assert steps["late compensation"] == {step.key for step in ORDER.steps if step.can_be_undone} - {"order"}
    assert steps["doubled events"] == steps["reordered events"] == {"", *steps["failure"]}


def test_the_compensation_of_the_last_step_has_a_case():
    last = TRIP.replace('done = ["ticket.issued"]', 'done = ["ticket.issued"]\ncompensated = ["ticket.returned"]')
    found = [result for result in results(of_text(last)) if result.step == "ticket"]

    assert {result.kind for result in found} >= {"late success", "late compensation"}
    assert all(result.passed for result in found)
    [late] = [result for result in found if result.kind == "late compensation"]
    assert late.end.requested[-1] == "ticket"
    assert not late.end.needs_operator


def test_expected_ends_of_a_workflow_with_branches():
    ends = {f"{result.kind} {result.step}": result.expected for result in results(of_text(TRIP))}

    assert ends["failure ticket"].requested == ("insurance", "hotel", "flight")
    assert ends["failure flight"].requested == ("hotel",)
    assert ends["time-out flight"].published[0] == Effect(SAGA_TIMED_OUT, "flight")
    assert ends["time-out hotel"].published[0] == Effect(SAGA_TIMED_OUT, ""), "the time-out of the whole run"
    assert ends["late success hotel"].requested == ("insurance", "flight", "hotel")
    assert not ends["late success ticket"].needs_operator, "it cannot be undone"


# Rule → how it is broken, and the cases that notice it.
BROKEN: dict[str, tuple[tuple[Any, str, Callable[[Any], Any]], set[str]]] = {
    "done steps are compensated in reverse order": (
        (FactSet, "to_undo", lambda original: lambda facts: original(facts)[::-1]),
        {"failure", "time-out"},
    ),
    "an end without all steps undone needs an operator": (
        (fold, "_needs_operator", lambda original: lambda facts: False),
        {"failed compensation", "overdue compensation", "late success", "failed late compensation"},
    ),
    "a late fact is an anomaly": ((fold, "_late", lambda original: lambda facts, ended: []), {"late success"}),
    "a run is complete without its optional steps": (
        (
            FactSet,
            "is_complete",
            lambda original: (
                lambda facts: original(facts) and all(facts.has(step.key, DONE) for step in facts.definition.steps)
            ),
        ),
        {"optional step left out"},
    ),
    "time-outs are detected": (
        (simulation, "expire", lambda original: lambda definition, facts, now: None),
        {"time-out", "overdue compensation", "late success"},
    ),
    "steps before a reported step are presumed done": (
        (FactSet, "_presumed", lambda original: lambda facts: set()),
        {"reordered events"},
    ),
    "a run with all steps done is complete": (
        (FactSet, "is_complete", lambda original: lambda facts: False),
        {"happy path", "doubled events"},
    ),
}


@pytest.mark.requirement("R5-9c")
@pytest.mark.parametrize("rule", BROKEN)
def test_a_broken_rule_is_noticed(rule: str, monkeypatch: pytest.MonkeyPatch):
    (place, name, breaking), kinds = BROKEN[rule]
    monkeypatch.setattr(place, name, breaking(getattr(place, name)))

    assert failing(of_text(TRIP)) >= kinds


@pytest.mark.requirement("R5-5g")
def test_the_command_prints_a_table(tmp_path: Path):
    (tmp_path / "trip.toml").write_text(TRIP)

    lines = [line.split("  ") for line in run_on(tmp_path).splitlines()]

    rows = [[cell.strip() for cell in line if cell] for line in lines]
    assert rows[0] == ["trip version 3: Trip"]
    assert ["happy path", "–", "1", "COMPLETED", "–", "ok"] in rows
    assert ["failure", "ticket", "1", "COMPENSATED", "insurance, hotel, flight", "ok"] in rows
    assert ["failed compensation", "hotel", "1", "FAILED, needs an operator", "insurance, hotel, flight", "ok"] in rows
    assert ["reordered events", "ticket", "120", "COMPENSATED", "depends on the order", "ok"] in rows
    assert rows[-1] == ["23 cases of 1 definitions, all as the rules require."]


@pytest.mark.requirement("R5-5g")
def test_the_command_names_the_cases_that_fail(tmp_path: Path):
    (tmp_path / "trip.toml").write_text(SHARED)
    (tmp_path / "order.toml").write_text((SAMPLES / "order_submission_1.toml").read_text())
    out = StringIO()

    with pytest.raises(CommandError) as error:
        call_command("workflows", "test", str(tmp_path), stdout=out)

    assert error.value.returncode == 1
    names = [("late success", "flight"), ("late success", "hotel"), ("late compensation", "flight")]
    names += [("late compensation", "hotel"), ("failed late compensation", "hotel")]
    text = "; ".join(f"trip version 3: {kind} at {step}" for kind, step in names)
    assert str(error.value).endswith(f"5 of 56 cases do not end as the rules require: {text}.")
    printed = out.getvalue()
    assert "  the rules require: COMPENSATED at flight; needs an operator; anomaly; published saga.timed_out" in printed
    assert "  what happens:      COMPENSATED at flight; published saga.timed_out flight" in printed


@pytest.mark.requirement("R5-5g")
def test_the_command_refuses_an_invalid_definition(tmp_path: Path):
    (tmp_path / "x.toml").write_text('name = "x"\nversion = 1\n')

    with pytest.raises(CommandError, match=r"workflow definition x version 1 \(x.toml\): steps must be 1 to"):
        run_on(tmp_path)


@pytest.mark.requirement("R5-5g")
def test_the_command_refuses_a_folder_without_definitions(tmp_path: Path):
    with pytest.raises(CommandError, match=r"There is no definition \(\*.toml\) in "):
        run_on(tmp_path)
    with pytest.raises(CommandError, match="nowhere is not a folder"):
        run_on(tmp_path / "nowhere")
