"""Headers of a subscription's own, sent with each of its deliveries: `Name: value`, one a line."""

from __future__ import annotations

import re

MAX_HEADERS = 20
MAX_BYTES = 4096
NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}\Z")
VALUE = re.compile(r"[\x20-\x7e\t]*\Z")
FORBIDDEN = {
    "connection",
    "content-length",
    "content-type",
    "expect",
    "host",
    "keep-alive",
    "te",
    "traceparent",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
}
FORBIDDEN_PREFIXES = ("webhook-", "proxy-")


class UnacceptableHeaders(ValueError):
    """The message says which line is wrong and what would be right."""


def parse(text: str) -> list[str]:
    """The lines as they are sent, or UnacceptableHeaders."""
    if "\0" in text:
        raise UnacceptableHeaders("The headers hold a NUL character.")
    # Only \n and \r\n end a line here: str.splitlines knows many more, which would hide in a value.
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    headers = [_header(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    if len(headers) > MAX_HEADERS:
        raise UnacceptableHeaders(f"There are {len(headers)} headers; at most {MAX_HEADERS} are allowed.")
    names = [header.partition(":")[0].lower() for header in headers]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise UnacceptableHeaders(f"The header {twice} is named twice.")
    return headers


def names(text: str) -> list[str]:
    return [header.partition(":")[0] for header in parse(text)]


def _header(number: int, line: str) -> str:
    name, colon, value = line.partition(":")
    name, value = name.strip(" \t"), value.strip(" \t")
    if not colon or not NAME.match(name):
        raise UnacceptableHeaders(f"Line {number} is not a header; write it as Name: value.")
    if name.lower() in FORBIDDEN or name.lower().startswith(FORBIDDEN_PREFIXES):
        raise UnacceptableHeaders(f"Line {number}: the header {name} is the hub's own and cannot be set.")
    if not value:
        raise UnacceptableHeaders(f"Line {number}: the header {name} has no value.")
    if not VALUE.match(value):
        raise UnacceptableHeaders(f"Line {number}: the value of {name} holds characters that a header cannot carry.")
    if len(value) > MAX_BYTES:
        raise UnacceptableHeaders(f"Line {number}: the value of {name} is longer than {MAX_BYTES} bytes.")
    return f"{name}: {value}"
