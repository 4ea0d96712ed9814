"""Whatever may happen to the hub, in any order: each rule is one of its steps, done to the product and to the model."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

import pytest
from django.db import connection
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from deadletters.requeue import NotEnded, requeue
from events.errors import EventConflict
from events.intake import publish
from events.routing import Router
from jobs.cleaner import clean
from jobs.lease import LeasedJob, lease, release
from jobs.report import Report, report
from sagas.apply_requests import apply_requests
from sagas.dispatch import admit, dispatch
from sagas.flow import Flow
from sagas.models import ABANDON, KINDS, SEND_NOW
from sagas.orchestrator import pending_work
from sagas.requests import RequestFilter, WrongStatus, request_delivery, request_matching
from sagas.settle import Settler
from subscriptions.models import Subscription
from tests.conformance.world import TYPE, Staff
from tests.support import guards
from webhookhub.db import vendors

from . import model
from .model import Job, Model, finish
from .product import Clock, Producer, Tables, dying_after, expected

# What some of five hundred examples must have come to, or the machine shows less than it says.
EXPECTED = {
    *("Pending", "InProgress", "PendingRetry", "Completed", "DeadLettered", "attempt 3", "generation 1"),
    *("lease reset", "result not applied", "stale worker", "open transaction", "parked"),
    *("send_now", "abandon", "send_again", "InProgress abandoned", "DeadLettered abandoned"),
}
# By subscription: attempts, the first included.
LIMITS = (1, 2, 3)
MOST_EVENTS = 6
ALL = 500

batches = st.sampled_from([ALL, ALL, 2, 1])
deaths = st.sampled_from([None, None, None, 0, 1, 2, 3])
picks = st.integers(0, 11)
errors = st.sampled_from(["http_500", "timeout"])
waits = st.sampled_from([None, None, timedelta(seconds=1), timedelta(seconds=25), timedelta(seconds=90)])


class Hand:
    """What a worker believes to hold, however long ago it was taken."""

    def __init__(self, worker: str, pairs: list[tuple[LeasedJob, Job]]) -> None:
        self.worker = worker
        self.pairs = pairs


class HubMachine(RuleBasedStateMachine):
    # Made once and used by one example after the other.
    clock: ClassVar[Clock]
    subscription_ids: ClassVar[list[int]]
    producers: ClassVar[list[Producer]]
    verifications: ClassVar[int] = 0
    reached: ClassVar[set[str]] = set()  # what some example has come to

    def __init__(self) -> None:
        super().__init__()
        self.tables = Tables()
        self.tables.subscription_numbers = {id: number for number, id in enumerate(self.subscription_ids)}
        self.model = Model(self.clock.now, [model.Subscription(n, limit) for n, limit in enumerate(LIMITS)])
        self.hands: list[Hand] = []
        self.published = 0
        self.leases = 0
        self.router = Router()
        self.settler = Settler()
        self.settler_has_read: dict[str, int] = {}

    # What may happen when: the embedded database has one writer, so nothing else writes beside an open transaction.

    def may_write(self) -> bool:
        return vendors.is_server(connection) or not any(producer.is_open for producer in self.producers)

    def some_are_open(self) -> bool:
        return any(producer.is_open for producer in self.producers)

    def may_hold(self) -> bool:
        return self.published < MOST_EVENTS

    # Producers

    @initialize(count=st.integers(1, 3))
    def begin(self, count: int) -> None:
        for _ in range(count):
            self.publish()

    @precondition(lambda self: self.may_write() and self.published < MOST_EVENTS)
    @rule()
    def publish(self) -> None:
        number = self.new_event()
        stored = publish(TYPE, {"n": number}, external_id=self.external_id(number))
        assert stored.created
        self.tables.event_ids[number] = stored.id
        self.model.commit([number])

    @precondition(lambda self: self.may_write() and self.model.events)
    @rule(pick=picks, same=st.booleans())
    def publish_again(self, pick: int, same: bool) -> None:
        number = self.model.events[pick % len(self.model.events)]
        try:
            stored = publish(TYPE, {"n": number if same else -1}, external_id=self.external_id(number))
        except EventConflict:
            assert not same
        else:
            assert same
            assert (stored.created, stored.id) == (False, self.tables.event_ids[number])

    @precondition(may_hold)
    @rule(pick=picks)
    def publish_and_hold(self, pick: int) -> None:
        """The transaction stays open; another one may be at work beside it where the database allows it."""
        producer = self.producers[pick % 2 if vendors.is_server(connection) else 0]
        number = self.new_event()
        self.tables.event_ids[number] = producer.publish(TYPE, number, self.external_id(number))

    @precondition(some_are_open)
    @rule(pick=picks, commit=st.booleans())
    def end_a_held_transaction(self, pick: int, commit: bool) -> None:
        held = [producer for producer in self.producers if producer.is_open]
        numbers = held[pick % len(held)].end(commit=commit)
        if commit:
            self.model.commit(numbers)
        else:
            for number in numbers:
                del self.tables.event_ids[number]

    # The loops

    @precondition(may_write)
    @rule(batch=batches, dies=deaths)
    def route(self, batch: int, dies: int | None) -> None:
        if dying_after(dies, lambda: self.router.route(batch)):
            self.router = Router()  # and its transaction is gone with all it did
        else:
            self.model.route(batch)

    @precondition(may_write)
    @rule(batch=batches, dies=deaths)
    def dispatch(self, batch: int, dies: int | None) -> None:
        died = dying_after(dies, lambda: dispatch(batch, pending_work()[0]))
        finish(self.model.dispatch(batch), dies if died else None)

    @precondition(may_write)
    @rule(batch=batches, dies=deaths)
    def admit(self, batch: int, dies: int | None) -> None:
        self.reached.update("parked" for saga in self.model.sagas if saga.is_parked)
        died = dying_after(dies, lambda: admit(batch, Flow()))
        finish(self.model.admit(batch), dies if died else None)

    @precondition(may_write)
    @rule(limit=batches, dies=deaths)
    def lease(self, limit: int, dies: int | None) -> None:
        self.leases += 1
        worker, taken = f"worker-{self.leases}", list[LeasedJob]()
        if dying_after(dies, lambda: taken.extend(lease(worker, limit))):
            return  # the transaction is gone
        jobs = self.model.ready(limit)
        assert len(taken) == len(jobs)
        for mine, job in zip(taken, jobs, strict=True):
            subscription = job.saga.subscription
            assert (mine.attempt_no, mine.lease_resets) == (job.attempt_no, job.resets)
            assert (mine.active, mine.verified) == (subscription.active, subscription.verified)
        if jobs:
            self.model.lease(jobs, worker, taken[0].lease_token)
            self.hands = [*self.hands[-4:], Hand(worker, list(zip(taken, jobs, strict=True)))]

    @precondition(may_write)
    @rule(wait=st.booleans())
    def begin_attempts(self, wait: bool) -> None:
        """The way from an event to a worker's hands, which by single steps would seldom be gone to its end."""
        if wait:
            self.tick(model.MAX_DELAY)
        self.route(ALL, None)
        self.dispatch(ALL, None)
        self.admit(ALL, None)
        self.lease(ALL, None)

    @precondition(may_write)
    @rule(outcomes=st.lists(st.one_of(st.none(), errors), min_size=1, max_size=2))
    def go_on_undisturbed(self, outcomes: list[str | None]) -> None:
        """Whole attempts one after the other, so that what comes next meets deliveries of any age."""
        for error in outcomes:
            self.begin_attempts(wait=True)
            if self.hands:
                self.tell(self.hands[-1], error, None)
            self.settle_all()

    @precondition(lambda self: self.may_write() and self.hands)
    @rule(pick=picks, settled=st.booleans())
    def deliver(self, pick: int, settled: bool) -> None:
        self.tell(self.hands[-1 - pick % len(self.hands)], None, None)
        if settled:
            self.settle_all()

    @precondition(lambda self: self.may_write() and self.hands)
    @rule(pick=picks, error=errors, wait=waits, settled=st.booleans())
    def fail(self, pick: int, error: str, wait: timedelta | None, settled: bool) -> None:
        self.tell(self.hands[-1 - pick % len(self.hands)], error, wait)
        if settled:
            self.settle_all()

    @precondition(lambda self: self.may_write() and self.stale())
    @rule(pick=picks, error=st.one_of(st.none(), errors))
    def zombie_reports(self, pick: int, error: str | None) -> None:
        """A worker that has lost its lease wakes up, and is not believed."""
        stale = self.stale()
        hand, place = stale[pick % len(stale)]
        before = expected(self.model)
        self.tell(Hand(hand.worker, [hand.pairs[place]]), error, None)
        assert expected(self.model) == before

    @precondition(lambda self: self.may_write() and self.hands)
    @rule(pick=picks, delay=st.sampled_from([model.POSTPONE, timedelta(seconds=2)]))
    def give_back(self, pick: int, delay: timedelta) -> None:
        hand = self.hands[pick % len(self.hands)]
        release(hand.worker, [(mine, delay) for mine, _ in hand.pairs])
        for mine, job in hand.pairs:
            self.model.release(job, mine.lease_token, delay)

    @precondition(may_write)
    @rule(batch=batches, dies=deaths)
    def settle(self, batch: int, dies: int | None) -> None:
        died = dying_after(dies, lambda: self.settler.settle(batch, pending_work()[1]))
        finish(self.model.settle(batch, self.settler_has_read), dies if died else None)
        if died:
            self.settler, self.settler_has_read = Settler(), {}

    def settle_all(self) -> None:
        """By an orchestrator that has just been started."""
        self.settler, self.settler_has_read = Settler(), {}
        self.settle(ALL, None)

    @precondition(may_write)
    @rule(batch=batches)
    def clean(self, batch: int) -> None:
        assert clean(batch) == self.model.clean(batch)

    @precondition(may_write)
    @rule()
    def expire(self) -> None:
        """Every lease runs out, and the cleaner comes."""
        self.tick(model.LEASE + timedelta(microseconds=1))
        self.clean(ALL)

    @precondition(lambda self: self.may_write() and self.on_their_last_attempt())
    @rule(pick=picks, error=errors)
    def create_dead_letters(self, pick: int, error: str) -> None:
        last = self.on_their_last_attempt()
        hand, place = last[pick % len(last)]
        saga = hand.pairs[place][1].saga
        self.tell(Hand(hand.worker, [hand.pairs[place]]), error, None)
        self.settle_all()
        assert (saga.status, saga.attempts) == ("DeadLettered", saga.limit)
        assert self.model.letter(saga)

    # People

    @precondition(lambda self: self.may_write() and self.model.letters)
    @rule(pick=picks, who=st.sampled_from(["ada", "bob"]), dies=deaths)
    def requeue(self, pick: int, who: str, dies: int | None) -> None:
        place = pick % len(self.model.letters)
        letter, before = self.model.letters[place], self.model.letters[place].requeued_by
        answers: list[Any] = []
        ids = [self.tables.letter_ids[place]]
        if letter.saga.status != "DeadLettered":
            with pytest.raises(NotEnded):
                requeue(ids, by=Staff(who), reason="again")
            return
        died = dying_after(
            dies, lambda: answers.extend(requeue(ids, by=Staff(who), reason="again", allow_waiting=True))
        )
        finish(self.model.requeue(letter, who), dies if died else None)
        if not died:
            assert (answers[0].created, answers[0].requested_by) == (before is None, before or who)

    @precondition(lambda self: self.may_write() and self.model.sagas)
    @rule(pick=picks, kind=st.sampled_from(KINDS), who=st.sampled_from(["ada", "bob"]), dies=deaths)
    def ask(self, pick: int, kind: str, who: str, dies: int | None) -> None:
        """A request for one delivery."""
        place = pick % len(self.model.sagas)
        saga, pk = self.model.sagas[place], self.tables.saga_ids[place]
        if not self.model.may_request(kind, saga):
            with pytest.raises(WrongStatus):
                request_delivery(kind, pk, by=Staff(who), reason="why")
        elif not dying_after(dies, lambda: request_delivery(kind, pk, by=Staff(who), reason="why")) or dies:
            self.model.request(kind, who, saga, None)

    @precondition(may_write)
    @rule(pick=picks, kind=st.sampled_from([SEND_NOW, ABANDON]))
    def ask_for_all(self, pick: int, kind: str) -> None:
        """A request for all open deliveries of a subscription."""
        subscription = self.model.subscriptions[pick % len(LIMITS)]
        chosen = RequestFilter(subscription_ids={self.subscription_ids[subscription.number]})
        request_matching(kind, chosen, by=Staff("ada"), reason="why")
        self.model.request(kind, "ada", None, subscription)

    @precondition(lambda self: self.may_write() and any(request.due_at for request in self.model.requests))
    @rule(batch=batches, dies=deaths)
    def apply(self, batch: int, dies: int | None) -> None:
        died = dying_after(dies, lambda: apply_requests(batch))
        finish(self.model.apply(batch), dies if died else None)

    def apply_all(self) -> None:
        for _ in range(1 + sum(request.due_at is not None for request in self.model.requests)):
            self.apply(ALL, None)

    @precondition(may_write)
    @rule(pick=picks, verified=st.booleans())
    def switch(self, pick: int, verified: bool) -> None:
        """Off, unverified, or on again."""
        subscription = self.model.subscriptions[pick % len(LIMITS)]
        rows = Subscription.objects.filter(id=self.subscription_ids[subscription.number])
        if verified:
            subscription.verified = not subscription.verified
            rows.update(verified=subscription.verified, verification_at=self.new_moment())
        else:
            subscription.active = not subscription.active
            rows.update(active=subscription.active)

    @rule(seconds=st.sampled_from([1, 5, 10, 15, 30, 60]))
    def let_time_pass(self, seconds: int) -> None:
        self.tick(timedelta(seconds=seconds))

    # What must hold after each of them

    @invariant()
    def the_tables_hold_what_the_model_says(self) -> None:
        assert self.tables.stored() == expected(self.model)

    def teardown(self) -> None:
        try:
            self.end()
            self.the_tables_hold_what_the_model_says()
        finally:
            for producer in self.producers:
                producer.roll_back()
            # No legal step ends what an example that has failed may leave behind.
            with guards.switched_off():
                self.tables.put_to_rest()
            Subscription.objects.update(active=True, verified=True, verification_at=self.new_moment())

    def end(self) -> None:
        """Whatever has happened: when all goes well from now on, everything ends."""
        self.note()
        for producer in self.producers:
            if producer.is_open:
                self.model.commit(producer.end(commit=True))
        for subscription in self.model.subscriptions:
            if not subscription.verified:
                self.switch(subscription.number, True)
            if not subscription.active:
                self.switch(subscription.number, False)
        for _ in range(3 + 2 * MOST_EVENTS):  # parked deliveries are admitted two at a time
            if self.model.at_rest():
                break
            self.expire()
            self.begin_attempts(wait=False)
            if self.hands:
                self.tell(self.hands[-1], None, None)
            self.settle_all()
            self.tick(model.PASS_INTERVAL)
            self.apply_all()
        assert self.model.at_rest()

    def note(self) -> None:
        self.reached.update(saga.status for saga in self.model.sagas)
        self.reached.update(f"attempt {job.attempt_no}" for job in self.model.jobs)
        self.reached.update(f"generation {saga.generation}" for saga in self.model.sagas)
        self.reached.update("lease reset" for job in self.model.jobs if job.resets)
        self.reached.update("result not applied" for job in self.model.jobs if job.finished_at and not job.settled)
        self.reached.update("stale worker" for _ in self.stale())
        self.reached.update(request.kind for request in self.model.requests if request.changed)
        self.reached.update(f"{saga.status} abandoned" for saga in self.model.sagas if saga.abandoned_by)
        self.reached.update("open transaction" for producer in self.producers if producer.is_open)

    # Helpers

    @classmethod
    def new_moment(cls) -> datetime:
        """Unique: a verification is identified by its time."""
        cls.verifications += 1
        return datetime(2030, 1, 1, tzinfo=UTC) + timedelta(seconds=cls.verifications)

    def external_id(self, number: int) -> str:
        return f"{self.tables.first_event}-{number}"

    def new_event(self) -> int:
        self.published += 1
        return self.published

    def tick(self, duration: timedelta) -> None:
        self.clock.advance(duration)
        self.model.now = self.clock.now

    def tell(self, hand: Hand, error: str | None, wait: timedelta | None) -> None:
        status = 500 if error else 204
        accepted = report(hand.worker, [Report(mine, error, status, retry_after=wait) for mine, _ in hand.pairs])
        assert accepted == sum(self.model.report(job, mine.lease_token, error, wait) for mine, job in hand.pairs)

    def stale(self) -> list[tuple[Hand, int]]:
        return [
            (hand, place)
            for hand in self.hands
            for place, (mine, job) in enumerate(hand.pairs)
            if not self.model.held(job, mine.lease_token)
        ]

    def on_their_last_attempt(self) -> list[tuple[Hand, int]]:
        return [
            (hand, place)
            for hand in self.hands
            for place, (mine, job) in enumerate(hand.pairs)
            if self.model.held(job, mine.lease_token)
            and job.saga.status == "InProgress"
            and job.attempt_no == job.saga.limit
        ]
