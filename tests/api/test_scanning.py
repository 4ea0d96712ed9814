"""Where the parts of a JSON text begin and end: as the library itself reads them."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api import envelopes
from api.envelopes import Sender
from api.problems import Problem
from api.scanning import TOO_DEEP, Body, Malformed
from events.payloads import MAX_BYTES

documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=15,
)
blanks = st.text(" \t\n\r", max_size=3)


@st.composite
def spaced(draw: Any, value: Any) -> str:
    """A document as text, with blanks wherever they may stand."""
    gap = draw(blanks)
    text = json.dumps(value, ensure_ascii=draw(st.booleans()), separators=(f"{gap},{gap}", f"{gap}:{gap}"))
    return str(draw(blanks)) + text + str(draw(blanks))


@settings(max_examples=50)
@given(st.dictionaries(st.text(max_size=6), documents, max_size=5), st.data())
def test_each_member_of_an_object_is_cut_out_exactly(document: dict[str, Any], data: Any):
    parts = {name: data.draw(spaced(value)) for name, value in document.items()}
    text = "{" + ",".join(f" {json.dumps(name)} :{part}" for name, part in parts.items()) + "}"

    body = Body(text)
    found = list(body.members(body.whole().start))

    assert [name for name, _ in found] == list(document)
    for (name, part), written in zip(found, parts.values(), strict=True):
        cut = text[part.start : part.end]
        assert cut == written.strip(" \t\n\r")
        assert json.loads(cut) == document[name]


@settings(max_examples=50)
@given(st.lists(documents, max_size=5), st.data())
def test_each_item_of_an_array_is_cut_out_exactly(document: list[Any], data: Any):
    parts = [data.draw(spaced(value)) for value in document]
    text = "[" + ",".join(parts) + "]"

    body = Body(text)
    found = list(body.items(body.whole().start))

    assert [text[part.start : part.end] for part in found] == [part.strip(" \t\n\r") for part in parts]


def exactly(fault: json.JSONDecodeError) -> str:
    """A pattern for what is said of it."""
    return f"^{re.escape(f'is not JSON: {fault.msg} at line {fault.lineno}, column {fault.colno}')}$"


@given(st.text('{}[]",:\\ \n0a1eE.-tfn', max_size=30))
def test_what_the_library_refuses_is_refused_in_its_words_and_nothing_else_is_raised(text: str):
    try:
        json.loads(text)
    except json.JSONDecodeError as fault:
        with pytest.raises(Malformed, match=exactly(fault)):
            Body(text).whole()
    else:
        assert json.loads(text[slice(*Body(text).whole()[1:])]) == json.loads(text)


@pytest.mark.parametrize(
    "text",
    [
        *('{"a" 1}', "{a:1}", '{"a":1 "b":2}', '{"a":1,}', '{"a', '{"a":1', "", "[1,\n x]"),
        *('{"event_type":"a",\n"payload":}', '{"a":\n[{"b":\n }]}', "[1]\n x", '{"a":"\n"}'),
    ],
)
def test_a_text_that_is_no_json_says_where(text: str):
    with pytest.raises(json.JSONDecodeError) as expected:
        json.loads(text)

    with pytest.raises(Malformed, match=exactly(expected.value)):
        Body(text).whole()


def test_a_value_nested_beyond_reading_still_has_its_end():
    deep = '[{"a":"]}\\""},' * 1 + "[" * 200_000 + '"]"' + "]" * 200_000 + "]"
    text = f'{{"x": {deep} , "y":1}}'

    [(_, x), (name, y)] = Body(text).members(0)

    assert x.value is TOO_DEEP
    assert text[x.start : x.end] == deep
    assert (name, text[y.start : y.end]) == ("y", "1")


@pytest.mark.parametrize("end", ["", "}" * 200_000, '"', "]" * 199_999])
def test_a_deep_value_without_its_end_is_malformed(end: str):
    with pytest.raises(Malformed):
        Body("[" * 200_000 + end).whole()


def test_a_number_of_very_many_digits_is_only_passed_over():
    text = "[" + "9" * 100_000 + ",1]"

    assert [text[part.start : part.end][:3] for part in Body(text).items(0)] == ["999", "1"]


def test_of_several_values_those_that_are_too_deep_are_known_with_their_ends():
    deep, flat = '[{"]":' * 2000 + "1" + "}]" * 2000, '[[["]"],{}],[]]'
    written = [flat, deep, flat, "[" * 3000 + "]" * 3000, "7", deep]
    text = '{"events":[' + " , ".join(written) + "]}"

    [(_, events)] = Body(text).members(0)
    found = list(Body(text).items(events.start))

    assert [text[part.start : part.end] for part in found] == written
    assert [part.value is TOO_DEEP for part in found] == [False, True, False, True, False, True]


def seconds(payload: str) -> float:
    text = '{"events":[{"event_type":"a","payload":' + payload + "}]}"
    began = time.process_time()
    [refused] = envelopes.many(text, Sender("shop"), 1000)
    assert "payload" in str(refused)
    return time.process_time() - began


def test_a_deep_body_takes_no_longer_than_a_flat_one_of_the_same_size():
    size = 5 * MAX_BYTES  # so much is not read as a payload: what counts is the walk from bracket to bracket
    flat = min(seconds("[" + "1," * (size // 2) + "1]") for _ in range(2))

    for opening, closing in (("[", "]"), ('[{"":', "}]"), (" [", " ]")):
        times = size // len(opening + closing)
        deep = min(seconds(opening * times + "1" + closing * times) for _ in range(2))
        assert deep < 20 * flat, opening  # a walk for each bracket would take thousands of times as long


def test_what_follows_a_deep_value_is_read_strictly_too():
    deep = "[" * 3000 + "]" * 3000
    for text in (f'{{"events":[{{"event_type":"a","payload":{deep} x}}]}}', f'{{"events":[{deep} x]}}'):
        with pytest.raises(Problem, match="is not JSON: Expecting ',' delimiter"):
            envelopes.many(text, Sender("shop"), 1000)
