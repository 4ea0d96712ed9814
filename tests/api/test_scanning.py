"""Where the parts of a JSON text begin and end: as the library itself reads them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api import scanning
from api.scanning import TOO_DEEP, Malformed

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


@given(st.dictionaries(st.text(max_size=6), documents, max_size=5), st.data())
def test_each_member_of_an_object_is_cut_out_exactly(document: dict[str, Any], data: Any):
    parts = {name: data.draw(spaced(value)) for name, value in document.items()}
    text = "{" + ",".join(f" {json.dumps(name)} :{part}" for name, part in parts.items()) + "}"

    whole = scanning.whole(text)
    found = scanning.members(text, whole.start)

    assert [name for name, _ in found] == list(document)
    for (name, part), written in zip(found, parts.values(), strict=True):
        cut = text[part.start : part.end]
        assert cut == written.strip(" \t\n\r")
        assert json.loads(cut) == document[name]


@given(st.lists(documents, max_size=5), st.data())
def test_each_item_of_an_array_is_cut_out_exactly(document: list[Any], data: Any):
    parts = [data.draw(spaced(value)) for value in document]
    text = "[" + ",".join(parts) + "]"

    found = scanning.items(text, scanning.whole(text).start)

    assert [text[part.start : part.end] for part in found] == [part.strip(" \t\n\r") for part in parts]


@given(st.text('{}[]",:\\ \n0a1eE.-tfn', max_size=30))
def test_what_the_library_refuses_is_refused_and_nothing_else_is_raised(text: str):
    try:
        json.loads(text)
    except json.JSONDecodeError:
        with pytest.raises(Malformed):
            scanning.whole(text)
    else:
        assert json.loads(text[slice(*scanning.whole(text)[1:])]) == json.loads(text)


@pytest.mark.parametrize("text", ['{"a" 1}', "{a:1}", '{"a":1 "b":2}', '{"a":1,}', '{"a":}', "{", '{"a', '{"a":1'])
def test_an_object_that_is_none_says_where(text: str):
    with pytest.raises(Malformed, match=r"is not JSON: .* at line 1, column \d+"):
        scanning.whole(text)


def test_a_value_nested_beyond_reading_still_has_its_end():
    deep = '[{"a":"]}\\""},' * 1 + "[" * 200_000 + '"]"' + "]" * 200_000 + "]"
    text = f'{{"x": {deep} , "y":1}}'

    [(_, x), (name, y)] = scanning.members(text, 0)

    assert x.value is TOO_DEEP
    assert text[x.start : x.end] == deep
    assert (name, text[y.start : y.end]) == ("y", "1")


@pytest.mark.parametrize("end", ["", "}" * 200_000, '"', "]" * 199_999])
def test_a_deep_value_without_its_end_is_malformed(end: str):
    with pytest.raises(Malformed):
        scanning.whole("[" * 200_000 + end)


def test_a_number_of_very_many_digits_is_only_passed_over():
    text = "[" + "9" * 100_000 + ",1]"

    assert [text[part.start : part.end][:3] for part in scanning.items(text, 0)] == ["999", "1"]
