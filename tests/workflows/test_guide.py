"""docs/workflows.md is complete, and its example is valid."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from api.application import api
from workflows.parsing import FIELDS, STEP_FIELDS, parse
from workflows.state import EMISSIONS, STATUSES
from workflows.views import ACTIONS

GUIDE = (Path(__file__).resolve().parent.parent.parent / "docs" / "workflows.md").read_text()


@pytest.mark.requirement("R5-2c", "R5-5i")
def test_the_example_is_a_definition():
    [example] = re.findall(r"^```toml\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)

    definition = parse(tomllib.loads(example), "docs/workflows.md")

    assert [step.key for step in definition.steps] == ["order", "payment"]


@pytest.mark.requirement("R5-2c")
def test_every_field_of_a_definition_is_explained():
    section = GUIDE.partition("## A definition\n")[2].partition("\n## ")[0]
    table = "\n".join(re.findall(r"^\| (`.*?) \|", section, re.MULTILINE))
    whole = {name for line in table.splitlines() if "steps." not in line for name in re.findall(r"`([a-z_]+)`", line)}
    steps = {
        name for line in table.splitlines() if "steps." in line for name in re.findall(r"`(?:steps\.)?([a-z_]+)`", line)
    }

    assert whole | {"title", "description", "steps"} == FIELDS
    assert steps == STEP_FIELDS


@pytest.mark.requirement("R5-5i")
def test_every_operation_of_the_api_is_named():
    section = GUIDE.partition("## The API\n")[2].partition("\n## ")[0].replace("…/{id}", "/api/v1/sagas/{id}")
    documented = set(re.findall(r"`(GET|POST) (/api/v1/sagas[^` ]*)`", section))
    there = {
        (method.upper(), path.replace("{saga_id}", "{id}"))
        for path, operations in api.get_openapi_schema()["paths"].items()
        for method in operations
        if path.startswith("/api/v1/sagas")
    }

    assert documented == there


@pytest.mark.requirement("R5-3.2d")
def test_every_status_emission_and_permission_is_named():
    for word in (*STATUSES, *EMISSIONS, *(action.permission for action in ACTIONS.values())):
        assert f"`{word}`" in GUIDE
