"""Claims about leases: injected faults explain every repeated request and every lease reset."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tools.torture.claims.attempts import attempts
from tools.torture.claims.faults import (
    SLACK_SECONDS,
    Span,
    faults_by_pid,
    max_resets,
    max_unlogged_resets,
    outages_of,
    overlaps,
    stops_of,
)
from tools.torture.config import LEASE_SECONDS
from tools.torture.endpoint import DROP, HANG, HANG_SECONDS
from tools.torture.observations import Observations, Receipt

# The endpoint closes the connection without a response. If libcurl had used that connection before, it sends the
# request again on another one, at most five times within one transfer (CONN_MAX_RETRIES in its source).
NO_RESPONSE = {DROP, HANG}
REQUESTS_PER_TRANSFER = 6


def duplicates_are_explained(observed: Observations) -> Iterator[str]:
    """One transfer for each lease, and one request per transfer, except where the endpoint gave no response."""
    stops = [span for spans in stops_of(observed).values() for span in spans]
    for attempt in attempts(observed):
        transfers = 1 + attempt.job.lease_resets
        repeatable = attempt.responses and attempt.responses <= NO_RESPONSE
        allowed = transfers * (REQUESTS_PER_TRANSFER if repeatable else 1)
        if len(attempt.receipts) > allowed:
            yield (
                f"{attempt} was received {len(attempt.receipts)} times with the responses {attempt.responses} "
                f"and {attempt.job.lease_resets} lease resets"
            )
        elif (count := _count_transfers(attempt.receipts, stops)) > transfers:
            yield f"{attempt} was received at {count} different times with {attempt.job.lease_resets} lease resets"


def _count_transfers(receipts: Sequence[Receipt], stops: list[Span]) -> int:
    """The minimum number: libcurl repeats a request as soon as the connection is closed."""
    count = 0
    previous = None
    for receipt in receipts:
        apart = previous is None or receipt.at - previous > HANG_SECONDS + SLACK_SECONDS
        if previous is None or (apart and not overlaps((previous, receipt.at), stops)):
            count += 1
        previous = receipt.at
    return count


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
