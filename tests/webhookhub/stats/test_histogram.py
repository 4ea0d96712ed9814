"""Where a measured time belongs, and what can be read from the counts."""

from __future__ import annotations

import pytest

from webhookhub.stats.histogram import DURATION_MS, bucket, quantile
from webhookhub.stats.models import COUNTED, DURATION_COLUMNS, Period


@pytest.mark.parametrize(("value", "position"), [(0, 0), (10, 0), (11, 1), (30000, 10), (30001, 11), (10**9, 11)])
def test_a_value_belongs_to_the_first_bound_that_it_does_not_exceed(value: int, position: int):
    assert bucket(DURATION_MS, value) == position


@pytest.mark.parametrize(
    ("counts", "share", "expected"),
    [
        ([], 0.5, None),
        ([0, 0, 0], 0.5, None),
        ([10], 0.5, 5.0),
        ([10, 0, 0], 1.0, 10.0),
        ([0, 10], 0.5, 17.5),
        ([50, 50], 0.95, 23.5),
        ([0] * 11 + [3], 0.5, 30000.0),
        ([1] + [0] * 10 + [99], 0.95, 30000.0),
    ],
)
def test_a_quantile_is_interpolated_within_its_bucket(counts: list[int], share: float, expected: float | None):
    found = quantile(DURATION_MS, counts, share)
    assert found == (expected if expected is None else pytest.approx(expected))


def test_every_count_has_its_column():
    stored = {field.column for field in Period._meta.concrete_fields}
    assert stored == {"period", "starts_at", "subscription_id", "shard", *COUNTED}
    assert len(DURATION_COLUMNS) == len(DURATION_MS) + 1
