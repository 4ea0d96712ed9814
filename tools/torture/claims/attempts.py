"""Deliveries as both sides know them: the saga and its jobs on one, what was received of them on the other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from .evidence import Event, Evidence, Job, Receipt, Saga


class Attempt(NamedTuple):
    """A job with every request that was received of it, the first one first."""

    saga: Saga
    job: Job
    path: str
    receipts: list[Receipt]

    def __str__(self) -> str:
        return f"saga {self.saga.id} to {self.path}: attempt {self.job.attempt_no}"

    @property
    def answers(self) -> set[str]:
        return {receipt.answer for receipt in self.receipts}


def jobs_of(evidence: Evidence) -> dict[int, list[Job]]:
    """By saga, the first attempt first."""
    jobs: dict[int, list[Job]] = defaultdict(list)
    for job in sorted(evidence.jobs, key=lambda job: job.attempt_no):
        jobs[job.saga_id].append(job)
    return jobs


def addressed(evidence: Evidence) -> Iterator[tuple[Saga, Event, str]]:
    """Each saga with its event and its subscription's path, where there are such."""
    for saga in evidence.sagas:
        event = evidence.events.get(saga.event_id)
        subscription = evidence.subscriptions.get(saga.subscription_id)
        if event and subscription:
            yield saga, event, subscription[1]


def attempts(evidence: Evidence) -> Iterator[Attempt]:
    received: dict[tuple[str, str, int], list[Receipt]] = defaultdict(list)
    for receipt in sorted(evidence.receipts, key=lambda receipt: receipt.at):
        received[receipt.uid, receipt.path, receipt.attempt].append(receipt)
    jobs = jobs_of(evidence)
    for saga, event, path in addressed(evidence):
        for job in jobs.get(saga.id, []):
            yield Attempt(saga, job, path, received.get((event.uid, path, job.attempt_no), []))
