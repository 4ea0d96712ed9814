"""Requests by people: who may make them, that each is made and applied once, and what it does to deliveries."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.core.exceptions import PermissionDenied

from deadletters.models import DeadLetter, Requeue
from sagas import apply_requests as applying
from sagas import requests
from sagas.apply_requests import apply_requests
from sagas.dispatch import dispatch
from sagas.models import ABANDON, KINDS, SEND_AGAIN, SEND_NOW, DeliveryRequest, Saga
from sagas.orchestrator import Orchestrator
from sagas.redeliver import next_generation
from sagas.requests import RequestFilter, request_deliveries, request_delivery, request_matching
from subscriptions.models import Subscription
from tests.conformance import world
from tests.conformance.world import BATCH, TYPE, apply_all
from tests.webhookhub.integrity.support import assert_clean
from tests.webhookhub.stats.agreement import assert_counters_agree
from webhookhub.auditlog.models import Entry
from webhookhub.db import clock

pytestmark = pytest.mark.every_engine

HOUR = timedelta(hours=1)


class Person:
    """Has only the permissions that are named."""

    def __init__(self, *permissions: str, name: str = "ada") -> None:
        self.permissions = permissions
        self.name = name

    def get_username(self) -> str:
        return self.name

    def has_perm(self, perm: str) -> bool:
        return perm in self.permissions


ANYONE = Person(*requests.PERMISSIONS.values(), requests.BULK_PERMISSION, "deadletters.requeue_deadletter")


@pytest.fixture(autouse=True)
def _checked(committed, hub_settings):
    hub_settings(base_delay=HOUR, postpone=HOUR)
    yield
    apply_all()
    world.run_to_end()
    assert_clean()
    assert_counters_agree()


def waiting(*names: str, events: str = "ab") -> list[Saga]:
    """Routed and not dispatched."""
    world.subscribe(*names)
    world.publish_some(*events)
    world.route()
    return list(Saga.objects.order_by("id"))


def retrying() -> list[Saga]:
    """After a failed first attempt."""
    waiting("retry")
    dispatch(BATCH)
    world.deliver()
    world.settle()
    sagas = list(Saga.objects.order_by("id"))
    assert {saga.status for saga in sagas} == {"PendingRetry"}
    return sagas


def ask(kind: str, saga: Saga, **options) -> DeliveryRequest:
    return request_delivery(kind, saga.pk, **{"by": ANYONE, "reason": "why", **options}).request


def reread(row):
    return type(row).objects.get(pk=row.pk)


# Send now


def test_send_now_makes_a_waiting_delivery_due_and_only_that_one():
    first, second = retrying()
    request = ask(SEND_NOW, first)

    apply_all()

    assert (reread(request).changed, reread(request).due_at) == (1, None)
    assert reread(first).next_attempt_at <= clock.now() < reread(second).next_attempt_at
    assert dispatch(BATCH) == 1
    assert (reread(first).status, reread(second).status) == ("InProgress", "PendingRetry")


def test_send_now_of_an_endpoint_makes_all_its_waiting_deliveries_due():
    sagas = retrying()
    world.subscribe("retry-other")
    world.publish_some("c")
    world.route()
    dispatch(BATCH)
    subscription = Subscription.objects.get(callback_url=world.url("retry"))

    request = request_matching(
        SEND_NOW, requests.of_subscription(subscription, whole_endpoint=False), by=ANYONE, reason="it is back"
    ).request
    apply_all()

    assert reread(request).changed == 2
    assert [reread(saga).next_attempt_at <= clock.now() for saga in sagas] == [True, True]


def test_send_now_leaves_a_delivery_that_has_begun():
    [saga] = waiting("retry", events="a")
    Saga.objects.update(next_attempt_at=clock.now() + HOUR)
    request = ask(SEND_NOW, saga)
    Saga.objects.update(next_attempt_at=clock.now())
    dispatch(BATCH)
    before = reread(saga)

    apply_all()

    assert (reread(request).changed, reread(saga).updated_at) == (0, before.updated_at)


# Abandon


def test_an_abandoned_delivery_is_a_dead_letter_with_who_and_why():
    first, second = waiting("ok")
    request = ask(ABANDON, first, reason="customer left")

    apply_all()

    letter = DeadLetter.objects.get()
    assert (letter.saga_id, letter.final_error_code) == (first.pk, "abandoned")
    done = reread(first)
    assert (done.status, done.attempt_count, done.final_error_code) == ("DeadLettered", 0, "abandoned")
    assert (done.abandoned_by.requested_by, done.abandoned_by.reason) == ("ada", "customer left")
    assert (reread(request).changed, reread(request).applied_at is None) == (1, False)
    assert reread(second).status == "Pending"


def test_a_delivery_that_waits_for_a_retry_is_abandoned_with_its_attempts():
    [first, _] = retrying()
    ask(ABANDON, first)

    apply_all()

    assert (reread(first).status, reread(first).attempt_count) == ("DeadLettered", 1)


def test_abandon_by_filter_takes_what_existed_then_and_nothing_else():
    old = waiting("ok", "retry")
    match = [saga for saga in old if saga.subscription.callback_url.endswith("/ok")]
    request = request_matching(
        ABANDON, RequestFilter(subscription_ids={match[0].subscription_id}), by=ANYONE, reason="obsolete"
    ).request
    world.publish_some("later")
    world.route()

    apply_all()

    assert set(DeadLetter.objects.values_list("saga_id", flat=True)) == {saga.pk for saga in match}
    assert reread(request).changed == len(match) == 2
    assert Saga.objects.filter(status="Pending").count() == 4


@pytest.mark.parametrize(
    "conditions",
    [
        {"event_type": "other.type"},
        {"source": "other"},
        {"status": "PendingRetry"},
        {"subscription_ids": {0}},
    ],
)
def test_each_condition_of_the_filter_excludes(conditions):
    waiting("ok")
    request = request_matching(ABANDON, RequestFilter(**conditions), by=ANYONE, reason="obsolete").request

    apply_all()

    assert reread(request).changed == 0
    assert not DeadLetter.objects.exists()


def test_conditions_on_times_and_types_select():
    [first, second] = waiting("ok")
    since, until = first.created_at - HOUR, second.created_at + HOUR
    chosen = RequestFilter(event_type=TYPE, source="default", status="Pending", since=since, until=until)
    assert RequestFilter.from_json(json.dumps(chosen.as_json())) == chosen
    request_matching(ABANDON, chosen, by=ANYONE, reason="obsolete")

    apply_all()

    assert DeadLetter.objects.count() == 2


@pytest.mark.parametrize(("name", "end"), [("ok", "Completed"), ("retry", "DeadLettered"), ("dead", "DeadLettered")])
def test_a_delivery_in_progress_completes_or_is_abandoned_after_its_attempt(name, end, monkeypatch):
    monkeypatch.setattr(applying, "PASS_INTERVAL", timedelta(0))
    [saga] = waiting(name, events="a")
    dispatch(BATCH)
    request = ask(ABANDON, saga)
    assert apply_requests(BATCH) == 1
    assert (reread(saga).status, reread(request).applied_at) == ("InProgress", None)
    world.deliver()
    world.settle()

    apply_requests(BATCH)

    assert (reread(saga).status, reread(saga).attempt_count) == (end, 1)
    assert reread(saga).final_error_code == {"ok": None, "retry": "abandoned", "dead": "http_500"}[name]
    assert reread(request).changed == (name == "retry")
    assert reread(request).applied_at is not None


def test_no_attempt_begins_after_the_mark(monkeypatch):
    """A failed attempt's retry is due at once, but the delivery has been given up in the meantime."""
    monkeypatch.setattr(applying, "PASS_INTERVAL", timedelta(0))
    [saga] = waiting("retry", events="a")
    dispatch(BATCH)
    ask(ABANDON, saga)
    apply_requests(BATCH)
    world.deliver()
    world.settle()
    Saga.objects.update(next_attempt_at=clock.now())

    dispatch(BATCH)

    assert reread(saga).status == "PendingRetry"
    apply_requests(BATCH)
    assert reread(saga).status == "DeadLettered"


def test_a_large_request_is_applied_in_batches_beside_dispatch():
    waiting("ok", events="abcdefg")
    request = request_matching(ABANDON, RequestFilter(event_type=TYPE), by=ANYONE, reason="obsolete").request

    for done in (3, 6, 7):
        assert apply_requests(3) == 1
        assert (reread(request).changed, DeadLetter.objects.count()) == (done, done)
    apply_all()
    assert (reread(request).batches, reread(request).applied_at is None) == (3, False)


@pytest.mark.parametrize("kind", [SEND_NOW, ABANDON])
def test_a_turn_changes_a_bounded_number_of_deliveries(kind, monkeypatch):
    monkeypatch.setattr(applying, "MAX_CHANGED", 2)
    waiting("ok", events="abcde")
    Saga.objects.update(next_attempt_at=clock.now() + HOUR)
    request = request_matching(kind, RequestFilter(event_type=TYPE), by=ANYONE, reason="why").request

    for done in (2, 4, 5):
        apply_requests(BATCH)
        assert reread(request).changed == done
    assert reread(request).applied_at is not None


def test_two_requests_take_turns():
    waiting("ok", events="abcd")
    first = request_matching(ABANDON, RequestFilter(event_type=TYPE), by=ANYONE, reason="obsolete").request
    second = request_matching(ABANDON, RequestFilter(source="other"), by=ANYONE, reason="obsolete").request

    for _ in range(3):
        apply_requests(1)

    assert reread(first).batches >= 1
    assert reread(second).batches >= 1


def test_an_abandoned_delivery_can_be_sent_again():
    [saga] = waiting("ok", events="a")
    ask(ABANDON, saga)
    apply_all()

    ask(SEND_AGAIN, saga, reason="after all")
    apply_all()
    world.run_to_end()

    assert list(Saga.objects.order_by("id").values_list("generation", "status")) == [
        (0, "DeadLettered"),
        (1, "Completed"),
    ]


# Send again


@pytest.mark.parametrize("name", ["ok", "dead"])
def test_send_again_creates_the_next_generation_once(name):
    [saga] = waiting(name, events="a")
    world.run_to_end()
    request = ask(SEND_AGAIN, saga, reason="they lost it")

    apply_all()

    new = Saga.objects.get(pk=next_generation(saga) or 0)
    assert (new.generation, new.status, reread(request).changed) == (1, "Pending", 1)
    records = list(Requeue.objects.values_list("requested_by", "reason"))
    assert records == ([] if name == "ok" else [("ada", "they lost it")])
    with pytest.raises(requests.WrongStatus, match=f"sent again as delivery {new.pk}"):
        ask(SEND_AGAIN, saga)


def test_of_two_requests_to_send_again_the_second_changes_nothing():
    [saga] = waiting("ok", events="a")
    world.run_to_end()
    pair = [ask(SEND_AGAIN, saga, reason=reason) for reason in ("one", "two")]

    apply_all()

    assert Saga.objects.count() == 2
    assert sorted(reread(request).changed for request in pair) == [0, 1]


# Who may


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_has_its_own_permission(kind):
    [saga] = waiting("ok", events="a")
    if kind == SEND_AGAIN:
        world.run_to_end()
    others = Person(*(name for other, name in requests.PERMISSIONS.items() if other != kind), requests.BULK_PERMISSION)

    with pytest.raises(PermissionDenied):
        ask(kind, saga, by=others)
    assert not DeliveryRequest.objects.exists()

    ask(kind, saga, by=Person(requests.PERMISSIONS[kind]))


@pytest.mark.parametrize("kind", [SEND_NOW, ABANDON])
def test_more_than_one_delivery_needs_the_permission_for_many(kind):
    sagas = waiting("ok")
    one = Person(requests.PERMISSIONS[kind])

    with pytest.raises(PermissionDenied):
        request_matching(kind, RequestFilter(event_type=TYPE), by=one, reason="why")
    with pytest.raises(PermissionDenied):
        request_deliveries(kind, [saga.pk for saga in sagas], by=one, reason="why")
    assert not DeliveryRequest.objects.exists()


def test_a_dead_letter_needs_the_permission_to_requeue():
    [saga] = waiting("dead", events="a")
    world.run_to_end()

    with pytest.raises(PermissionDenied):
        ask(SEND_AGAIN, saga, by=Person("sagas.send_again"))
    ask(SEND_AGAIN, saga, by=Person("sagas.send_again", "deadletters.requeue_deadletter"))


# What is refused


def test_a_request_needs_a_reason_and_a_delivery_in_a_fitting_status():
    [saga] = waiting("ok", events="a")
    for text in ("", "   ", "x" * 501, "a\x00b"):
        with pytest.raises(requests.InvalidRequest):
            ask(ABANDON, saga, reason=text)
    with pytest.raises(requests.MissingDelivery):
        request_delivery(ABANDON, saga.pk + 1, by=ANYONE, reason="why")
    with pytest.raises(requests.WrongStatus):
        ask(SEND_AGAIN, saga)
    world.run_to_end()
    for kind in (SEND_NOW, ABANDON):
        with pytest.raises(requests.WrongStatus):
            ask(kind, saga)
    with pytest.raises(requests.NoConditions):
        request_matching(ABANDON, RequestFilter(), by=ANYONE, reason="why")
    assert not DeliveryRequest.objects.exists()
    assert not Entry.objects.filter(action__startswith="saga.").exists()


# Once


def test_the_same_token_is_the_same_request():
    [saga, other] = waiting("ok")
    first = request_delivery(ABANDON, saga.pk, by=ANYONE, reason="why", token="t")
    apply_all()

    again = request_delivery(ABANDON, saga.pk, by=ANYONE, reason="why", token="t")

    assert (first.created, again.created, again.request.pk) == (True, False, first.request.pk)
    assert Entry.objects.filter(action="saga.abandon").count() == 1
    bob = Person(*ANYONE.permissions, name="bob")
    for kind, pk, by in [(ABANDON, other.pk, ANYONE), (SEND_NOW, other.pk, ANYONE), (ABANDON, saga.pk, bob)]:
        with pytest.raises(requests.TokenUsed):
            request_delivery(kind, pk, by=by, reason="why", token="t")


def test_selected_deliveries_are_requested_together_or_not_at_all():
    sagas = waiting("ok")
    with pytest.raises(requests.MissingDelivery):
        request_deliveries(ABANDON, [sagas[0].pk, 10**9], by=ANYONE, reason="why")
    assert not DeliveryRequest.objects.exists()

    for created in (True, False):
        results = request_deliveries(ABANDON, [saga.pk for saga in sagas], by=ANYONE, reason="why", token="t")
        assert [(result.request.saga_id, result.created) for result in results] == [
            (saga.pk, created) for saga in sagas
        ]


def test_the_audit_log_says_who_why_and_what():
    [saga, _] = waiting("ok")
    one = ask(SEND_NOW, saga, reason="hurry")
    many = request_matching(ABANDON, RequestFilter(event_type=TYPE), by=ANYONE, reason="obsolete").request

    entries = Entry.objects.filter(action__startswith="saga.").order_by("id")

    assert [(entry.actor, entry.action, entry.object_id, entry.reason) for entry in entries] == [
        ("ada", "saga.send_now", saga.pk, "hurry"),
        ("ada", "saga.abandon", None, "obsolete"),
    ]
    assert [json.loads(entry.details) for entry in entries] == [
        {"request": str(one.uid)},
        {"request": str(many.uid), "filter": {"event_type": TYPE}},
    ]


# How many


def test_the_preview_counts_what_waits_and_what_is_in_progress(monkeypatch):
    waiting("ok", events="abc")
    dispatch(1)
    monkeypatch.setattr(requests, "WINDOW", 2)

    assert requests.preview(RequestFilter(event_type=TYPE)) == requests.Preview(2, 1, more=False)
    monkeypatch.setattr(requests, "MAX_COUNTED", 1)
    assert requests.preview(RequestFilter(event_type=TYPE)) == requests.Preview(1, 1, more=True)
    assert requests.preview(RequestFilter(source="other")) == requests.Preview(0, 0, more=False)


def test_the_orchestrator_applies_requests_when_it_polls():
    [saga] = waiting("ok", events="a")
    ask(ABANDON, saga)

    assert Orchestrator().run(BATCH) > 0

    assert reread(saga).status == "DeadLettered"
