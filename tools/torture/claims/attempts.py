"""Joins deliveries, attempts and the requests that the endpoint received."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from tools.torture.observations import Event, Job, Observations, Receipt, Saga


class Attempt(NamedTuple):
    """A job with all its received requests in order."""

    saga: Saga
    job: Job
    path: str
    receipts: list[Receipt]

    def __str__(self) -> str:
        return f"saga {self.saga.id} to {self.path}: attempt {self.job.attempt_no}"

    @property
    def responses(self) -> set[str]:
        return {receipt.response for receipt in self.receipts}


def jobs_by_saga(observed: Observations) -> dict[int, list[Job]]:
    """In the order of attempts."""
    jobs: dict[int, list[Job]] = defaultdict(list)
    for job in sorted(observed.jobs, key=lambda job: job.attempt_no):
        jobs[job.saga_id].append(job)
    return jobs


def sagas_with_paths(observed: Observations) -> Iterator[tuple[Saga, Event, str]]:
    """Each saga with its event and the path of its subscription, if both exist."""
    for saga in observed.sagas:
        event = observed.events.get(saga.event_id)
        subscription = observed.subscriptions.get(saga.subscription_id)
        if event and subscription:
            yield saga, event, subscription[1]


def attempts(observed: Observations) -> Iterator[Attempt]:
    received: dict[tuple[str, str, int], list[Receipt]] = defaultdict(list)
    for receipt in sorted(observed.receipts, key=lambda receipt: receipt.at):
        received[receipt.uid, receipt.path, receipt.attempt].append(receipt)
    jobs = jobs_by_saga(observed)
    for saga, event, path in sagas_with_paths(observed):
        for job in jobs.get(saga.id, []):
            yield Attempt(saga, job, path, received.get((event.uid, path, job.attempt_no), []))


def count_duplicates(observed: Observations) -> int:
    received = Counter((receipt.uid, receipt.path, receipt.attempt) for receipt in observed.receipts)
    return sum(received.values()) - len(received)
