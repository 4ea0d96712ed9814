"""Claims about leases: injected faults explain every repeated request and every lease reset."""

from __future__ import annotations

from collections.abc import Iterator

from tools.torture.claims.attempts import attempts
from tools.torture.claims.faults import (
    faults_by_pid,
    max_resets,
    max_unlogged_resets,
    outages_of,
    overlaps,
)
from tools.torture.config import LEASE_SECONDS
from tools.torture.observations import Observations


def duplicates_are_explained(observed: Observations) -> Iterator[str]:
    """At most one request for each lease."""
    for attempt in attempts(observed):
        if len(attempt.receipts) > 1 + attempt.job.lease_resets:
            yield (
                f"{attempt} was received {len(attempt.receipts)} times with the responses {attempt.responses} "
                f"and {attempt.job.lease_resets} lease resets"
            )


def resets_are_explained(observed: Observations) -> Iterator[str]:
    """A lease expires only if its worker was killed, stopped or disconnected meanwhile, or the database was down."""
    faults, outages = faults_by_pid(observed), outages_of(observed)
    for reset in sorted(observed.logs.resets, key=lambda reset: reset.until):
        lease = reset.until - LEASE_SECONDS, reset.until
        if reset.at < reset.until:
            yield f"job {reset.job_id}: its lease was reset at {reset.at:.3f}, before it expired at {reset.until:.3f}"
        if not overlaps(lease, faults.get(reset.pid, [])) and not overlaps(lease, outages):
            yield f"job {reset.job_id}: the lease of worker {reset.pid} expired at {reset.until:.3f} without a fault"
    allowed = max_resets(observed)
    resets = sum(job.lease_resets for job in observed.jobs)
    if resets > allowed:
        yield f"{resets} leases were reset; the faults explain {allowed}"
    unlogged = resets - len(observed.logs.resets)
    if unlogged > (allowed := max_unlogged_resets(observed)):
        yield f"{unlogged} leases were reset without a log entry; the faults explain {allowed}"
