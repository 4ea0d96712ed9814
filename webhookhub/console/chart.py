"""The geometry of the overview's chart, in stacked columns; console/chart.html renders it as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

WIDTH, HEIGHT = 720, 200
LEFT, TOP, BOTTOM = 44, 10, 24
FLOOR = HEIGHT - BOTTOM
LINES = 4
LABELS = 6
GAP = 0.2
KINDS = ("delivered", "failing", "dead")


class Piece(NamedTuple):
    kind: str
    y: float
    height: float


class Column(NamedTuple):
    at: datetime
    x: float
    width: float
    counts: tuple[int, int, int]
    pieces: list[Piece]
    label_x: float | None  # None for a column without a label


class Line(NamedTuple):
    y: float
    label: str


class Chart(NamedTuple):
    columns: list[Column]
    lines: list[Line]
    is_empty: bool
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    floor: int = FLOOR


def stacked(rows: Sequence[tuple[datetime, tuple[int, int, int]]]) -> Chart:
    """One column per row, with one piece per kind, the first at the bottom."""
    top = ceiling(max((sum(counts) for _, counts in rows), default=0))
    scale = (FLOOR - TOP) / top
    slot = (WIDTH - LEFT) / max(1, len(rows))
    width = slot * (1 - GAP)
    label_every = max(1, -(-len(rows) // LABELS))
    columns = []
    for index, (at, counts) in enumerate(rows):
        x = LEFT + slot * (index + GAP / 2)
        label_x = None if index % label_every else round(x + width / 2, 2)
        columns.append(Column(at, round(x, 2), round(width, 2), counts, _pieces(counts, scale), label_x))
    steps = [top * step / LINES for step in range(LINES + 1)]
    lines = [Line(round(FLOOR - scale * value, 2), short(value)) for value in steps]
    return Chart(columns, lines, is_empty=not any(any(counts) for _, counts in rows))


def _pieces(counts: tuple[int, int, int], scale: float) -> list[Piece]:
    pieces, below = [], 0
    for kind, count in zip(KINDS, counts, strict=True):
        below += count
        if count:
            # At least one pixel, so that a single failure is visible.
            pieces.append(Piece(kind, round(FLOOR - scale * below, 2), round(max(scale * count, 1), 2)))
    return pieces


def ceiling(highest: int) -> int:
    """The least of 4, 8, 12, 20, 40, 80, 120, 200, … that is at least `highest`; the grid lines divide it evenly."""
    magnitude = 1
    while 40 * magnitude < highest:
        magnitude *= 10
    return next(step * magnitude for step in (4, 8, 12, 20, 40) if step * magnitude >= highest)


def short(value: float) -> str:
    """A label of the axis: 950, 1.5k, 2M."""
    for size, suffix in ((1_000_000, "M"), (1_000, "k")):
        if value >= size:
            return f"{value / size:g}{suffix}"
    return f"{value:g}"
