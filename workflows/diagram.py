"""A definition drawn as SVG, coloured by the state of a run.

Colours are attributes, not styles: the content security policy allows them. The state is also written in the box.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from django.template.loader import render_to_string
from django.utils.safestring import SafeString

from . import labels, state, versions
from .definition import Definition
from .models import Instance

WIDTH, HEIGHT = 168, 52
GAP_X, GAP_Y = 56, 22
MARGIN = 16
# The radius of the circles at the start and at the end.
DOT = 9
# State → fill and stroke.
COLOURS = {
    state.WAITING: ("#f3f4f6", "#9ca3af"),
    state.RUNNING: ("#dbeafe", "#2563eb"),
    state.DONE: ("#dcfce7", "#16a34a"),
    state.FAILURE: ("#fee2e2", "#dc2626"),
    state.TIMED_OUT: ("#ffedd5", "#ea580c"),
    state.UNDOING: ("#fef9c3", "#ca8a04"),
    state.UNDONE: ("#ede9fe", "#7c3aed"),
    state.UNDO_FAILED: ("#fecaca", "#7f1d1d"),
}
# Readable on light and dark pages.
LINE = "#7c8493"
Point = tuple[int, int]


@dataclass
class Box:
    """A step; `note` is shown instead of the state. `x` and `y` are its upper left corner."""

    key: str
    title: str
    after: Sequence[str]
    state: str = state.WAITING
    note: str = ""
    optional: bool = False
    x: int = 0
    y: int = 0

    @property
    def text(self) -> str:
        return self.note or str(labels.STATES[self.state])

    @property
    def fill(self) -> str:
        return COLOURS[self.state][0]

    @property
    def stroke(self) -> str:
        return COLOURS[self.state][1]

    @property
    def centre(self) -> int:
        return self.x + WIDTH // 2

    @property
    def left(self) -> Point:
        return self.x, self.y + HEIGHT // 2

    @property
    def right(self) -> Point:
        return self.x + WIDTH, self.y + HEIGHT // 2


def of(instance: Instance) -> SafeString:
    """A run's definition, coloured by its state."""
    definition = versions.definition_of(instance)
    return svg(f"{definition.title}: {instance.status}", boxes(definition, instance.step_states))


def boxes(definition: Definition, states: Mapping[str, str], notes: Mapping[str, str] | None = None) -> list[Box]:
    """`states` and `notes`: step → its state, or a text to show instead."""
    notes = notes or {}
    return [
        Box(
            step.key,
            step.title,
            step.after,
            states.get(step.key, state.WAITING),
            notes.get(step.key, ""),
            step.optional,
        )
        for step in definition.steps
    ]


def svg(title: str, boxes: Sequence[Box], name: str = "arrow") -> SafeString:
    """The whole drawing. The template escapes all text. `name` must differ between the drawings of one page."""
    columns = layers(boxes)
    tallest = max(map(len, columns))
    height = 2 * MARGIN + tallest * HEIGHT + (tallest - 1) * GAP_Y
    for number, column in enumerate(columns):
        top = (height - len(column) * HEIGHT - (len(column) - 1) * GAP_Y) // 2
        for row, box in enumerate(column):
            box.x = MARGIN + 2 * DOT + GAP_X + number * (WIDTH + GAP_X)
            box.y = top + row * (HEIGHT + GAP_Y)
    by_key = {box.key: box for box in boxes}
    followed = {key for box in boxes for key in box.after}
    start = MARGIN + DOT, height // 2
    end = MARGIN + 3 * DOT + GAP_X + len(columns) * (WIDTH + GAP_X), height // 2
    arrows = [_arrow((start[0] + DOT, start[1]), box.left) for box in boxes if not box.after]
    arrows += [_arrow(by_key[key].right, box.left) for box in boxes for key in box.after]
    arrows += [_arrow(box.right, (end[0] - DOT, end[1])) for box in boxes if box.key not in followed]
    context = {
        "title": title,
        "name": name,
        "boxes": boxes,
        "arrows": arrows,
        "start": start,
        "end": end,
        "width": end[0] + DOT + MARGIN,
        "height": height,
        "box_width": WIDTH,
        "box_height": HEIGHT,
        "line": LINE,
    }
    return render_to_string("admin/workflows/instance/diagram.svg", context)


def layers(boxes: Sequence[Box]) -> list[list[Box]]:
    """Columns from left to right: each step is to the right of all its predecessors."""
    by_key = {box.key: box for box in boxes}
    depths: dict[str, int] = {}

    def depth(box: Box) -> int:
        if box.key not in depths:
            depths[box.key] = 1 + max((depth(by_key[key]) for key in box.after), default=-1)
        return depths[box.key]

    return [list(column) for _, column in groupby(sorted(boxes, key=depth), depth)]


def _arrow(start: Point, end: Point) -> str:
    middle = (start[0] + end[0]) // 2
    return f"M{start[0]} {start[1]}C{middle} {start[1]} {middle} {end[1]} {end[0]} {end[1]}"
