"""The arithmetic, the table and the time limit of the benchmark."""

from __future__ import annotations

import pytest

from tools.bench.context import Budget
from tools.bench.results import Result, Spread, percentile, ratios, table


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
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
def test_percentiles_use_the_nearest_rank(values: list[float], percent: float, expected: float):
    assert percentile(values, percent) == expected


@pytest.mark.parametrize(("values", "percent"), [([], 50), ([1], 0), ([1], 101)])
def test_percentiles_need_values_and_a_valid_percentage(values: list[float], percent: float):
    with pytest.raises(ValueError, match="percentile"):
        percentile(values, percent)


def test_ratios_compare_neighbouring_runs_not_medians():
    # A disturbance has slowed both runs of the second pair.
    assert ratios([100, 20, 90], [200, 40, 100]) == Spread(0.5, 0.5, 0.9, 3)


def test_ratios_need_as_many_runs_of_both():
    with pytest.raises(ValueError, match="shorter"):
        ratios([1, 2], [1])


def test_a_spread_names_its_number_of_runs():
    assert str(Spread.of([1500, 1000, 1234])) == "1,234 (1,000 to 1,500, 3 runs)"
    assert str(Spread.of([0.25])) == "0.25 (one run)"


def test_the_table_shows_which_targets_are_reached():
    result = Result("drain")
    result.add("deliveries/s", 1000)
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


def test_without_time_there_is_exactly_one_run():
    budget = Budget(0)
    budget.allow(1)

    assert list(budget.within(range(3))) == [0]


def test_with_enough_time_there_are_all_runs():
    budget = Budget(600)
    budget.allow(0.5)

    assert list(budget.within(range(3))) == [0, 1, 2]
