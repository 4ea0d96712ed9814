"""Matching by customer and event type, compared with a naive model."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from subscriptions.matching import NO_CUSTOMER, RoutableSubscription, matching

CUSTOMERS = [NO_CUSTOMER, "acme", "Acme", "globex"]
TYPES = ["order.created", "Order.created", "order", "order.created.eu"]


@dataclass(frozen=True)
class Row:
    id: int
    customer: str
    event_type: str


def index(rows: list[Row]) -> dict[str, dict[str, list[RoutableSubscription]]]:
    by_customer: dict[str, dict[str, list[RoutableSubscription]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        by_customer[row.customer][row.event_type].append(RoutableSubscription(row.id, None, None, None))
    return by_customer


def naive(rows: list[Row], customer: str, event_type: str) -> set[int]:
    return {row.id for row in rows if row.event_type == event_type and row.customer in (NO_CUSTOMER, customer)}


rows = st.lists(st.tuples(st.sampled_from(CUSTOMERS), st.sampled_from(TYPES)), max_size=12).map(
    lambda pairs: [Row(number, *pair) for number, pair in enumerate(pairs, start=1)]
)


@given(rows, st.sampled_from(CUSTOMERS), st.sampled_from(TYPES))
def test_an_event_matches_the_subscriptions_of_its_customer_and_those_for_all(
    subscriptions: list[Row], customer: str, event_type: str
):
    found = [match.id for match in matching(index(subscriptions), customer, event_type)]
    assert len(found) == len(set(found))
    assert set(found) == naive(subscriptions, customer, event_type)
