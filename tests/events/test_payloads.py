"""Which payloads are accepted, and which two texts are the same document."""

from __future__ import annotations

import json
import time
from decimal import Decimal

import pytest

from events.errors import InvalidEvent, PayloadTooLarge
from events.payloads import (
    LARGEST_INTEGER,
    MAX_BYTES,
    MAX_KEY_BYTES,
    SMALLEST_INTEGER,
    encode,
    parse,
    read,
    same_document,
)


def nested(depth: int, shape: str = "list"):
    """A value of exactly this many levels."""
    value: object = 1
    for _ in range(depth - 1):
        value = [value] if shape == "list" else {"k": value}
    return value


@pytest.mark.requirement("R4-1.1d")
@pytest.mark.parametrize(
    "text",
    ["", "{", "[1,]", '{"a":1}x', "nul", '"\t"', "01", "\ufeff1"],
)
def test_invalid_json_is_refused_with_its_position(text: str):
    with pytest.raises(InvalidEvent, match=r"^payload is not JSON: .* at line \d+, column \d+") as caught:
        parse(text)
    assert caught.value.field == "payload"


@pytest.mark.requirement("R4-1.1d")
@pytest.mark.parametrize("text", ["NaN", "[Infinity]", '{"a":-Infinity}'])
def test_numbers_that_json_does_not_have_are_refused_in_a_text(text: str):
    with pytest.raises(InvalidEvent, match="which JSON does not have"):
        parse(text)


@pytest.mark.parametrize("value", [float("nan"), {"a": [float("-inf")]}])
def test_numbers_that_json_does_not_have_are_refused_in_a_value(value):
    with pytest.raises(InvalidEvent, match="NaN or an infinity"):
        encode(value)


@pytest.mark.parametrize("text", ['{"a":1,"a":1}', '{"x":{"a":1,"b":2,"a":3}}', '{"a":1,"\\u0061":2}'])
def test_a_duplicate_key_is_refused(text: str):
    with pytest.raises(InvalidEvent, match="names the key 'a' twice"):
        parse(text)


@pytest.mark.requirement("R4-1.1d")
def test_bytes_that_are_not_utf8_are_refused():
    with pytest.raises(InvalidEvent, match="is not UTF-8"):
        parse(b'{"a":"\xff"}')


@pytest.mark.parametrize("value", ["\ud800", ["a\udfffb"], {"\ud83d": 1}])
def test_a_lone_surrogate_is_refused(value):
    with pytest.raises(InvalidEvent, match="half of a surrogate pair"):
        encode(value)


def test_an_escaped_lone_surrogate_is_refused():
    with pytest.raises(InvalidEvent, match="half of a surrogate pair"):
        parse(r'{"a":"\ud800"}')


def test_a_whole_surrogate_pair_is_one_character():
    assert encode(parse(r'"\ud83d\ude00"')) == '"😀"'


@pytest.mark.parametrize("value", ["\0", {"a\0b": 1}])
def test_a_nul_character_is_refused(value):
    with pytest.raises(InvalidEvent, match="NUL"):
        encode(value)


@pytest.mark.parametrize("letter", ["k", "é", "😀"])
def test_a_key_longer_than_every_database_holds_is_refused(letter: str):
    size = len(letter.encode())
    key = "k" * (MAX_KEY_BYTES % size) + letter * (MAX_KEY_BYTES // size)

    assert json.loads(encode([{key: 1}])) == [{key: 1}]
    for refused in (lambda: encode({"x": {key + "k": 1}}), lambda: read(json.dumps([{key + "k": 1}]))):
        with pytest.raises(InvalidEvent, match="has a key of 65536 bytes; at most 65535 are allowed"):
            refused()


@pytest.mark.parametrize("shape", ["list", "dict"])
def test_sixty_four_levels_are_accepted_and_sixty_five_refused(shape: str):
    assert json.loads(encode(nested(64, shape))) == nested(64, shape)
    with pytest.raises(InvalidEvent, match="deeper than 64 levels"):
        encode(nested(65, shape))


@pytest.mark.parametrize("depth", [66, 250_000])
def test_extremely_deep_nesting_is_refused_without_a_crash(depth: int):
    with pytest.raises(InvalidEvent, match="deeper than 64 levels"):
        parse("[" * depth + "]" * depth)


def test_a_value_that_contains_itself_is_refused():
    value: list[object] = []
    value.append(value)

    with pytest.raises(InvalidEvent, match="deeper than 64 levels"):
        encode(value)


@pytest.mark.parametrize("number", [SMALLEST_INTEGER, LARGEST_INTEGER, 2**53 + 1])
def test_integers_of_64_bits_are_accepted(number: int):
    assert encode(parse(str(number))) == str(number)


@pytest.mark.parametrize("number", [SMALLEST_INTEGER - 1, LARGEST_INTEGER + 1])
def test_integers_beyond_64_bits_are_refused_with_advice(number: int):
    with pytest.raises(InvalidEvent, match="send it as a string"):
        encode([number])


@pytest.mark.parametrize(
    "text", ["18446744073709551616", "-9223372036854775809", pytest.param("1" + "0" * 100_000, id="long")]
)
def test_integers_beyond_64_bits_are_refused_in_a_text(text: str):
    with pytest.raises(InvalidEvent, match="send it as a string"):
        parse(text)


@pytest.mark.parametrize("text", ["0.1", "-0.0", "1E+2", "1.10", "5e-324", "1e308"])
def test_doubles_that_survive_are_accepted(text: str):
    assert parse(text) == float(text)


@pytest.mark.parametrize(
    "text",
    [
        "0.1000000000000000055511151231257827",
        "9007199254740993.0",
        "1e309",
        "0e400",
        "-0E309",
        "1e-400",
        "1e-99999999999999999999",
        "1e99999999999999999999",
        pytest.param("1." + "0" * 1000 + "1", id="long"),
    ],
)
def test_numbers_that_do_not_survive_a_double_are_refused_with_advice(text: str):
    with pytest.raises(InvalidEvent, match="send it as a string"):
        parse(f'{{"n":{text}}}')


@pytest.mark.parametrize(("key", "kind"), [(1, "int"), (None, "NoneType")])
def test_keys_that_are_not_strings_are_refused_and_not_converted(key, kind: str):
    with pytest.raises(InvalidEvent, match=f"a key that is not a string but {kind}"):
        encode({"outer": {key: 1}})


@pytest.mark.parametrize("value", [{1, 2}, b"bytes", [Decimal("1.5")]])
def test_values_that_json_does_not_have_are_refused(value):
    with pytest.raises(InvalidEvent, match="which is not JSON"):
        encode(value)


def test_the_size_limit_counts_encoded_bytes():
    fits = "é" * ((MAX_BYTES - 2) // 2)

    assert len(encode(fits).encode()) == MAX_BYTES
    with pytest.raises(InvalidEvent, match=f"has {MAX_BYTES + 2} bytes; at most {MAX_BYTES}"):
        encode(fits + "é")


@pytest.mark.parametrize("text", [b"[" * (MAX_BYTES + 1), "[" * (MAX_BYTES + 1), "\ud800" * MAX_BYTES])
def test_a_text_beyond_the_limit_is_refused_without_parsing(text: str | bytes):
    with pytest.raises(PayloadTooLarge, match="at most"):
        read(text)


@pytest.mark.requirement("R4-1.1d")
@pytest.mark.parametrize("value", [None, False, 0, "", [], {}, {"a": [1, {"b": None}]}, "\u2028\U0010ffff"])
def test_any_json_value_is_read_back_unchanged(value):
    assert parse(encode(value)) == value


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ('{"a":1,"b":2}', '{"b": 2, "a": 1}', True),
        ('{"a":{"x":1,"y":[2]}}', '{"a":{"y":[2],"x":1}}', True),
        ('"\\u00e9"', '"é"', True),
        ("[1e2]", "[100.0]", True),
        ("[1,2]", "[2,1]", False),
        ("1", "true", False),
        ("1", "1.0", False),
        ('"1"', "1", False),
        ("null", '"null"', False),
        ('{"a":null}', "{}", False),
        ("[]", "{}", False),
        ('{"A":1}', '{"a":1}', False),
    ],
)
def test_documents_are_equal_despite_key_order_and_notation(one: str, other: str, same: bool):
    assert same_document(one, other) is same
    assert same_document(other, one) is same


def test_an_object_with_very_many_keys_is_refused_quickly():
    keys = [f'"{number}":1' for number in range(25_000)]
    started = time.process_time()
    parse("{" + ",".join(keys) + "}")
    usual = time.process_time() - started

    started = time.process_time()
    with pytest.raises(InvalidEvent, match="names the key '24999' twice"):
        parse("{" + ",".join([*keys, keys[-1]]) + "}")

    assert time.process_time() - started < 100 * usual
