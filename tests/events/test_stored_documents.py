"""A payload read back from the database is the same document, and a repeat of it is recognised."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from events.errors import EventConflict
from events.intake import publish
from events.models import Event
from events.payloads import LARGEST_INTEGER, SMALLEST_INTEGER, same_document
from tests.events.test_payloads import nested

pytestmark = [pytest.mark.every_engine, pytest.mark.django_db]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (True, 1),
        (1, 1.0),
        ("1", 1),
        (None, "null"),
        (2**63, float(2**63)),
        ([], {}),
        ({"a": None}, {}),
        ("a", "A"),
        ("é", "e"),
        ("e\u0301", "é"),
        ("a ", "a"),
        (0.1, 0.1000000000000001),
    ],
)
def test_values_that_python_or_a_collation_calls_equal_are_different_documents(first, second):
    publish("order.created", {"value": first}, external_id="x")

    assert not publish("order.created", {"value": first}, external_id="x").created
    with pytest.raises(EventConflict):
        publish("order.created", {"value": second}, external_id="x")
    assert Event.objects.count() == 1


NUMBERS = [
    *(1e100, -1e-100, 1e20, 1e21, 1e15, 1e16, 1e17, -0.0, 5e-324),
    *(2.2250738585072014e-308, 1.7976931348623157e308, 0.1 + 0.2, 100.0, 123456789012345680.0, 1 / 3, math.pi),
    *(SMALLEST_INTEGER, LARGEST_INTEGER, 2**53 + 1),
]


def test_a_number_is_the_same_after_the_database_has_stored_it():
    publish("order.created", NUMBERS, external_id="x")

    assert repr(json.loads(Event.objects.get().payload)) == repr(NUMBERS)
    assert not publish("order.created", NUMBERS, external_id="x").created


def test_key_order_does_not_matter():
    payload = {"zebra": 1, "a": 2, "Ä": 3, "aa": {"y": 1, "x": 2}, "": 4, "B": [{"d": 1, "c": 2}]}

    publish("order.created", payload, external_id="x")

    reverse = dict(reversed(payload.items()))
    assert not publish("order.created", reverse, external_id="x").created
    assert json.loads(Event.objects.get().payload) == payload


@pytest.mark.parametrize("shape", ["list", "dict"])
@pytest.mark.parametrize("depth", [33, 64])
def test_a_payload_of_up_to_64_levels_is_stored_and_comes_back(depth: int, shape: str):
    publish("order.created", nested(depth, shape), external_id="x")

    assert json.loads(Event.objects.get().payload) == nested(depth, shape)
    assert not publish("order.created", nested(depth, shape), external_id="x").created


def test_a_payload_of_the_largest_size_is_stored_and_comes_back():
    payload = "é" * (128 * 1024 - 1)

    publish("order.created", payload)

    assert json.loads(Event.objects.get().payload) == payload


def test_unusual_text_is_stored_unchanged():
    texts = ["\u2028\u2029", "\U0001f600", "\x01\x1f\x7f", "\\u0041", "</script>", "%s %% {}", "'\"`;--"]
    payload = {text: text for text in texts}

    publish("order.created", payload, external_id="x")

    assert json.loads(Event.objects.get().payload) == payload


texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(SMALLEST_INTEGER, LARGEST_INTEGER)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
)
documents = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4), max_leaves=12
)


@pytest.mark.requirement("R3-1.2d")
@settings(max_examples=75, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(documents)
def test_any_document_is_read_back_unchanged(document):
    published = publish("order.created", document)

    stored = Event.objects.get(id=published.id).payload
    assert same_document(stored, json.dumps(document))
    assert same_document(json.dumps(document), stored)
