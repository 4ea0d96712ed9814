"""Claims about deliveries and attempts: the tables against each other."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from tools.torture.claims.attempts import jobs_by_saga, sagas_with_paths
from tools.torture.claims.requests import TERMINAL
from tools.torture.observations import Observations
from tools.torture.prepare import limit_of


def one_saga_each(observed: Observations) -> Iterator[str]:
    by_type: dict[str, set[int]] = defaultdict(set)
    for id, (event_type, _) in observed.subscriptions.items():
        by_type[event_type].add(id)
    expected = {(event.id, id, 0) for event in observed.events.values() for id in by_type[event.event_type]}
    stored = Counter((saga.event_id, saga.subscription_id, saga.generation) for saga in observed.sagas)
    name = "event, subscription, generation"
    yield from (f"{name} {key} has no delivery" for key in sorted(expected - stored.keys()))
    yield from (f"{name} {key} has no matching subscription" for key in sorted(stored.keys() - expected))
    yield from (f"{name} {key} has {count} deliveries" for key, count in stored.items() if count > 1)
    yield from (f"event {event_id} is in the inbox" for event_id in observed.inbox)


def each_ended(observed: Observations) -> Iterator[str]:
    yield from observed.unfinished
    dead_letters = Counter(observed.dead_letters)
    for saga in observed.sagas:
        if saga.status not in TERMINAL:
            yield f"saga {saga.id} is {saga.status}"
        expected = int(saga.status == "DeadLettered")
        count = dead_letters.pop(saga.id, 0)
        if count != expected:
            yield f"saga {saga.id} is {saga.status} and has {count} dead letters"
    for saga, _, path in sagas_with_paths(observed):
        limit = limit_of(path)
        if saga.max_retry_limit != limit:
            yield f"saga {saga.id} has a limit of {saga.max_retry_limit} attempts instead of {limit} for {path}"
        if saga.attempt_count > limit or (saga.status == "DeadLettered" and saga.attempt_count != limit):
            yield f"saga {saga.id} is {saga.status} after {saga.attempt_count} of {limit} attempts"
    yield from (f"a dead letter of saga {id}, which does not exist" for id in dead_letters)


def attempts_are_results(observed: Observations) -> Iterator[str]:
    jobs = jobs_by_saga(observed)
    for saga in observed.sagas:
        own = jobs.pop(saga.id, [])
        if saga.status not in TERMINAL:
            continue  # reported by another claim
        numbers = [job.attempt_no for job in own]
        if numbers != list(range(1, saga.attempt_count + 1)):
            yield f"saga {saga.id} counts {saga.attempt_count} attempts and has jobs for {numbers}"
        if not all(job.settled for job in own):
            yield f"saga {saga.id} has results that are not settled"
        outcomes = [job.status for job in own]
        last = "Completed" if saga.status == "Completed" else "Failed"
        if own and outcomes != ["Failed"] * (len(own) - 1) + [last]:
            yield f"saga {saga.id} is {saga.status} after {outcomes}"
    yield from (f"jobs of saga {id}, which does not exist" for id in jobs)
