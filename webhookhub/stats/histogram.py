"""Histograms: where a measured time belongs, and what can be read from the counts."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

# Upper bounds; what is longer than the last one has a bucket of its own.
DURATION_MS = (10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000, 30000)
LATENCY_SECONDS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 21600.0, 86400.0)


# bucket(bounds, value): the position of the first bound that is not below the value; len(bounds) if all are.
bucket = bisect_left


def quantile(bounds: Sequence[float], counts: Sequence[int], share: float) -> float | None:
    """The value that `share` of the measurements do not exceed, taken as evenly spread within their bucket.

    None without measurements; the last bound if it lies beyond that, where nothing more is known.
    """
    total = sum(counts)
    if not total:
        return None
    wanted, below, low = share * total, 0, 0.0
    for bound, count in zip(bounds, counts, strict=False):
        if count and below + count >= wanted:
            return low + (bound - low) * (wanted - below) / count
        below, low = below + count, bound
    return float(bounds[-1])
