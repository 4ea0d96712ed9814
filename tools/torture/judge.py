"""Checks each claim against the evidence and returns the rows that contradict it. No side effects."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from .deliveries import addressed, jobs_of
from .evidence import Event, Evidence
from .leases import duplicates_are_explained, resets_are_explained
from .outcomes import completed_were_received, failures_have_causes, steady_ones_complete
from .stage import limit_of
from .tracking import HUB, replay_agrees, workflows_are_tracked
from .wire import TERMINAL, as_stored_and_signed, same_bytes

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


def stored_as_asked(evidence: Evidence) -> Finding:
    """Every acknowledged event is stored; every stored event is stored once and as it was sent."""
    stored: dict[tuple[str, str], list[Event]] = defaultdict(list)
    for event in evidence.events.values():
        stored[event.key].append(event)
    yield from (f"{key} is not stored" for key in sorted(evidence.acknowledged - stored.keys()))
    for key, found in stored.items():
        if len(found) > 1:
            yield f"{key} is stored {len(found)} times"
        for event in found:
            if key in evidence.asked and (event.event_type, event.payload) != evidence.asked[key]:
                yield f"{key} is stored as {event}, not as it was sent"


def nothing_else_is_stored(evidence: Evidence) -> Finding:
    for event in evidence.events.values():
        if event.key in evidence.rolled_back:
            yield f"event {event.id} {event.key} was to be rolled back"
        elif event.key not in evidence.asked and event.key[0] != HUB:
            yield f"event {event.id} {event.key} was never sent"


def transactions_are_atomic(evidence: Evidence) -> Finding:
    there = {event.key for event in evidence.events.values()}
    for keys in evidence.transactions:
        if keys & there and keys - there:
            yield f"{sorted(keys & there)} are stored without {sorted(keys - there)}, of one transaction"


def one_saga_each(evidence: Evidence) -> Finding:
    by_type: dict[str, set[int]] = defaultdict(set)
    for id, (event_type, _) in evidence.subscriptions.items():
        by_type[event_type].add(id)
    expected = {(event.id, id, 0) for event in evidence.events.values() for id in by_type[event.event_type]}
    there = Counter((saga.event_id, saga.subscription_id, saga.generation) for saga in evidence.sagas)
    yield from (f"event, subscription, generation {key} has no delivery" for key in sorted(expected - there.keys()))
    yield from (
        f"event, subscription, generation {key} has no matching subscription" for key in sorted(there.keys() - expected)
    )
    yield from (f"event, subscription, generation {key} has {n} deliveries" for key, n in there.items() if n > 1)
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
    for saga, _, path in addressed(evidence):
        limit = limit_of(path)
        if saga.max_retry_limit != limit:
            yield f"saga {saga.id} has {saga.max_retry_limit} attempts, and {path} was to have {limit}"
        if saga.attempt_count > limit or (saga.status == "DeadLettered" and saga.attempt_count != limit):
            yield f"saga {saga.id} is {saga.status} after {saga.attempt_count} of {limit} attempts"
    yield from (f"a dead letter of saga {id}, which does not exist" for id in letters)


def attempts_are_results(evidence: Evidence) -> Finding:
    jobs = jobs_of(evidence)
    for saga in evidence.sagas:
        mine = jobs.pop(saga.id, [])
        if saga.status not in TERMINAL:
            continue  # reported by another claim
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


def nothing_final_changed(evidence: Evidence) -> Finding:
    yield from evidence.changed


def audit_is_clean(evidence: Evidence) -> Finding:
    if evidence.audit:
        yield evidence.audit


def no_process_failed(evidence: Evidence) -> Finding:
    yield from evidence.said.tracebacks
    for ending in evidence.endings:
        if not ending.asked and not (ending.kind in ("producer", "command") and ending.code == 0):
            yield f"{ending.slot} ended by itself with code {ending.code}: {ending.log}"


CLAIMS = (
    Claim("Every acknowledged event is stored once, as it was sent.", stored_as_asked),
    Claim("Nothing is stored that was rolled back or never sent.", nothing_else_is_stored),
    Claim("A transaction is stored whole or not at all.", transactions_are_atomic),
    Claim("Every event has exactly one delivery for each subscription of its type.", one_saga_each),
    Claim("Every delivery ended once: Completed, or DeadLettered with its dead letter.", each_ended),
    Claim("attempt_count equals the number of accepted results, and the last one decided.", attempts_are_results),
    Claim("Every Completed delivery was received with a 2xx response.", completed_were_received),
    Claim("Every failed attempt has a recorded cause.", failures_have_causes),
    Claim("Every delivery to /steady completed, except after faults.", steady_ones_complete),
    Claim("Every request matched the stored event and was signed for its subscription.", as_stored_and_signed),
    Claim("Every attempt of an event had the same webhook-id and the same bytes.", same_bytes),
    Claim(
        "No attempt was received more often than reset leases explain.",
        duplicates_are_explained,
    ),
    Claim("No lease was reset except after an injected fault.", resets_are_explained),
    Claim("No final row ever changed.", nothing_final_changed),
    Claim("Every workflow is tracked once, to its end, and announced once.", workflows_are_tracked),
    Claim("The replay of the workflows finds no difference.", replay_agrees),
    Claim("The integrity check finds nothing.", audit_is_clean),
    Claim("No traceback, and no process exited unexpectedly.", no_process_failed),
)


def duplicates(evidence: Evidence) -> int:
    received = Counter((receipt.uid, receipt.path, receipt.attempt) for receipt in evidence.receipts)
    return sum(received.values()) - len(received)
