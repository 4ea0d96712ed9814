"""The geometry of a stacked column chart; console/chart.html renders it as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

WIDTH, HEIGHT = 720, 200
LEFT, TOP, BOTTOM = 44, 10, 24
LINES = 4
LABELS = 6
GAP = 0.2


@dataclass(frozen=True)
class Piece:
    kind: str
    y: float
    height: float


@dataclass(frozen=True)
class Column:
    at: datetime
    x: float
    width: float
    counts: tuple[int, ...]
    pieces: tuple[Piece, ...]
    labelled: bool

    @property
    def middle(self) -> float:
        return self.x + self.width / 2

    @property
    def iso(self) -> str:
        return self.at.isoformat()


@dataclass(frozen=True)
class Line:
    y: float
    value: str


@dataclass(frozen=True)
class Chart:
    kinds: tuple[str, ...]
    columns: tuple[Column, ...]
    lines: tuple[Line, ...]
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    floor: int = HEIGHT - BOTTOM

    @property
    def is_empty(self) -> bool:
        return not any(any(column.counts) for column in self.columns)


def stacked(kinds: Sequence[str], rows: Sequence[tuple[datetime, Sequence[int]]]) -> Chart:
    """One column per row, with one piece per kind, the first at the bottom."""
    top = ceiling(max((sum(counts) for _, counts in rows), default=0))
    room = HEIGHT - TOP - BOTTOM
    slot = (WIDTH - LEFT) / max(1, len(rows))
    every = max(1, -(-len(rows) // LABELS))
    columns = []
    for index, (at, counts) in enumerate(rows):
        below, pieces = 0, []
        for kind, count in zip(kinds, counts, strict=True):
            height = room * count / top
            below += count
            if count:
                pieces.append(Piece(kind, round(HEIGHT - BOTTOM - room * below / top, 2), round(max(height, 1), 2)))
        x = LEFT + slot * (index + GAP / 2)
        columns.append(
            Column(at, round(x, 2), round(slot * (1 - GAP), 2), tuple(counts), tuple(pieces), index % every == 0)
        )
    lines = [
        Line(round(HEIGHT - BOTTOM - room * step / LINES, 2), short(top * step / LINES)) for step in range(LINES + 1)
    ]
    return Chart(tuple(kinds), tuple(columns), tuple(lines))


def ceiling(highest: int) -> int:
    """The least of 4, 8, 12, 20, 40, 80, 120, 200, … that is at least `highest`; the grid lines divide it evenly."""
    magnitude = 1
    while 40 * magnitude < highest:
        magnitude *= 10
    return next(step * magnitude for step in (4, 8, 12, 20, 40) if step * magnitude >= highest)


def short(value: float) -> str:
    """A label of the axis: 950, 1.5k, 2M."""
    for size, sign in ((1_000_000, "M"), (1_000, "k")):
        if value >= size:
            return f"{value / size:g}{sign}"
    return f"{value:g}"
