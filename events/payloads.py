"""Valid payloads: JSON that every receiver and every database reads as the same document."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any, NoReturn

from .errors import InvalidEvent, PayloadTooLarge

MAX_BYTES = 256 * 1024
MAX_DEPTH = 64
# The limit of MySQL's JSON type, applied on all databases.
MAX_KEY_BYTES = 2**16 - 1
SMALLEST_INTEGER, LARGEST_INTEGER = -(2**63), 2**64 - 1
FIELD = "payload"
UNKNOWN = object()
LONE_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Document:
    """The valid JSON text of a payload, stored unchanged. `value` is what it says, if that is known."""

    text: str
    value: Any = field(default=UNKNOWN, compare=False, repr=False)

    def parsed(self) -> Any:
        return json.loads(self.text) if self.value is UNKNOWN else self.value


def read(text: str | bytes) -> Document:
    """The text as a payload; InvalidEvent if it is not valid."""
    _check_size(len(text if isinstance(text, bytes) else text.encode(errors="surrogatepass")))
    value = parse(text)
    return Document(text.decode() if isinstance(text, bytes) else text, value)


def encode(value: Any) -> str:
    """The JSON text of a Python value; InvalidEvent if it is not valid."""
    if isinstance(value, Document):
        return value.text
    _check(value, 1)
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    _check_size(len(text.encode()))
    return text


def parse(text: str | bytes) -> Any:
    """The value of a JSON text (RFC 8259, and RFC 7493 for numbers) that encode() would accept."""
    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8")
        value = _decoder.decode(text)
    except RecursionError:
        _refuse(f"is nested deeper than {MAX_DEPTH} levels")
    except UnicodeDecodeError:
        _refuse("is not UTF-8")
    except json.JSONDecodeError as error:
        _refuse(f"is not JSON: {error.msg} at line {error.lineno}, column {error.colno}")
    if _may_break_a_rule(text):
        _check(value, 1)
    return value


def stored_value(text: str) -> Any:
    """The value of a stored payload; ValueError if it cannot be written as JSON again.

    Only an event that another program has inserted by SQL may have such a payload.
    """
    try:
        value = json.loads(text)
        json.dumps(value, allow_nan=False)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return value


def same_document(one: str, other: str) -> bool:
    """Whether two JSON texts are equal as documents: a database may reorder keys and rewrite numbers."""
    if one == other:
        return True
    try:
        return _canonical(one) == _canonical(other)
    except ValueError:  # a stored text that is not JSON equals no document
        return False


def _canonical(text: str) -> str:
    return json.dumps(stored_value(text), sort_keys=True)


def _may_break_a_rule(text: str) -> bool:
    """Whether a text that was decoded may break a rule that only _check() applies: most texts cannot."""
    return (
        "\\u" in text  # NUL or half of a surrogate pair
        or len(text) > MAX_KEY_BYTES // 4
        or text.count("[") + text.count("{") >= MAX_DEPTH
        or (not text.isascii() and LONE_SURROGATE.search(text) is not None)
    )


def _check(value: Any, depth: int) -> None:
    if depth > MAX_DEPTH:
        _refuse(f"is nested deeper than {MAX_DEPTH} levels")
    match value:
        case None | bool():
            pass
        case str():
            _check_text(value)
        case int():
            if not SMALLEST_INTEGER <= value <= LARGEST_INTEGER:
                _refuse("holds an integer beyond 64 bits; send it as a string")
        case float():
            if not math.isfinite(value):
                _refuse("holds NaN or an infinity, which JSON does not have")
        case list() | tuple():
            for item in value:
                _check(item, depth + 1)
        case dict():
            for key, item in value.items():
                if not isinstance(key, str):
                    _refuse(f"has a key that is not a string but {type(key).__name__}")
                _check_text(key)
                _check_key(key)
                _check(item, depth + 1)
        case _:
            _refuse(f"holds a {type(value).__name__}, which is not JSON")


def _check_text(text: str) -> None:
    if "\0" in text:
        _refuse("holds a NUL character")
    if not text.isascii() and LONE_SURROGATE.search(text):
        _refuse("holds half of a surrogate pair")


def _check_key(key: str) -> None:
    # A character has at most four bytes: a short key needs no encoding.
    if len(key) > MAX_KEY_BYTES // 4 and (size := len(key.encode())) > MAX_KEY_BYTES:
        _refuse(f"has a key of {size} bytes; at most {MAX_KEY_BYTES} are allowed")


def _check_size(size: int) -> None:
    if size > MAX_BYTES:
        raise PayloadTooLarge(FIELD, f"has {size} bytes; at most {MAX_BYTES} are allowed")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        [(twice, _)] = Counter(name for name, _ in pairs).most_common(1)
        _refuse(f"names the key {twice[:50]!r} twice in one object")
    return result


def _constant(name: str) -> NoReturn:
    _refuse(f"holds {name}, which JSON does not have")


def _integer(digits: str) -> int:
    value = int(digits) if len(digits) <= 20 else LARGEST_INTEGER + 1
    if not SMALLEST_INTEGER <= value <= LARGEST_INTEGER:
        _refuse("holds an integer beyond 64 bits; send it as a string")
    return value


def _float(digits: str) -> float:
    # Every double keeps 15 digits: with the point, 16 characters. The rest of the function is slow.
    if len(digits) <= 16 and "e" not in digits and "E" not in digits:
        return float(digits)
    value = float(digits) if len(digits) <= 400 else math.inf
    # MySQL refuses a large exponent even if the number is 0.
    if not math.isfinite(value) or not _is_exactly(digits, value) or (value == 0 and len(_exponent(digits)) > 2):
        _refuse("holds a number that does not survive double precision; send it as a string")
    return value


def _exponent(digits: str) -> str:
    return digits.lower().partition("e")[2].lstrip("+-").lstrip("0")


def _is_exactly(digits: str, value: float) -> bool:
    try:
        return Decimal(repr(value)) == Decimal(digits)
    except InvalidOperation:
        return False  # the exponent is too large for a Decimal


def _refuse(why: str) -> NoReturn:
    raise InvalidEvent(FIELD, why)


# Creating a decoder takes longer than most payloads need.
_decoder = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant, parse_float=_float, parse_int=_integer)
