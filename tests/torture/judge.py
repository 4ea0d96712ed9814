"""The verdict: each claim, and the rows that refute it. Pure: it sees the evidence and nothing else."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from .evidence import Event, Evidence, Job, Saga
from .plan import CONCURRENCY, LEASE_SECONDS, LOOPS

# The receiver's ways to close a connection without a word.
SILENT = ("drop", "hang")
TERMINAL = ("Completed", "DeadLettered")
Finding = Iterator[str]


@dataclass(frozen=True)
class Claim:
    sentence: str
    refute: Callable[[Evidence], Finding]


@dataclass(frozen=True)
class Verdict:
    claim: str
    found: list[str]


def judge(evidence: Evidence) -> list[Verdict]:
    return [Verdict(claim.sentence, list(claim.refute(evidence))) for claim in CLAIMS]


def acknowledged_are_stored(evidence: Evidence) -> Finding:
    stored: dict[tuple[str, str], list[Event]] = defaultdict(list)
    for event in evidence.events.values():
        stored[event.key].append(event)
    for key in sorted(evidence.acknowledged):
        found = stored[key]
        if len(found) != 1:
            yield f"{key} is stored {len(found)} times"
        elif (found[0].event_type, found[0].payload) != evidence.asked[key]:
            yield f"{key} is stored as {found[0]}, not as it was sent"


def nothing_else_is_stored(evidence: Evidence) -> Finding:
    for event in evidence.events.values():
        if event.key in evidence.rolled_back:
            yield f"event {event.id} {event.key} was rolled back"
        elif event.key not in evidence.asked:
            yield f"event {event.id} {event.key} was asked for by nobody"


def one_saga_each(evidence: Evidence) -> Finding:
    by_type: dict[str, set[int]] = defaultdict(set)
    for id, (event_type, _) in evidence.subscriptions.items():
        by_type[event_type].add(id)
    expected = {(event.id, id, 0) for event in evidence.events.values() for id in by_type[event.event_type]}
    there = Counter((saga.event_id, saga.subscription_id, saga.generation) for saga in evidence.sagas)
    yield from (f"event, subscription, generation {key} has no saga" for key in sorted(expected - there.keys()))
    yield from (f"event, subscription, generation {key} is wanted by nobody" for key in sorted(there.keys() - expected))
    yield from (f"event, subscription, generation {key} has {n} sagas" for key, n in there.items() if n > 1)
    yield from (f"event {event_id} is in the inbox" for event_id in evidence.inbox)


def each_ended(evidence: Evidence) -> Finding:
    yield from evidence.unfinished
    letters = Counter(evidence.letters)
    for saga in evidence.sagas:
        if saga.status not in TERMINAL:
            yield f"saga {saga.id} is {saga.status}"
        wanted = int(saga.status == "DeadLettered")
        if letters.pop(saga.id, 0) != wanted:
            yield f"saga {saga.id} is {saga.status} and has not {wanted} dead letters"
        if wanted and saga.attempt_count != saga.max_retry_limit:
            yield f"saga {saga.id} is dead after {saga.attempt_count} of {saga.max_retry_limit} attempts"
    yield from (f"a dead letter of saga {id}, which does not exist" for id in letters)


def attempts_are_results(evidence: Evidence) -> Finding:
    jobs = _jobs(evidence)
    for saga in evidence.sagas:
        mine = jobs.pop(saga.id, [])
        if saga.status not in TERMINAL:
            continue  # a fault of its own, named by another claim
        numbers = [job.attempt_no for job in mine]
        if numbers != list(range(1, saga.attempt_count + 1)):
            yield f"saga {saga.id} counts {saga.attempt_count} attempts and has jobs for {numbers}"
        if not all(job.settled for job in mine):
            yield f"saga {saga.id} has results that are not settled"
        outcomes = [job.status for job in mine]
        last = "Completed" if saga.status == "Completed" else "Failed"
        if mine and outcomes != ["Failed"] * (len(mine) - 1) + [last]:
            yield f"saga {saga.id} is {saga.status} after {outcomes}"
    yield from (f"jobs of saga {id}, which does not exist" for id in jobs)


def completed_were_received(evidence: Evidence) -> Finding:
    """And whatever else a job says of its answer, the receiver says too."""
    answers: dict[tuple[str, str, int], set[int]] = defaultdict(set)
    for receipt in evidence.receipts:
        if status := status_of(receipt.answer):
            answers[receipt.uid, receipt.path, receipt.attempt].add(status)
    jobs = _jobs(evidence)
    for saga, uid, path in _addressed(evidence):
        for job in jobs.get(saga.id, []):
            given = answers[uid, path, job.attempt_no]
            if job.response_status is not None and job.response_status not in given:
                yield f"saga {saga.id}: attempt {job.attempt_no} reports {job.response_status}, given was {given}"
            if job.status == "Completed" and not given & {200, 201}:
                yield f"saga {saga.id} is {saga.status}, and its event {uid} was not received at {path}"


def same_bytes(evidence: Evidence) -> Finding:
    bodies: dict[str, set[str]] = defaultdict(set)
    known = {(uid, path): saga for saga, uid, path in _addressed(evidence)}
    for receipt in evidence.receipts:
        bodies[receipt.uid].add(receipt.body)
        saga = known.get((receipt.uid, receipt.path))
        if saga is None:
            yield f"{receipt.uid} was received at {receipt.path}, and there is no such delivery"
        elif receipt.attempt > saga.attempt_count + (saga.status not in TERMINAL):
            yield f"{receipt.uid} was received at {receipt.path} as attempt {receipt.attempt} of {saga.attempt_count}"
    yield from (f"{uid} was sent with {len(found)} different bodies" for uid, found in bodies.items() if len(found) > 1)


def duplicates_are_explained(evidence: Evidence) -> Finding:
    """An attempt is sent once for each lease; and libcurl sends it again if a connection it had used before is closed
    without an answer: at once, or at the end of a silence that the worker was kept from timing."""
    received: Counter[tuple[str, str, int]] = Counter()
    dropped: Counter[tuple[str, str, int]] = Counter()
    for receipt in evidence.receipts:
        received[receipt.uid, receipt.path, receipt.attempt] += 1
        dropped[receipt.uid, receipt.path, receipt.attempt] += receipt.answer in SILENT
    jobs = _jobs(evidence)
    for saga, uid, path in _addressed(evidence):
        for job in jobs.get(saga.id, []):
            key = uid, path, job.attempt_no
            if received[key] > 1 + job.lease_resets + dropped[key]:
                yield (
                    f"saga {saga.id}: attempt {job.attempt_no} was received {received[key]} times, "
                    f"with {job.lease_resets} leases reset and {dropped[key]} connections dropped"
                )


def resets_are_explained(evidence: Evidence) -> Finding:
    """A lease runs out only under a worker that was killed, stopped or cut off, or while there was no database."""
    hit = {fault["pid"] for fault in evidence.faults if fault.get("kind") == "worker"}
    outages = outages_of(evidence)
    for reset in sorted(evidence.said.resets, key=lambda reset: reset.until):
        held = any(began <= reset.until and ended >= reset.until - LEASE_SECONDS for began, ended in outages)
        if reset.pid not in hit and not held:
            yield f"job {reset.job_id}: the lease of worker {reset.pid} ran out at {reset.until:.3f}, unharmed"
    allowed = most_resets(evidence)
    happened = sum(job.lease_resets for job in evidence.jobs)
    if happened > allowed:
        yield f"{happened} leases were reset; the faults explain {allowed}"


def nothing_final_changed(evidence: Evidence) -> Finding:
    yield from evidence.changed


def audit_is_clean(evidence: Evidence) -> Finding:
    if evidence.audit:
        yield evidence.audit


def nobody_failed(evidence: Evidence) -> Finding:
    yield from evidence.said.tracebacks
    for ending in evidence.endings:
        if not ending.asked and not (ending.kind in ("producer", "command") and ending.code == 0):
            yield f"{ending.slot} ended by itself with code {ending.code}: {ending.log}"


CLAIMS = (
    Claim("Every acknowledged event is stored once, as it was sent.", acknowledged_are_stored),
    Claim("Nothing is stored that was rolled back or never asked for.", nothing_else_is_stored),
    Claim("Every event has exactly one saga for each subscription of its type.", one_saga_each),
    Claim("Every saga ended once: Completed, or DeadLettered with its dead letter.", each_ended),
    Claim("attempt_count equals the accepted results, the last of which decided.", attempts_are_results),
    Claim("Every Completed saga was received and answered 2xx.", completed_were_received),
    Claim("Every attempt of an event had the same webhook-id and the same bytes.", same_bytes),
    Claim("No attempt was received more often than reset leases and drops explain.", duplicates_are_explained),
    Claim("No lease was reset but for an injected fault.", resets_are_explained),
    Claim("No final row ever changed.", nothing_final_changed),
    Claim("The audit finds nothing.", audit_is_clean),
    Claim("No traceback, and no process ended unasked.", nobody_failed),
)


def status_of(answer: str) -> int:
    """What the receiver's answer looks like to the worker: 0 if it is none."""
    first = answer.partition(" ")[0]
    return 200 if first == "drip" else int(first) if first.isdigit() else 0


def outages_of(evidence: Evidence) -> list[tuple[float, float]]:
    began = [fault["at"] for fault in evidence.faults if fault["say"] == "database killed"]
    ended = [fault["at"] for fault in evidence.faults if fault["say"] == "database back"]
    return list(zip(began, ended, strict=True))


def most_resets(evidence: Evidence) -> int:
    """A worker holds so many leases at most, and loses them all at a fault of its own or of the database."""
    of_workers = sum(fault.get("kind") == "worker" and fault["say"] != "woken" for fault in evidence.faults)
    return CONCURRENCY * (int(of_workers) + LOOPS["worker"] * len(outages_of(evidence)))


def duplicates(evidence: Evidence) -> int:
    received = Counter((receipt.uid, receipt.path, receipt.attempt) for receipt in evidence.receipts)
    return sum(received.values()) - len(received)


def _jobs(evidence: Evidence) -> dict[int, list[Job]]:
    jobs: dict[int, list[Job]] = defaultdict(list)
    for job in sorted(evidence.jobs, key=lambda job: job.attempt_no):
        jobs[job.saga_id].append(job)
    return jobs


def _addressed(evidence: Evidence) -> Iterator[tuple[Saga, str, str]]:
    """Each saga with its event's uid and its subscription's path, where there are such."""
    for saga in evidence.sagas:
        event = evidence.events.get(saga.event_id)
        subscription = evidence.subscriptions.get(saga.subscription_id)
        if event and subscription:
            yield saga, event.uid, subscription[1]
