"""No crash leaves a finished action without its entry."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from itertools import count

import pytest
from django.contrib.auth.models import Group, User

from api import keys
from api.models import ApiKey
from deadletters.bulk_requeue import requeue_matching
from deadletters.filters import DeadLetterFilter
from deadletters.models import Requeue
from deadletters.requeue import requeue
from events.backfill import backfill
from sagas.models import Saga
from subscriptions.models import Subscription
from tests.conformance.crashes import interrupted
from tests.conformance.test_crash_points_elsewhere import to_change, to_create, to_rotate, to_verify
from tests.conftest import empty_tables
from tests.factories import EventFactory, SubscriptionFactory
from tests.support import rows
from tools.demo.endpoint import HttpsEndpoint
from webhookhub.auditlog import actions
from webhookhub.auditlog.models import Entry
from webhookhub.db import clock
from webhookhub.terminal import Operator

pytestmark = [pytest.mark.every_engine, pytest.mark.usefixtures("committed")]
Work = Callable[[], object]
numbers = count(1)


def check(prepare: Callable[[], Work], action: str, done: Callable[[], bool]) -> None:
    """At each crash point the action is recorded or not done; without a crash it is both."""
    recorded = Entry.objects.filter(action=action)
    undone = 0
    for point, _ in interrupted(prepare):
        assert recorded.exists() or not done(), point
        undone += not done()
    assert undone
    prepare()()
    assert done()
    assert recorded.count() == 1


def on_empty_tables(prepare: Callable[[], Work]) -> Callable[[], Work]:
    def prepared() -> Work:
        empty_tables()
        return prepare()

    return prepared


def to_requeue() -> Work:
    ids = [rows.dead_letter(text).pk for text in ("one", "two")]
    return lambda: requeue(ids, by=Operator(), reason="r")


def is_any_requeued() -> bool:
    return Requeue.objects.exists() or Saga.objects.filter(generation=1).exists()


def to_requeue_matching() -> Work:
    rows.dead_letter("one")
    return lambda: requeue_matching(DeadLetterFilter(), by=Operator(), reason="r", limit=5)


def to_backfill() -> Work:
    subscription = SubscriptionFactory.create()
    EventFactory.create(created_at=clock.now() - timedelta(minutes=1))
    return lambda: backfill(subscription.pk, clock.now() - timedelta(hours=1))


def to_make_a_key() -> Work:
    return lambda: keys.create(f"key {next(numbers)}", ["read"], by="anna")


def to_revoke() -> Work:
    key = keys.create(f"key {next(numbers)}", ["read"], by="anna")[0]
    return lambda: keys.revoke(key, by="anna")


def to_create_user() -> Work:
    return lambda: User.objects.create_user(f"user {next(numbers)}")


def to_add_to_group() -> Work:
    user = User.objects.create_user(f"user {next(numbers)}")
    return lambda: user.groups.add(Group.objects.get(name="support"))


@pytest.mark.parametrize(
    ("prepare", "action", "done"),
    [
        (to_requeue, actions.REQUEUE_MANY, is_any_requeued),
        (to_requeue_matching, actions.REQUEUE_MATCHING, lambda: Requeue.objects.exists()),
        (to_backfill, actions.BACKFILL, lambda: Saga.objects.exists()),
        (to_rotate, actions.ROTATE, lambda: Subscription.objects.exclude(previous_secret="").exists()),
        (to_create, actions.SUBSCRIBE, lambda: Subscription.objects.exists()),
        (to_change, actions.EDIT, lambda: Subscription.objects.filter(description="new").exists()),
        (to_make_a_key, actions.CREATE_KEY, lambda: ApiKey.objects.exists()),
        (to_revoke, actions.REVOKE_KEY, lambda: ApiKey.objects.filter(revoked_at__isnull=False).exists()),
        (to_create_user, actions.CREATE_USER, lambda: User.objects.exists()),
        (to_add_to_group, actions.CHANGE_RIGHTS, lambda: User.objects.filter(groups__name="support").exists()),
    ],
)
def test_no_action_is_without_its_entry(prepare: Callable[[], Work], action: str, done: Callable[[], bool]):
    check(on_empty_tables(prepare), action, done)


def test_no_verification_is_without_its_entry(endpoint: HttpsEndpoint):
    prepare = to_verify(endpoint)
    check(on_empty_tables(prepare), actions.VERIFY, lambda: Subscription.objects.filter(verified=True).exists())
