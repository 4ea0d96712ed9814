"""Whether nothing was sent more often, and no lease given up, than injected faults explain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .deliveries import attempts
from .evidence import Evidence, Receipt
from .faults import SLACK_SECONDS, Span, hits_of, meets, most_resets, most_unsaid, outages_of, stops_of
from .plan import LEASE_SECONDS
from .receiver import DROP, HANG, LATE_SECONDS

# The receiver's ways to close a connection without an answer. If libcurl had used that connection before, it sends
# the same request again on another, five times at most within one transfer (CONN_MAX_RETRIES in its source).
SILENT = {DROP, HANG}
SENT_PER_TRANSFER = 6


def duplicates_are_explained(evidence: Evidence) -> Iterator[str]:
    """One transfer for each lease; more than one request within a transfer only where the receiver fell silent."""
    stops = [span for spans in stops_of(evidence).values() for span in spans]
    for attempt in attempts(evidence):
        transfers = 1 + attempt.job.lease_resets
        most = transfers * (SENT_PER_TRANSFER if attempt.answers and attempt.answers <= SILENT else 1)
        if len(attempt.receipts) > most:
            yield (
                f"{attempt} was received {len(attempt.receipts)} times, answered {attempt.answers}, "
                f"with {attempt.job.lease_resets} leases reset"
            )
        elif (seen := _transfers(attempt.receipts, stops)) > transfers:
            yield f"{attempt} was received at {seen} different times, with {attempt.job.lease_resets} leases reset"


def _transfers(receipts: Sequence[Receipt], stops: list[Span]) -> int:
    """How many there were at least: what libcurl sends again it sends when the connection is closed."""
    seen = 0
    before = None
    for receipt in receipts:
        apart = before is None or receipt.at - before > LATE_SECONDS + SLACK_SECONDS
        if before is None or (apart and not meets((before, receipt.at), stops)):
            seen += 1
        before = receipt.at
    return seen


def resets_are_explained(evidence: Evidence) -> Iterator[str]:
    """A lease runs out only if its worker was killed, stopped or cut off while it held it, or there was no database."""
    hits, outages = hits_of(evidence), outages_of(evidence)
    for reset in sorted(evidence.said.resets, key=lambda reset: reset.until):
        lease = reset.until - LEASE_SECONDS, reset.until
        if reset.at < reset.until:
            yield f"job {reset.job_id}: its lease was reset at {reset.at:.3f}, before it ran out at {reset.until:.3f}"
        if not meets(lease, hits.get(reset.pid, [])) and not meets(lease, outages):
            yield f"job {reset.job_id}: the lease of worker {reset.pid} ran out at {reset.until:.3f}, unharmed"
    allowed = most_resets(evidence)
    happened = sum(job.lease_resets for job in evidence.jobs)
    if happened > allowed:
        yield f"{happened} leases were reset; the faults explain {allowed}"
    unsaid = happened - len(evidence.said.resets)
    if unsaid > (explained := most_unsaid(evidence)):
        yield f"{unsaid} leases were reset without a word; the faults explain {explained}"
