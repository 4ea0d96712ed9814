"""Definitions are checked when they are loaded; an error names the definition and the field."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import SystemCheckError

from workflows import versions
from workflows.checks import definitions_are_valid, used_definitions_are_unchanged
from workflows.fold import fold
from workflows.models import UsedDefinition
from workflows.parsing import InvalidDefinition, parse
from workflows.registry import SAMPLES, Registry, load
from workflows.state import EVENT, Fact


def document(**changes: Any) -> dict[str, Any]:
    steps = [
        {"key": "one", "done": ["one.done"], "compensated": ["one.undone"]},
        {"key": "two", "done": ["two.done"], "failed": ["two.failed"], "after": ["one"]},
    ]
    found = {"name": "sample", "version": 1, "starts": ["one.done"], "steps": steps, **changes}
    return {name: value for name, value in found.items() if value is not None}


def step(**changes: Any) -> list[dict[str, Any]]:
    return [{"key": "one", "done": ["one.done"], **changes}]


CONTRADICTIONS: list[tuple[dict[str, Any], str, str]] = [
    (
        {"starts": ["one.begun", "one.ended"], "steps": step(compensated=["one.ended"])},
        "steps.one.compensated",
        "contains 'one.ended', which is in starts",
    ),
    (
        {"starts": ["one.begun", "one.ended"], "steps": step(failed=["one.ended"])},
        "steps.one.failed",
        "contains 'one.ended', which is in starts",
    ),
    (
        {"starts": ["x"], "steps": step(compensated=["one.undone"], compensation_failed=["x"])},
        "steps.one.compensation_failed",
        "contains 'x', which is in starts",
    ),
    (
        {"steps": [*step(failed=["x"]), {"key": "two", "done": ["x"]}]},
        "steps.two.done",
        "contains 'x', which also means that step 'one' failed; use different event types",
    ),
    (
        {"steps": [*step(), {"key": "two", "done": ["two.done", "one.done"]}]},
        "steps.two.done",
        "contains 'one.done', which also means that step 'one' is done; use different",
    ),
    (
        {"steps": [*step(compensated=["x"]), {"key": "two", "done": ["x"], "after": ["one"]}]},
        "steps.two.done",
        "contains 'x', which also means that step 'one' was undone: the run could complete only by a compensation",
    ),
    (
        {"steps": [*step(compensated=["y"], compensation_failed=["x"]), {"key": "two", "done": ["x"]}]},
        "steps.two.done",
        "contains 'x', which also means that step 'one' could not be undone: the run could complete",
    ),
    (
        {"steps": [*step(compensated=["x", "y"]), {"key": "two", "done": ["y", "x"]}]},
        "steps.two.done",
        "contains 'y', which also means that step 'one' was undone",
    ),
    (
        {"steps": [*step(), {"key": "two", "done": ["two.done"], "after": ["one", "one"]}]},
        "steps.two.after",
        "contains 'one' twice",
    ),
]


@pytest.mark.requirement("R5-1i", "R5-1j", "R5-1k")
def test_the_three_workflows_of_the_adr_are_included_as_samples():
    assert sorted(load((SAMPLES,)).latest) == ["customer_registration", "order_cancellation", "order_submission"]


@pytest.mark.requirement("R5-2c")
@pytest.mark.parametrize(
    ("changes", "field", "why"),
    [
        ({"name": None}, "name", "a lowercase letter"),
        ({"name": "Sample"}, "name", "a lowercase letter"),
        ({"name": "s" * 31}, "name", "up to 29 of"),
        ({"version": None}, "version", "whole number"),
        ({"version": True}, "version", "whole number"),
        ({"version": 0}, "version", "whole number"),
        ({"colour": "red"}, "colour", "does not exist; the fields are aggregate"),
        ({"starts": []}, "starts", "is missing"),
        ({"starts": "one.done"}, "starts", "must be a list"),
        ({"starts": ["one done"]}, "starts", "contains 'one done'"),
        ({"starts": ["one.done", "one.done"]}, "starts", "twice"),
        *(({"starts": [name]}, "starts", "only the hub publishes") for name in ("saga.completed", "Saga.x", "saga")),
        ({"correlation": "order_id"}, "correlation", "must be 'correlation_id' or a path"),
        ({"correlation": 1}, "correlation", "must be 'correlation_id' or a path"),
        ({"aggregate": "correlation_id"}, "aggregate", "must be a path"),
        ({"timeout_seconds": 0}, "timeout_seconds", "a number of seconds"),
        ({"timeout_seconds": True}, "timeout_seconds", "a number of seconds"),
        ({"compensation_timeout_seconds": "9"}, "compensation_timeout_seconds", "a number of seconds"),
        ({"title": 1}, "title", "must be a text"),
        # Forbidden characters are tested in tests/webhookhub/test_reasons.py.
        ({"title": "Fast \x9b one"}, "title", "must not contain control characters"),
        ({"description": "to \u202e fro"}, "description", "U+202E is one"),
        ({"steps": step(title="One\x1b[2J")}, "steps.one.title", "U+001B is one"),
        ({"steps": None}, "steps", "must be 1 to"),
        ({"steps": []}, "steps", "must be 1 to"),
        ({"steps": ["one"]}, "steps[1]", "must be a table"),
        ({"steps": step(key="ONE")}, "steps[1].key", "a lowercase letter"),
        ({"steps": [*step(), *step()]}, "steps", "two steps with the key 'one'"),
        ({"steps": step(wait=1)}, "steps.one.wait", "does not exist; the fields are after"),
        ({"steps": step(done=[])}, "steps.one.done", "is missing"),
        ({"steps": step(failed=["saga.failed"])}, "steps.one.failed", "only the hub publishes"),
        ({"steps": step(failed=["one.done"])}, "steps.one", "both in done and in failed"),
        ({"steps": step(compensation_failed=["x"])}, "steps.one.compensation_failed", "needs compensated"),
        ({"steps": step(optional="yes")}, "steps.one.optional", "true or false"),
        ({"steps": step(optional=True)}, "steps", "all optional"),
        ({"steps": step(after="one")}, "steps.one.after", "must be a list"),
        ({"steps": step(after=["three"])}, "steps.one.after", "contains 'three', which is not a step; the"),
        ({"steps": step(after=["one"])}, "steps", "in a cycle: one"),
        (
            {"steps": [{"key": "gift", "done": ["g"], "optional": True}, *step(after=["gift"])]},
            "steps.one.after",
            "contains 'gift', which is optional; a required step can only come after",
        ),
        *CONTRADICTIONS,
        ({"steps": step(timeout_seconds=9999)}, "steps.one.timeout_seconds", "longer than the timeout of"),
    ],
)
def test_an_error_names_definition_and_field(changes: dict[str, Any], field: str, why: str):
    with pytest.raises(InvalidDefinition) as raised:
        parse(document(**changes), "sample.toml")

    assert raised.value.field == field
    assert why in str(raised.value)
    named = {"name": "sample.toml", "version": "sample.toml", "colour": "sample.toml"}
    assert raised.value.definition == named.get(field, "sample version 1 (sample.toml)")


def undone_by(event_type: str, **changes: Any) -> list[dict[str, Any]]:
    """Two steps; the type that undoes the first also reports on the second."""
    return [*step(compensated=[event_type]), {"key": "two", "done": ["two.done"], **changes}]


@pytest.mark.parametrize(
    ("steps", "happy"),
    [
        (undone_by("x", done=["x"], optional=True), ["one.done"]),
        (undone_by("x", done=["two.done", "x"]), ["one.done", "two.done"]),
        (undone_by("x", failed=["x"]), ["one.done", "two.done"]),
        (undone_by("x", compensated=["x"]), ["one.done", "two.done"]),
        ([*step(key="hold", compensated=["x"], optional=True), {"key": "two", "done": ["x"]}], ["one.done", "x"]),
    ],
)
def test_a_compensation_type_may_have_a_second_meaning_if_the_run_can_still_complete(
    steps: list[dict[str, Any]], happy: list[str]
):
    definition = parse(document(steps=steps), "test")
    pairs = [pair for event_type in happy for pair in definition.roles[event_type]]

    state = fold(definition, [Fact(role, key, datetime(2026, 1, 1, tzinfo=UTC), EVENT) for key, role in pairs])

    assert state.next is not None
    assert state.next.status == "COMPLETED"


@pytest.mark.requirement("R5-5f")
def test_a_cycle_of_steps_is_refused():
    circle = [
        {"key": "a", "done": ["a"], "after": ["c"]},
        {"key": "b", "done": ["b"], "after": ["a"]},
        {"key": "c", "done": ["c"], "after": ["b"]},
    ]
    with pytest.raises(InvalidDefinition, match="in a cycle: a, b, c"):
        parse(document(steps=circle), "test")


def test_an_optional_step_may_come_after_an_optional_step():
    steps = [*step(), {"key": "gift", "done": ["g"], "after": ["one"], "optional": True}]
    card = {"key": "card", "done": ["c"], "after": ["gift"], "optional": True}

    assert parse(document(steps=[*steps, card]), "test").ancestors["card"] == {"one", "gift"}


@pytest.mark.django_db
@pytest.mark.parametrize(
    "changes",
    [
        {"steps": [{"key": "gift", "done": ["g"], "optional": True}, *step(after=["gift"])]},
        {"steps": [*step(failed=["x"]), {"key": "two", "done": ["x"]}]},
        {"starts": ["Saga.completed"]},
    ],
    ids=["needs an optional step", "contradicts itself", "listens to the hub"],
)
def test_a_stored_definition_is_exempt_from_newer_rules(changes: dict[str, Any]):
    stored = json.dumps(document(**changes))
    UsedDefinition.objects.create(name="sample", version=1, fingerprint="f", document=stored)

    assert versions.in_force().get("sample", 1) is not None


def test_the_same_version_twice_is_refused_with_both_files():
    why = "sample version 1: version is there twice, in a.toml and in b.toml; give one of them another number"
    with pytest.raises(InvalidDefinition, match=why):
        Registry([parse(document(), "a.toml"), parse(document(), "b.toml")])


def test_new_runs_get_the_newest_version():
    both = Registry([parse(document(version=number), "a") for number in (2, 10, 1)])

    assert both.latest["sample"].version == 10


def test_texts_are_not_part_of_the_fingerprint():
    assert parse(document(title="Other"), "a").fingerprint == parse(document(), "a").fingerprint
    assert parse(document(timeout_seconds=5), "a").fingerprint != parse(document(), "a").fingerprint


@pytest.fixture
def folder(tmp_path: Path, hub_settings: Any) -> Path:
    hub_settings(workflow_definitions=(tmp_path,))
    load.cache_clear()
    return tmp_path


def write(folder: Path, version: int = 1, timeout: int = 60, done: str = "one.done", name: str = "sample") -> None:
    text = f'name = "{name}"\nversion = {version}\nstarts = ["{done}"]\ntimeout_seconds = {timeout}\n'
    (folder / f"{name}_{version}.toml").write_text(f'{text}[[steps]]\nkey = "one"\ndone = ["{done}"]\n')
    load.cache_clear()


def test_an_invalid_file_fails_the_system_check(folder: Path):
    (folder / "broken.toml").write_text("name = ")

    [error] = definitions_are_valid()

    assert error.id == "workflows.E001"
    assert "broken.toml: file is not TOML" in error.msg
    with pytest.raises(SystemCheckError):
        call_command("check")


def test_a_deeply_nested_file_is_refused(folder: Path):
    (folder / "deep.toml").write_text(f"title = {'[' * 3000}{']' * 3000}")

    [error] = definitions_are_valid()

    assert "deep.toml: file is nested too deeply" in error.msg


def test_texts_may_have_lines_and_any_language():
    definition = parse(document(title="快速 🦊", description="one\ntwo"), "a")

    assert (definition.title, definition.description) == ("快速 🦊", "one\ntwo")


def test_invalid_characters_are_removed_from_stored_texts():
    given = document(title="Fast\x08 \u202eone", steps=step(title="\x1b"))

    definition = parse(given, "sample version 1", stored=True)

    assert (definition.title, definition.steps[0].title) == ("Fast one", "One")


def test_files_of_the_same_name_are_named_with_their_folders(tmp_path: Path):
    folders = (tmp_path / "ours", tmp_path / "theirs" / "more")
    for folder in folders:
        folder.mkdir(parents=True)
        write(folder)

    with pytest.raises(InvalidDefinition, match=r"in ours/sample_1.toml and in theirs/more/sample_1.toml"):
        load(folders)


def test_an_empty_folder_is_a_warning(folder: Path):
    [warning] = definitions_are_valid()

    assert warning.id == "workflows.W002"
    assert f"WEBHOOKHUB_WORKFLOW_DEFINITIONS: there is no definition (*.toml) in {folder}" in warning.msg
    write(folder)
    assert definitions_are_valid() == []


@pytest.mark.requirement("R5-5f")
def test_a_type_that_compensates_one_workflow_and_starts_another_is_a_warning(folder: Path):
    write(folder, done="stock.returned")
    (folder / "other.toml").write_text(
        'name = "other"\nversion = 1\nstarts = ["a"]\n[[steps]]\nkey = "one"\ndone = ["a"]\n'
        'compensated = ["stock.returned"]\n'
    )

    [warning] = definitions_are_valid()

    assert warning.id == "workflows.W001"
    assert "each compensation of other would start a run of sample" in warning.msg


@pytest.mark.requirement("R5-5c")
@pytest.mark.django_db
def test_a_used_version_cannot_change(folder: Path):
    write(folder)
    versions.remember(load((folder,)).all())
    assert used_definitions_are_unchanged(databases=["default"]) == []

    write(folder, timeout=61)

    [error] = used_definitions_are_unchanged(databases=["default"])
    assert error.id == "workflows.E002"
    assert "sample version 1 (sample_1.toml): version has runs and was changed since" in error.msg
    assert "into a new version, 2" in error.msg
    write(folder, version=7)
    [error] = used_definitions_are_unchanged(databases=["default"])
    assert "into a new version, 8" in error.msg
    with pytest.raises(InvalidDefinition):
        versions.in_force()
    with pytest.raises(InvalidDefinition):
        versions.remember(load((folder,)).all())


@pytest.mark.django_db
def test_a_used_version_is_known_without_its_file(folder: Path):
    write(folder)
    versions.remember(load((folder,)).all())
    (folder / "sample_1.toml").unlink()
    write(folder, version=2)

    known = versions.in_force()

    assert known.get("sample", 1) is not None
    assert known.latest["sample"].version == 2


@pytest.mark.django_db
def test_a_used_definition_is_stored_once(folder: Path):
    write(folder)
    for _ in range(2):
        versions.remember(load((folder,)).all())

    assert UsedDefinition.objects.count() == 1


def test_a_tab_in_a_text_becomes_a_space():
    assert parse(document(description="first\tthen\nlast"), "x").description == "first then\nlast"
