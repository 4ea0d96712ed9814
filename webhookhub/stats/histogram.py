"""Histogram buckets and quantiles."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

# Upper bounds; one more bucket holds larger values.
DURATION_MS = (10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000, 30000)
LATENCY_SECONDS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 21600.0, 86400.0)

# bucket(bounds, value): the index of the first bound that is not below the value; len(bounds) if all are.
bucket = bisect_left


def quantile(bounds: Sequence[float], counts: Sequence[int], share: float) -> float | None:
    """The value that `share` of the measurements do not exceed, by linear interpolation within a bucket.

    None without measurements; the last bound for values beyond it.
    """
    total = sum(counts)
    if not total:
        return None
    rank, below, low = share * total, 0, 0.0
    for bound, count in zip(bounds, counts, strict=False):
        if count and below + count >= rank:
            return low + (bound - low) * (rank - below) / count
        below, low = below + count, bound
    return float(bounds[-1])
