"""The rows behind the page of a delivery."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from deadletters.models import DeadLetter
from events.models import Event
from jobs.models import Job
from sagas import transitions
from sagas.models import DeliveryRequest, Saga
from sagas.waiting import waiting_for
from subscriptions.models import Subscription

from . import format

MAX_ATTEMPTS = 50
# Generations before and after a delivery that its page links to.
NEIGHBOURS = 10
MAX_REQUESTS = 10


@dataclass(frozen=True)
class History:
    """A delivery with its newest attempts and, by generation, its neighbours and their dead letters."""

    saga: Saga
    # None if it does not exist: the database does not enforce the reference.
    event: Event | None
    subscription: Subscription | None
    # None if the user may not see attempts.
    jobs: list[Job] | None
    # Why it waits for its endpoint, one of sagas.waiting.REASONS.
    reason: str | None
    # One more than NEIGHBOURS on either side, which tells whether there are others.
    generations: dict[int, Saga]
    letters: dict[int, DeadLetter]
    # The newest requests for this delivery, and the one that abandons it.
    requests: list[DeliveryRequest]

    @classmethod
    def load(cls, saga: Saga, *, with_attempts: bool) -> History:
        jobs = list(reversed(saga.jobs.order_by("-attempt_no")[:MAX_ATTEMPTS])) if with_attempts else None
        bounds = (max(0, saga.generation - NEIGHBOURS - 1), saga.generation + NEIGHBOURS + 1)
        sagas = Saga.objects.filter(event=saga.event_id, subscription=saga.subscription_id, generation__range=bounds)
        generations = {row.generation: row for row in sagas.order_by("generation")}
        by_pk = {row.pk: generation for generation, row in generations.items()}
        letters = DeadLetter.objects.filter(saga__in=by_pk).defer("payload_snapshot").select_related("requeue")
        return cls(
            saga,
            Event.objects.filter(pk=saga.event_id).first(),
            Subscription.objects.filter(pk=saga.subscription_id).first(),
            jobs,
            waiting_for([saga]).get(saga.pk),
            generations,
            {by_pk[letter.saga_id]: letter for letter in letters},
            _requests(saga),
        )

    @property
    def letter(self) -> DeadLetter | None:
        return self.letters.get(self.saga.generation)

    @property
    def previous(self) -> Saga | None:
        return self.generations.get(self.saga.generation - 1)

    @property
    def next(self) -> Saga | None:
        return self.generations.get(self.saga.generation + 1)

    @property
    def neighbours(self) -> list[Saga]:
        return [saga for saga in self.generations.values() if 0 < self._distance(saga) <= NEIGHBOURS]

    @property
    def has_more_generations(self) -> bool:
        return any(self._distance(saga) > NEIGHBOURS for saga in self.generations.values())

    def _distance(self, saga: Saga) -> int:
        return abs(saga.generation - self.saga.generation)

    @property
    def earlier_attempts(self) -> int:
        """The number of attempts that are not loaded."""
        return 0 if self.jobs is None else max(0, self.saga.attempt_count - MAX_ATTEMPTS)

    @property
    def has_ended(self) -> bool:
        return self.saga.status in transitions.TERMINAL

    @property
    def is_waiting(self) -> bool:
        return self.saga.status in transitions.WAITING

    @property
    def held_back(self) -> str | None:
        """Why a waiting delivery is not attempted now; None if it is."""
        return format.waiting_for(self.reason)

    @property
    def next_attempt_at(self) -> datetime | None:
        return self.saga.next_attempt_at if self.is_waiting and not self.held_back else None

    @property
    def subscription_changed_at(self) -> datetime | None:
        """When the subscription was changed, if that was after the last finished attempt was sent."""
        if not self.saga.attempt_count or self.subscription is None:
            return None
        sent_at = self.saga.updated_at
        for job in self.jobs or ():
            if job.finished_at is not None:
                sent_at = job.finished_at - timedelta(milliseconds=job.duration_ms or 0)
        changed_at = self.subscription.updated_at
        return changed_at if changed_at > sent_at else None


def _requests(saga: Saga) -> list[DeliveryRequest]:
    rows = list(DeliveryRequest.objects.filter(saga_id=saga.pk).order_by("-id")[:MAX_REQUESTS])
    if saga.abandoned_by_id is not None and saga.abandoned_by_id not in {row.pk for row in rows}:
        rows += DeliveryRequest.objects.filter(pk=saga.abandoned_by_id)
    return rows
