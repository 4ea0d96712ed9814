"""The benchmark's arithmetic."""

from __future__ import annotations

import pytest

from tools.bench.result import Result, table
from tools.bench.spread import Spread, percentile, ratios
from tools.bench.timing import Budget


@pytest.mark.parametrize(
    ("values", "part", "expected"),
    [
        ([7], 50, 7),
        ([7], 99, 7),
        ([1, 2, 3, 4], 50, 2),
        ([4, 3, 2, 1], 50, 2),
        ([1, 2, 3, 4, 5], 50, 3),
        (list(range(1, 101)), 95, 95),
        (list(range(1, 101)), 99, 99),
        (list(range(1, 101)), 100, 100),
        ([1, 2, 3, 1000], 95, 1000),
    ],
)
def test_a_percentile_is_the_least_value_that_so_many_do_not_exceed(values: list[float], part: float, expected: float):
    assert percentile(values, part) == expected


@pytest.mark.parametrize(("values", "part"), [([], 50), ([1], 0), ([1], 101)])
def test_a_percentile_of_nothing_is_refused(values: list[float], part: float):
    with pytest.raises(ValueError, match="percentile"):
        percentile(values, part)


def test_ratios_are_taken_run_by_run_and_not_of_the_medians():
    # The second pair was disturbed, both sides alike.
    assert ratios([100, 20, 90], [200, 40, 100]) == Spread(0.5, 0.5, 0.9, 3)


def test_runs_without_their_counterparts_are_not_compared():
    with pytest.raises(ValueError, match="shorter"):
        ratios([1, 2], [1])


def test_a_spread_says_how_many_runs_it_is_of():
    assert str(Spread.of([1500, 1000, 1234])) == "1,234 (1,000 to 1,500, 3 runs)"
    assert str(Spread.of([0.25])) == "0.25 (one run)"


def test_the_table_says_which_targets_are_reached():
    result = Result("drain")
    result.say("deliveries/s", 1000)
    result.at_least("drain ÷ floor", "0.59", 0.59, 0.6)
    result.at_most("p95", "0.1", 0.1, 0.1)

    lines = table([result, Result("celery", skipped="not installed: redis")]).splitlines()

    assert lines == [
        "",
        "drain",
        "  deliveries/s   1000",
        "  drain ÷ floor  0.59  ≥ 0.6   not reached",
        "  p95            0.1   ≤ 0.1   reached",
        "",
        "celery: skipped, not installed: redis",
    ]


def test_without_time_one_run_is_made_and_no_more():
    budget = Budget(0)
    budget.allow(1)

    assert list(budget.within(range(3))) == [0]


def test_with_time_all_runs_are_made():
    budget = Budget(600)
    budget.allow(0.5)

    assert list(budget.within(range(3))) == [0, 1, 2]
