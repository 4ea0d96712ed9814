"""Events are read from a body as the json module reads it, and payloads are kept exactly as they were written."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api.event_parsing import MAX_EVENT_BYTES, parse_batch, parse_event
from events.errors import InvalidEvent, PayloadTooLarge
from events.intake import NewEvent
from events.payloads import LARGEST_INTEGER, SMALLEST_INTEGER, Document

texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=10)
documents = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(SMALLEST_INTEGER, LARGEST_INTEGER)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
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
@given(documents, st.data())
def test_the_payload_of_an_event_is_the_exact_text(document: Any, data: Any):
    written = data.draw(spaced(document))
    text = data.draw(whitespace) + f'{{ "payload" :{written},"event_type":"a"}}' + data.draw(whitespace)

    event = parse_event(text, "shop")

    assert event == NewEvent("a", Document(written.strip(" \t\n\r")), "shop")


@settings(max_examples=50)
@given(st.lists(documents, min_size=1, max_size=5), st.data())
def test_the_payloads_of_a_batch_are_the_exact_texts(batch: list[Any], data: Any):
    written = [data.draw(spaced(value)) for value in batch]
    gap = data.draw(whitespace)
    items = f"{gap},{gap}".join(f'{{"event_type":"a","payload":{value}}}' for value in written)

    events = parse_batch(f'{gap}{{"events":{gap}[{gap}{items}{gap}]{gap}}}{gap}', "shop", 1000)

    assert events == [NewEvent("a", Document(value.strip(" \t\n\r")), "shop") for value in written]


@given(st.text('{}[]",:\\ \n0a1eE.-tfn', max_size=30))
def test_malformed_text_is_refused_with_the_message_of_the_json_module(text: str):
    with pytest.raises(InvalidEvent) as refused:
        parse_event(text, "shop")
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        expected = f"is not JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        assert (refused.value.field, refused.value.why) == ("body", expected)
    else:
        assert refused.value.field in ("event", "event_type")


def test_a_number_with_very_many_digits_refuses_only_its_event():
    items = ",".join(f'{{"event_type":"a","payload":{number}}}' for number in ("9" * 100_000, "1"))

    refused, event = parse_batch(f'{{"events":[{items}]}}', "shop", 2)

    assert str(refused) == "payload holds an integer beyond 64 bits; send it as a string"
    assert event == NewEvent("a", Document("1"), "shop")


@pytest.mark.parametrize("depth", [*range(900, 1010), 200_000])
def test_a_payload_of_any_depth_is_refused_without_another_exception(depth: int):
    event = '{"event_type":"a","payload":' + "[" * depth + "]" * depth + "}"

    with pytest.raises(InvalidEvent, match="nested"):
        parse_event(event, "shop")
    try:
        [refused] = parse_batch(f'{{"events":[{event}]}}', "shop", 1000)
    except InvalidEvent as error:
        refused = error
    assert str(refused) in ("payload is nested deeper than 64 levels", "body is nested too deeply")


def test_no_more_items_are_read_than_allowed():
    with pytest.raises(InvalidEvent, match=r"^events has too many events; send 1 to 2$"):
        parse_batch('{"events":[1,2,3,' + "[" * 100_000, "shop", 2)


def test_an_object_with_very_many_fields_refuses_only_its_event():
    fields = ",".join(['"payload":1'] * 1000)
    items = f'{{"event_type":"a",{fields}}},{{"event_type":"a","payload":1}}'

    refused, event = parse_batch(f'{{"events":[{items}]}}', "shop", 2)

    assert str(refused).startswith("event has too many fields; valid fields are event_type, payload")
    assert event == NewEvent("a", Document("1"), "shop")
    with pytest.raises(InvalidEvent, match=r"^body has an unknown field 'payload'; valid fields are events$"):
        parse_batch(f"{{{fields}}}", "shop", 2)


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        ("NaN", "payload holds NaN, which JSON does not have"),
        ('{"a": [-Infinity]}', "payload holds -Infinity, which JSON does not have"),
        ('"\\ud800"', "payload holds half of a surrogate pair"),
        ('{"\\uDFFF": 1}', "payload holds half of a surrogate pair"),
        ('{"a": NaN, "a": 1}', "payload holds NaN, which JSON does not have"),
    ],
)
def test_a_constant_or_half_of_a_surrogate_pair_refuses_only_its_event(payload: str, why: str):
    # Texts that look the same in strings, and characters of several bytes, on both sides.
    kept = '{"NaN": "Infinity \\\\ud800 \\ud83d\\ude00 é😀 \\"NaN", "b": 1.10}'
    event = f'{{"payload": {kept} , "event_type":"a"}}'
    refused = f'{{"event_type":"a","payload":{payload}}}'

    before, error, after = parse_batch(f'{{"events" : [ {event} ,{refused},{event}]}}', "shop", 3)

    assert before == after == NewEvent("a", Document(kept), "shop")
    assert str(error) == why


@pytest.mark.parametrize("field", ["event_type", "external_id", "correlation_id"])
@pytest.mark.parametrize("value", ["NaN", '"\\ud800"', '{"a": Infinity}'])
def test_such_a_value_of_another_field_is_named(field: str, value: str):
    fields = {"event_type": '"a"', "payload": "1"} | {field: value}

    with pytest.raises(InvalidEvent) as refused:
        parse_event("{" + ",".join(f'"{name}":{text}' for name, text in fields.items()) + "}", "shop")

    assert refused.value.field == field


def test_an_event_longer_than_alone_is_refused_for_itself():
    long = '{"event_type":"a","payload":1,' + " " * MAX_EVENT_BYTES + '"external_id":"1"}'

    refused, event = parse_batch(f'{{"events":[{long},{{"event_type":"a","payload":1}}]}}', "shop", 2)

    assert isinstance(refused, PayloadTooLarge)
    assert str(refused) == f"event has {len(long)} bytes; at most {MAX_EVENT_BYTES} are allowed"
    assert event == NewEvent("a", Document("1"), "shop")


@pytest.mark.parametrize("name", ["events", "\\u0065vents", "event\\u0073"])
def test_the_name_of_the_list_may_be_escaped(name: str):
    assert len(parse_batch(f'{{"{name}":[{{"event_type":"a","payload":"}}"}}]}}', "shop", 2)) == 1
    with pytest.raises(InvalidEvent, match=r"^events is given twice$"):
        parse_batch(f'{{"{name}":[1],"events":[1]}}', "shop", 2)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{"events":[1,]}', "line 1, column 14"),
        ('{"events":[\n"é", tru]}', "line 2, column 7"),
        ('{"events":[1]', "line 1, column 14"),
        ('{"events":[1]} x', "line 1, column 17"),
    ],
)
def test_a_malformed_batch_is_refused_with_its_position(text: str, place: str):
    with pytest.raises(InvalidEvent, match=f"^body is not JSON: .* at {place}$"):
        parse_batch(text, "shop", 2)
