"""Whether nothing was sent more often, and no lease given up, than injected faults explain."""

from __future__ import annotations

from collections.abc import Iterator

from .deliveries import attempts
from .evidence import Evidence
from .faults import hits_of, meets, most_resets, most_unsaid, outages_of
from .plan import LEASE_SECONDS


def duplicates_are_explained(evidence: Evidence) -> Iterator[str]:
    """At most one request for each lease."""
    for attempt in attempts(evidence):
        if len(attempt.receipts) > 1 + attempt.job.lease_resets:
            yield (
                f"{attempt} was received {len(attempt.receipts)} times, answered {attempt.answers}, "
                f"with {attempt.job.lease_resets} leases reset"
            )


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
