"""Filters on labels, compared with a naive model, and the errors of invalid ones."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subscriptions import filters
from subscriptions.filters import InvalidFilter

NAMES = st.sampled_from(["region", "tier", "sku", "a.b-c_1"])
# Few, so that conditions often hold.
VALUES = st.sampled_from(["", "e", "eu", "eu-1", "us", "EU", "é", "😀x"])
LABELS = st.dictionaries(NAMES, VALUES)


@st.composite
def simple(draw: st.DrawFn) -> dict[str, Any]:
    kind = draw(st.sampled_from(["equals", "one_of", "prefix", "exists"]))
    value = {
        "equals": VALUES,
        "one_of": st.lists(VALUES, min_size=1, max_size=4),
        "prefix": VALUES.filter(bool),
        "exists": st.just(True),
    }[kind]
    return {"label": draw(NAMES), kind: draw(value)}


CONDITIONS = st.lists(simple() | simple().map(lambda condition: {"not": condition}), max_size=5)


def holds(condition: dict[str, Any], labels: dict[str, str]) -> bool:
    """Word for word what the documentation says."""
    if "not" in condition:
        return not holds(condition["not"], labels)
    if condition["label"] not in labels:
        return False
    value = labels[condition["label"]]
    if "equals" in condition:
        return bool(value == condition["equals"])
    if "one_of" in condition:
        return any(value == item for item in condition["one_of"])
    if "prefix" in condition:
        return bool(value[: len(condition["prefix"])] == condition["prefix"])
    return True


@given(CONDITIONS, LABELS)
def test_a_filter_accepts_what_the_naive_model_accepts(conditions: list[dict[str, Any]], labels: dict[str, str]):
    parsed = filters.parse(conditions)
    accepted = True if parsed is None else parsed.accepts(labels)
    assert accepted is all(holds(condition, labels) for condition in conditions)


@given(CONDITIONS)
def test_a_stored_filter_is_the_same_filter(conditions: list[dict[str, Any]]):
    parsed = filters.parse(conditions)
    if parsed is None:
        assert conditions == []
    else:
        assert parsed.as_json() == conditions
        assert filters.stored(str(parsed)) == parsed


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["label", "not", "equals", "one_of", "x"]), inner),
)


@given(JSON)
def test_any_document_is_a_filter_or_refused_as_one(document: Any):
    with suppress(InvalidFilter):
        filters.parse(document)


EQUALS = {"label": "region", "equals": "eu"}


@pytest.mark.parametrize(
    ("conditions", "place"),
    [
        ({}, ""),
        ("x", ""),
        ([EQUALS] * 17, ""),
        ([EQUALS, 7], "[1]"),
        ([{}], "[0]"),
        ([{"label": "region"}], "[0]"),
        ([{"label": "region", "equals": "a", "prefix": "b"}], "[0]"),
        ([{"label": "region", "equals": "a", "more": "b"}], "[0]"),
        ([{"label": "region", "like": "a"}], "[0]"),
        ([{"equals": "a"}], "[0]"),
        ([{"label": "Region", "equals": "a"}], "[0].label"),
        ([{"label": 7, "equals": "a"}], "[0].label"),
        ([{"label": "region", "equals": 7}], "[0].equals"),
        ([{"label": "region", "equals": "x" * 257}], "[0].equals"),
        ([{"label": "region", "one_of": []}], "[0].one_of"),
        ([{"label": "region", "one_of": ["a"] * 101}], "[0].one_of"),
        ([{"label": "region", "one_of": ["a", None]}], "[0].one_of[1]"),
        ([{"label": "region", "prefix": ""}], "[0].prefix"),
        ([{"label": "region", "exists": False}], "[0].exists"),
        ([{"label": "region", "exists": 1}], "[0].exists"),
        ([EQUALS, {"not": {"label": "region", "equals": 7}}], "[1].not.equals"),
        ([{"not": {"not": EQUALS}}], "[0].not"),
        ([{"not": EQUALS, "label": "a"}], "[0]"),
        ([{"not": []}], "[0].not"),
    ],
)
def test_an_error_names_the_condition(conditions: Any, place: str):
    with pytest.raises(InvalidFilter) as refused:
        filters.parse(conditions)
    assert refused.value.place == place
    assert refused.value.why


@pytest.mark.parametrize("text", ["", "{", "7", "[" * 100_000, '[{"label": "region"}]'])
def test_a_stored_text_that_is_no_filter_accepts_nothing(text: str):
    stored = filters.stored(text)
    assert stored is not None
    assert not stored.accepts({"region": "eu"})
    assert not stored.accepts({})
