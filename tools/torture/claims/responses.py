"""Whether each attempt ended as it says: a success was one, and a failure has a cause that somebody else has seen."""

from __future__ import annotations

from collections.abc import Iterator

from .deliveries import Attempt, attempts
from .evidence import Evidence
from .faults import Span, meets, stops_of
from .plan import CONNECT_SECONDS, MAX_LEASE_RESETS
from .receiver import DRIP, DROP, GARBAGE, HANG, SLOW_OK

STEADY = "/steady"
# What a worker may make of an answer that is none. No other error has a cause here: the receiver is never away, its
# certificate is good, and so are the secrets and addresses.
CAUSES = {
    "timeout": {HANG, DRIP, SLOW_OK},
    "connection_lost": {DROP, HANG, DRIP, GARBAGE},
    "protocol_error": {GARBAGE},
}
TIMEOUT = "timeout"
LEASE_EXPIRED = "lease_expired"
# Of all attempts, so many may time out though nothing was done to them: the machine has other work besides.
SLOW_SHARE = 0.02
SLOW_LEAST = 5
Stops = dict[int, list[Span]]


def status_of(answer: str) -> int:
    """The status that a worker sees: 0 if there is none."""
    first = answer.partition(" ")[0]
    return 200 if first == DRIP else int(first) if first.isdigit() else 0


def is_success(answer: str) -> bool:
    """A whole answer, and 2xx."""
    return answer != DRIP and 200 <= status_of(answer) < 300


def completed_were_received(evidence: Evidence) -> Iterator[str]:
    """And whatever else a job says of its answer, the receiver says too."""
    for attempt in attempts(evidence):
        job, given = attempt.job, {status_of(answer) for answer in attempt.answers}
        if job.response_status is not None and job.response_status not in given - {0}:
            yield f"{attempt} reports {job.response_status}, given was {given}"
        if job.status != "Completed":
            continue
        if job.error_code is not None or job.response_status is None or not 200 <= job.response_status < 300:
            yield f"{attempt} is Completed with {job.response_status} and the error {job.error_code}"
        if not any(map(is_success, attempt.answers)):
            yield f"{attempt} is Completed, and was answered with {attempt.answers or 'nothing'}"


def failures_have_causes(evidence: Evidence) -> Iterator[str]:
    stops = stops_of(evidence)
    slow, all_attempts = [], 0
    for attempt in attempts(evidence):
        all_attempts += 1
        if attempt.job.status != "Failed" or has_cause(attempt, stops):
            continue
        if attempt.job.error_code == TIMEOUT and attempt.job.duration >= CONNECT_SECONDS:
            slow.append(attempt)
        else:
            yield _unexplained(attempt)
    if len(slow) > max(SLOW_LEAST, SLOW_SHARE * all_attempts):
        yield f"{len(slow)} of {all_attempts} attempts timed out for no reason, among them {slow[0]}"


def steady_ones_complete(evidence: Evidence) -> Iterator[str]:
    """Where every answer is 2xx, or nearly, a delivery fails only for faults, one for each of its attempts."""
    stops = stops_of(evidence)
    for attempt in attempts(evidence):
        if attempt.path == STEADY and attempt.saga.status == "DeadLettered" and not has_cause(attempt, stops):
            yield _unexplained(attempt)


def has_cause(attempt: Attempt, stops: Stops) -> bool:
    """Whether the receiver or the tormentor has seen why it failed."""
    job, code = attempt.job, attempt.job.error_code
    if code is None or ((job.response_status or 0) // 100 == 2 and DRIP not in attempt.answers):
        return False
    if code.startswith("http_"):
        return code == f"http_{job.response_status}" and str(job.response_status) in attempt.answers
    if code == LEASE_EXPIRED:
        return job.lease_resets > MAX_LEASE_RESETS
    if code not in CAUSES:
        return False
    stopped = meets((job.finished_at - job.duration, job.finished_at), stops.get(job.pid, []))
    return bool(CAUSES[code] & attempt.answers) or (code == TIMEOUT and stopped)


def _unexplained(attempt: Attempt) -> str:
    job = attempt.job
    return (
        f"{attempt} failed with {job.error_code}, status {job.response_status}, after {job.duration:.1f} s "
        f"and {job.lease_resets} resets; given was {attempt.answers or 'nothing'}"
    )
