"""The diagram of a workflow: layout, colours, escaping."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from tests.workflows.lives import DEFINITIONS, named
from workflows import state
from workflows.definition import Definition
from workflows.diagram import COLOURS, Box, boxes, layers, svg

HOSTILE = "</text><script>alert(1)</script>\"'&"


def texts(drawing: str) -> list[str]:
    root = ElementTree.fromstring(drawing)
    return ["".join(text.itertext()) for text in root.iter("{http://www.w3.org/2000/svg}text")]


@pytest.mark.requirement("R5-9b")
@pytest.mark.parametrize("definition", DEFINITIONS, ids=named)
def test_every_step_is_drawn_with_its_title_and_state(definition: Definition):
    states = dict.fromkeys(definition.by_key, state.DONE)

    drawn = texts(svg("x", boxes(definition, states)))

    assert len(drawn) == 2 * len(definition.steps)
    assert set(drawn[1::2]) == {"done"}


def test_there_is_a_colour_for_every_state():
    assert set(COLOURS) == set(state.STEP_STATES)
    assert len(set(COLOURS.values())) == len(COLOURS)


def test_a_step_is_right_of_all_its_predecessors():
    given = [Box("d", "d", ("b", "c")), Box("a", "a", ()), Box("b", "b", ("a",)), Box("c", "c", ()), Box("e", "e", "d")]

    assert [[box.key for box in column] for column in layers(given)] == [["a", "c"], ["b"], ["d"], ["e"]]


def test_texts_are_escaped_and_truncated():
    drawing = svg(HOSTILE, [Box("a", HOSTILE, (), note=HOSTILE * 10)])

    assert "<script" not in drawing
    assert texts(drawing)[0].startswith("</text><script>")
    assert all(len(text) <= 27 for text in texts(drawing))


def test_the_svg_has_no_scripts_and_no_external_resources():
    drawing = svg("x", [Box("a", "a", ())])

    assert "href" not in drawing
    assert "style" not in drawing
    assert " on" not in drawing
