"""Custom headers of a subscription, as `Name: value` lines."""

from __future__ import annotations

import re

from django.utils.translation import gettext as _

from webhookhub import crypto

MAX_HEADERS = 20
MAX_BYTES = 4096
NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}\Z")
VALUE = re.compile(r"[\x20-\x7e\t]*\Z")
FORBIDDEN = {
    "connection",
    "content-encoding",
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
    """The message says which line is wrong, and why."""


def parse(text: str) -> list[str]:
    """The lines as they are sent, or UnacceptableHeaders."""
    headers: list[str] = []
    seen: set[str] = set()
    # str.splitlines would also split at characters that belong to a value.
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        if not line.strip(" \t"):
            continue
        name, _colon, value = (part.strip(" \t") for part in line.partition(":"))
        error = _error(line, name, value)
        if not error and name.lower() in seen:
            error = _("Line %(number)s: the header %(name)s appears twice.")
        if not error and len(headers) == MAX_HEADERS:
            error = _("Line %(number)s is too many: at most %(max_headers)s headers are allowed.")
        if error:
            values = {"number": number, "name": name, "max_headers": MAX_HEADERS, "max_bytes": MAX_BYTES}
            raise UnacceptableHeaders(error % values)
        seen.add(name.lower())
        headers.append(f"{name}: {value}")
    return headers


def names(text: str) -> list[str]:
    """The names, of lines that parse() has accepted."""
    return [line.partition(":")[0] for line in text.split("\n") if line]


def values(text: str) -> list[str]:
    """The values; the text may violate today's rules."""
    return [line.partition(":")[2].strip() for line in text.split("\n")]


def _error(line: str, name: str, value: str) -> str:
    # Receivers behind CGI or WSGI see no difference between webhook_id and webhook-id.
    as_received = name.lower().replace("_", "-")
    if "\0" in line:
        return _("Line %(number)s contains a NUL character.")
    if line[0] in " \t":
        return _("Line %(number)s starts with white space; a header must start at the beginning of a line.")
    if ":" not in line or not NAME.match(line.partition(":")[0]):
        return _("Line %(number)s is not a header; write it as Name: value.")
    if as_received in FORBIDDEN or as_received.startswith(FORBIDDEN_PREFIXES):
        return _("Line %(number)s: the hub itself sets the header %(name)s.")
    if not value:
        return _("Line %(number)s: the header %(name)s has no value.")
    if not VALUE.match(value):
        return _("Line %(number)s: the value of %(name)s contains characters that a header must not contain.")
    if len(f"{name}: {value}") > MAX_BYTES:
        return _("Line %(number)s: the header %(name)s is longer than %(max_bytes)s bytes.")
    return ""


def stored_names(token: str) -> list[str]:
    """The names in encrypted headers; empty if the encryption keys do not open them."""
    try:
        return names(crypto.decrypt(token)) if token else []
    except (crypto.Undecipherable, ValueError):  # a key is missing, or there are no keys
        return []
