"""Adding to rows that may exist, and counting only new rows."""

from __future__ import annotations

from datetime import timedelta

import pytest

from events.backfill import backfill
from sagas.models import Saga
from tests.conformance import world
from tests.conformance.rivals import together
from webhookhub.db import clock
from webhookhub.db.bulk import add_up
from webhookhub.stats import counters
from webhookhub.stats.counters import SHARDS, own_shard
from webhookhub.stats.models import Counter

from .agreement import assert_counters_agree

pytestmark = pytest.mark.every_engine

KEY = ("name", "label", "shard")


def values() -> dict[str, int]:
    return dict(Counter.objects.order_by("label").values_list("label", "value"))


@pytest.mark.django_db
def test_a_new_row_starts_with_the_added_value():
    add_up(Counter, KEY, ("value",), {("n", "b", 1): (5,), ("n", "a", 1): (3,)})
    add_up(Counter, KEY, ("value",), {("n", "a", 1): (4,), ("n", "c", 1): (1,)})
    assert values() == {"a": 7, "b": 5, "c": 1}


@pytest.mark.django_db
def test_a_counter_stops_at_the_largest_number():
    """Another program may have set it so high: that must not stop the loop that counts."""
    largest = 2**63 - 1
    add_up(Counter, KEY, ("value",), {("n", "a", 1): (largest - 1,), ("n", "b", 1): (largest * 16,)})
    for _ in range(2):
        add_up(Counter, KEY, ("value",), {("n", "a", 1): (5,), ("n", "b", 1): (5,)})
    assert values() == {"a": largest, "b": largest}


@pytest.mark.django_db
def test_labels_differ_by_case_and_punctuation():
    label = """Ä' "%s" \\"""
    counters.add({("n", label): 1, ("n", "a"): 1, ("n", "A"): 2})
    counters.add({("n", label): 1})
    assert counters.read() == {("n", label): 2, ("n", "a"): 1, ("n", "A"): 2}


@pytest.mark.django_db
def test_a_counter_is_the_sum_of_its_shards():
    for shard in range(SHARDS):
        add_up(Counter, KEY, ("value",), {("n", "", shard): (shard,)})
    assert counters.read() == {("n", ""): sum(range(SHARDS))}
    assert 0 <= own_shard() < SHARDS


def test_concurrent_additions_in_any_order_lose_nothing(committed: None):
    labels = [f"l{n}" for n in range(30)]

    def add(order: list[str]) -> None:
        for _ in range(20):
            counters.add({("n", label): 1 for label in order})

    together(*[lambda order=order: add(order) for order in (labels, labels[::-1]) * 2])
    assert counters.read() == {("n", label): 80 for label in labels}


@pytest.mark.django_db
def test_a_delivery_that_exists_before_its_event_is_routed_is_counted_once():
    """As a backfill makes it, when it comes before the router."""
    world.subscribe("ok", "retry")
    world.publish_some("a", "b")
    world.route()
    world.publish_some("c")
    first = Saga.objects.earliest("id")
    for created in (1, 0):
        assert backfill(first.subscription_id, clock.now() - timedelta(hours=1)).created == created
    assert counters.read()["deliveries", "routed"] == 4  # the router counts the fifth with its event
    world.route()
    assert_counted(6)
    assert_counters_agree()


def assert_counted(deliveries: int) -> None:
    assert counters.read()["deliveries", "routed"] == Saga.objects.count() == deliveries
