"""A definition drawn as SVG, coloured by the state of a run.

Colours are attributes, not styles: the content security policy allows them. The state is also written in the box.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape, quoteattr

from . import labels, versions
from . import state as states
from .definition import Definition
from .models import Instance

WIDTH, HEIGHT = 168, 52
GAP_X, GAP_Y = 56, 22
MARGIN = 16
DOT = 9
# state: fill, stroke
COLOURS = {
    states.WAITING: ("#f3f4f6", "#9ca3af"),
    states.RUNNING: ("#dbeafe", "#2563eb"),
    states.DONE: ("#dcfce7", "#16a34a"),
    states.FAILURE: ("#fee2e2", "#dc2626"),
    states.TIMED_OUT: ("#ffedd5", "#ea580c"),
    states.UNDOING: ("#fef9c3", "#ca8a04"),
    states.UNDONE: ("#ede9fe", "#7c3aed"),
    states.UNDO_FAILED: ("#fecaca", "#7f1d1d"),
}
# Readable on light and dark pages.
TEXT, FAINT, LINE = "#111827", "#4b5563", "#7c8493"
ARROW = (
    '<defs><marker id="arrow" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">'
    f'<path d="M0 0L10 5L0 10z" fill="{LINE}"/></marker></defs>'
)


class Box(NamedTuple):
    """A step; `note` is shown instead of the state."""

    key: str
    title: str
    after: Sequence[str]
    state: str = states.WAITING
    note: str = ""
    optional: bool = False

    @property
    def text(self) -> str:
        return self.note or str(labels.STATES[self.state])


class Place(NamedTuple):
    x: int
    y: int

    @property
    def left(self) -> tuple[int, int]:
        return self.x, self.y + HEIGHT // 2

    @property
    def right(self) -> tuple[int, int]:
        return self.x + WIDTH, self.y + HEIGHT // 2


def of(instance: Instance) -> str:
    """A run's definition, coloured by its state."""
    definition = versions.definition_of(instance)
    return svg(f"{definition.title}: {instance.status}", boxes(definition, instance.step_states))


def boxes(definition: Definition, step_states: Mapping[str, str], notes: Mapping[str, str] | None = None) -> list[Box]:
    """`notes`: step → a text to show instead of its state."""
    notes = notes or {}
    return [
        Box(
            step.key,
            step.title,
            step.after,
            step_states.get(step.key, states.WAITING),
            notes.get(step.key, ""),
            step.optional,
        )
        for step in definition.steps
    ]


def svg(title: str, boxes: Sequence[Box]) -> str:
    """The whole drawing, with all text escaped."""
    columns = layers(boxes)
    tallest = max((len(column) for column in columns), default=1)
    height = 2 * MARGIN + tallest * HEIGHT + (tallest - 1) * GAP_Y
    places = _places(columns, height)
    start = MARGIN + DOT, height // 2
    end = MARGIN + 2 * DOT + GAP_X + len(columns) * (WIDTH + GAP_X) + DOT, height // 2
    followed = {key for box in boxes for key in box.after}
    lines = [_arrow((start[0] + DOT, start[1]), places[box.key].left) for box in boxes if not box.after]
    lines += [_arrow(places[key].right, places[box.key].left) for box in boxes for key in box.after]
    lines += [_arrow(places[box.key].right, (end[0] - DOT, end[1])) for box in boxes if box.key not in followed]
    width = end[0] + DOT + MARGIN
    summary = "; ".join(f"{box.title}: {box.text}" for box in boxes)
    return "".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}" role="img" aria-label={quoteattr(f"{title}. {summary}")} font-family="sans-serif">',
            f"<title>{escape(title)}</title>",
            ARROW,
            *lines,
            f'<circle cx="{start[0]}" cy="{start[1]}" r="{DOT}" fill="{LINE}"/>',
            f'<circle cx="{end[0]}" cy="{end[1]}" r="{DOT - 2}" fill="none" stroke="{LINE}" stroke-width="4"/>',
            *(_box(box, places[box.key]) for box in boxes),
            "</svg>",
        ]
    )


def layers(boxes: Sequence[Box]) -> list[list[Box]]:
    """Columns from left to right: each step is to the right of all its predecessors."""
    by_key = {box.key: box for box in boxes}
    depths: dict[str, int] = {}

    def depth(box: Box) -> int:
        if box.key not in depths:
            depths[box.key] = 1 + max((depth(by_key[key]) for key in box.after), default=-1)
        return depths[box.key]

    columns: list[list[Box]] = []
    for box in sorted(boxes, key=depth):
        columns += [[] for _ in range(depth(box) + 1 - len(columns))]
        columns[depth(box)].append(box)
    return columns


def _places(columns: Sequence[Sequence[Box]], height: int) -> Mapping[str, Place]:
    places: dict[str, Place] = {}
    for number, column in enumerate(columns):
        x = MARGIN + 2 * DOT + GAP_X + number * (WIDTH + GAP_X)
        top = (height - len(column) * HEIGHT - (len(column) - 1) * GAP_Y) // 2
        places |= {box.key: Place(x, top + row * (HEIGHT + GAP_Y)) for row, box in enumerate(column)}
    return places


def _arrow(start: tuple[int, int], end: tuple[int, int]) -> str:
    middle = (start[0] + end[0]) // 2
    path = f"M{start[0]} {start[1]}C{middle} {start[1]} {middle} {end[1]} {end[0]} {end[1]}"
    return f'<path d="{path}" fill="none" stroke="{LINE}" stroke-width="1.5" marker-end="url(#arrow)"/>'


def _box(box: Box, place: Place) -> str:
    fill, stroke = COLOURS[box.state]
    centre = place.x + WIDTH // 2
    dashes = ' stroke-dasharray="5 4"' if box.optional else ""
    return (
        f"<g><title>{escape(f'{box.title}: {box.text}')}</title>"
        f'<rect x="{place.x}" y="{place.y}" width="{WIDTH}" height="{HEIGHT}" rx="8" fill="{fill}" stroke="{stroke}" '
        f'stroke-width="{1.5 if box.state == states.WAITING else 2.5}"{dashes}/>'
        f'<text x="{centre}" y="{place.y + 22}" text-anchor="middle" font-size="14" font-weight="600" fill="{TEXT}">'
        f"{escape(_cut(box.title, 20))}</text>"
        f'<text x="{centre}" y="{place.y + 40}" text-anchor="middle" font-size="11" fill="{FAINT}">'
        f"{escape(_cut(box.text, 27))}</text></g>"
    )


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
