"""Claims about results: a success was received as such, and a failure has a cause that another party recorded."""

from __future__ import annotations

from collections.abc import Iterator

from tools.torture.claims.attempts import Attempt, attempts
from tools.torture.claims.faults import Span, overlaps, stops_of
from tools.torture.config import CONNECT_SECONDS, MAX_LEASE_RESETS
from tools.torture.endpoint import DRIP, DROP, GARBAGE, HANG, SLOW_OK
from tools.torture.observations import Observations

STEADY = "/steady"
# The responses that explain an error code. No other code is possible: the endpoint is never down, its certificate is
# valid, and so are secrets and addresses.
CAUSES = {
    "timeout": {HANG, DRIP, SLOW_OK},
    "connection_lost": {DROP, HANG, DRIP, GARBAGE},
    "protocol_error": {GARBAGE},
}
TIMEOUT = "timeout"
LEASE_EXPIRED = "lease_expired"
# Time-outs without a cause that are allowed on a busy machine: a share of all attempts, or a few.
SLOW_SHARE = 0.02
SLOW_ALLOWED = 5
Stops = dict[int, list[Span]]


def status_of(response: str) -> int:
    """The status that a worker sees; 0 if there is none."""
    first = response.partition(" ")[0]
    return 200 if first == DRIP else int(first) if first.isdigit() else 0


def is_success(response: str) -> bool:
    """A complete response with a 2xx status."""
    return response != DRIP and 200 <= status_of(response) < 300


def completed_were_received(observed: Observations) -> Iterator[str]:
    """Also checks the reported status of failed attempts."""
    for attempt in attempts(observed):
        job, statuses = attempt.job, {status_of(response) for response in attempt.responses}
        if job.response_status is not None and job.response_status not in statuses - {0}:
            yield f"{attempt} reports status {job.response_status}, but the endpoint sent {statuses}"
        if job.status != "Completed":
            continue
        if job.error_code is not None or job.response_status is None or not 200 <= job.response_status < 300:
            yield f"{attempt} is Completed with status {job.response_status} and error {job.error_code}"
        if not any(map(is_success, attempt.responses)):
            yield f"{attempt} is Completed, but the endpoint sent {attempt.responses or 'nothing'}"


def failures_have_causes(observed: Observations) -> Iterator[str]:
    stops = stops_of(observed)
    slow, total = [], 0
    for attempt in attempts(observed):
        total += 1
        if attempt.job.status != "Failed" or has_cause(attempt, stops):
            continue
        if attempt.job.error_code == TIMEOUT and attempt.job.duration >= CONNECT_SECONDS:
            slow.append(attempt)
        else:
            yield _without_cause(attempt)
    if len(slow) > max(SLOW_ALLOWED, SLOW_SHARE * total):
        yield f"{len(slow)} of {total} attempts timed out without a cause, among them {slow[0]}"


def steady_ones_complete(observed: Observations) -> Iterator[str]:
    """/steady nearly always responds with 2xx, so a delivery fails only if each of its attempts has a cause."""
    stops = stops_of(observed)
    for attempt in attempts(observed):
        if attempt.path == STEADY and attempt.saga.status == "DeadLettered" and not has_cause(attempt, stops):
            yield _without_cause(attempt)


def has_cause(attempt: Attempt, stops: Stops) -> bool:
    """Whether the endpoint or the fault injector recorded why it failed."""
    job, code = attempt.job, attempt.job.error_code
    if code is None or ((job.response_status or 0) // 100 == 2 and DRIP not in attempt.responses):
        return False
    if code.startswith("http_"):
        return code == f"http_{job.response_status}" and str(job.response_status) in attempt.responses
    if code == LEASE_EXPIRED:
        return job.lease_resets > MAX_LEASE_RESETS
    if code not in CAUSES:
        return False
    stopped = overlaps((job.finished_at - job.duration, job.finished_at), stops.get(job.pid, []))
    return bool(CAUSES[code] & attempt.responses) or (code == TIMEOUT and stopped)


def _without_cause(attempt: Attempt) -> str:
    job = attempt.job
    return (
        f"{attempt} failed with {job.error_code}, status {job.response_status}, after {job.duration:.1f} s "
        f"and {job.lease_resets} lease resets; the endpoint sent {attempt.responses or 'nothing'}"
    )
