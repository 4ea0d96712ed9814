"""Events are read from a body as the json module reads it, and payloads are kept exactly as they were written."""

from __future__ import annotations

import contextlib
import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api.event_parsing import Sender, array_items, check_json, object_members, parse_batch, parse_event
from api.problems import Problem
from events.errors import InvalidEvent

documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=15,
)
whitespace = st.text(" \t\n\r", max_size=3)


@st.composite
def spaced(draw: Any, value: Any) -> str:
    """A document as text, with whitespace wherever it is allowed."""
    gap = draw(whitespace)
    text = json.dumps(value, ensure_ascii=draw(st.booleans()), separators=(f"{gap},{gap}", f"{gap}:{gap}"))
    return str(draw(whitespace)) + text + str(draw(whitespace))


@settings(max_examples=50)
@given(st.dictionaries(st.text(max_size=6), documents, max_size=5), st.data())
def test_object_members_returns_the_exact_text_of_each_member(document: dict[str, Any], data: Any):
    written = {name: data.draw(spaced(value)) for name, value in document.items()}
    text = " {" + ",".join(f" {json.dumps(name)} :{value}" for name, value in written.items()) + "}"

    parts = list(object_members(text, check_json(text)))

    assert [name for name, _ in parts] == list(document)
    for (name, part), value in zip(parts, written.values(), strict=True):
        assert text[part.start : part.end] == value.strip(" \t\n\r")
        assert json.loads(text[part.start : part.end]) == document[name]


@settings(max_examples=50)
@given(st.lists(documents, max_size=5), st.data())
def test_array_items_returns_the_exact_text_of_each_item(document: list[Any], data: Any):
    written = [data.draw(spaced(value)) for value in document]
    text = "[" + ",".join(written) + "]"

    parts = list(array_items(text, check_json(text)))

    assert [text[part.start : part.end] for part in parts] == [value.strip(" \t\n\r") for value in written]


@given(st.text('{}[]",:\\ \n0a1eE.-tfn', max_size=30))
def test_malformed_text_is_refused_with_the_message_of_the_json_module(text: str):
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        expected = f"body is not JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        with pytest.raises(InvalidEvent, match=f"^{re.escape(expected)}$"):
            parse_event(text, Sender("shop"))
    else:
        assert json.loads(text[check_json(text) :]) == json.loads(text)


def test_a_number_with_very_many_digits_is_skipped():
    text = "[" + "9" * 100_000 + ",1]"

    assert [text[part.start : part.end][:3] for part in array_items(text, check_json(text))] == ["999", "1"]


@pytest.mark.parametrize("depth", [*range(900, 1010), 200_000])
def test_a_payload_of_any_depth_is_refused_without_another_exception(depth: int):
    event = '{"event_type":"a","payload":' + "[" * depth + "]" * depth + "}"

    with pytest.raises(InvalidEvent, match="nested"):
        parse_event(event, Sender("shop"))
    with contextlib.suppress(Problem):
        [refused] = parse_batch(f'{{"events":[{event}]}}', Sender("shop"), 1000)
        assert "payload is nested deeper than 64 levels" in str(refused)
