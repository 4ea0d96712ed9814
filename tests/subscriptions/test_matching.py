"""Matching by customer and event type, compared with a naive model."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subscriptions import patterns
from subscriptions.matching import NO_CUSTOMER, RoutableSubscription, matching, once_per_endpoint

CUSTOMERS = [NO_CUSTOMER, "acme", "Acme", "globex"]
TYPES = ["order.created", "Order.created", "order", "order.created.eu", "order.", ".order", "a..b", "order-created"]
PATTERNS = [*TYPES, "*", "order.*", "Order.*", "order.created.*", "a.*", "a..*", ".*", "order-created.*"]


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
    own = (row for row in rows if row.customer in (NO_CUSTOMER, customer))
    return {row.id for row in own if is_match(row.event_type, event_type)}


def is_match(pattern: str, event_type: str) -> bool:
    if pattern.endswith("*"):
        return event_type.startswith(pattern[:-1]) and event_type != pattern[:-1]
    return pattern == event_type


rows = st.lists(st.tuples(st.sampled_from(CUSTOMERS), st.sampled_from(PATTERNS)), max_size=12).map(
    lambda pairs: [Row(number, *pair) for number, pair in enumerate(pairs, start=1)]
)


@given(rows, st.sampled_from(CUSTOMERS), st.sampled_from(TYPES))
def test_an_event_matches_the_subscriptions_of_its_customer_and_those_for_all(
    subscriptions: list[Row], customer: str, event_type: str
):
    found = [match.id for match in matching(index(subscriptions), customer, event_type)]
    assert len(found) == len(set(found))
    assert set(found) == naive(subscriptions, customer, event_type)


@given(st.lists(st.tuples(st.integers(1, 4), st.sampled_from(PATTERNS)), max_size=12), st.sampled_from(TYPES))
def test_of_each_endpoint_the_first_matching_subscription_delivers(subscriptions: list[tuple[int, str]], name: str):
    by_type: dict[str, list[RoutableSubscription]] = defaultdict(list)
    for number, (endpoint, pattern) in enumerate(subscriptions, start=1):
        by_type[pattern].append(RoutableSubscription(number, None, None, None, endpoint_id=endpoint))
    naive_first: dict[int, int] = {}
    for number, (endpoint, pattern) in enumerate(subscriptions, start=1):
        if is_match(pattern, name):
            naive_first.setdefault(endpoint, number)
    chosen = once_per_endpoint(matching({NO_CUSTOMER: by_type}, NO_CUSTOMER, name))
    assert {match.endpoint_id: match.id for match in chosen} == naive_first


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("order.*.*", "order.*"),
        (" order.created ", "order.created"),
        ("**", "*"),
        ("*.*", "*"),
        ("*", "*"),
        ("a.*", "a.*"),
    ],
)
def test_a_pattern_has_one_form(text: str, expected: str):
    assert patterns.normalise(text) == expected
    assert patterns.normalise(expected) == expected


def test_the_cost_of_matching_does_not_grow_with_customers_or_types():
    class Counting(dict[str, Any]):
        looked_up = 0

        def get(self, *args: Any) -> Any:
            Counting.looked_up += 1
            return super().get(*args)

    costs = []
    for count in (1, 1000):
        Counting.looked_up = 0
        by_type = Counting({f"type-{number}.*": [] for number in range(count)})
        matching(Counting({NO_CUSTOMER: by_type, **{str(number): by_type for number in range(count)}}), "0", "type-0.a")
        costs.append(Counting.looked_up)
    assert costs[0] == costs[1] <= 8
