"""The geometry of the chart and the spans of the overview."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from webhookhub.console import chart, overview

START = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


def chart_of(*columns: tuple[int, int, int]) -> chart.Chart:
    return chart.stacked([(START + timedelta(minutes=minute), counts) for minute, counts in enumerate(columns)])


@pytest.mark.parametrize(
    ("highest", "top"),
    [(0, 4), (4, 4), (5, 8), (9, 12), (13, 20), (21, 40), (41, 80), (10**6, 12 * 10**5)],
)
def test_the_axis_ends_at_a_round_number(highest: int, top: int):
    assert chart.ceiling(highest) == top
    assert top % chart.LINES == 0


def test_pieces_are_stacked():
    result = chart_of((4, 2, 2), (0, 0, 0))

    lowest, middle, highest = result.columns[0].pieces
    assert lowest.y + lowest.height == pytest.approx(result.floor)
    assert middle.y + middle.height == pytest.approx(lowest.y)
    assert highest.y + highest.height == pytest.approx(middle.y)
    assert highest.y == pytest.approx(chart.TOP)
    assert result.columns[1].pieces == []


def test_a_single_failure_among_many_is_visible():
    [column] = chart_of((100_000, 1, 0)).columns

    assert column.pieces[1].height >= 1


def test_a_chart_without_counts_is_empty():
    assert chart_of((0, 0, 0), (0, 0, 0)).is_empty
    assert chart_of().is_empty
    assert not chart_of((0, 0, 1)).is_empty


@pytest.mark.parametrize(("value", "label"), [(0, "0"), (950, "950"), (1500, "1.5k"), (2_000_000, "2M")])
def test_large_numbers_are_short_on_the_axis(value: int, label: str):
    assert chart.short(value) == label


@pytest.mark.parametrize("span", overview.SPANS, ids=lambda span: span.name)
def test_a_span_ends_with_the_current_step(span: overview.Span):
    now = datetime(2026, 1, 31, 12, 34, 56, tzinfo=UTC)

    since, until = span.bounds(now)

    assert until - span.step <= now < until
    assert until - since == span.length
    assert (since - datetime(2026, 1, 1, tzinfo=UTC)) % span.step == timedelta(0)


def test_an_unknown_span_is_the_last_hour():
    assert overview.span_named("century") is overview.span_named(None) is overview.HOUR
