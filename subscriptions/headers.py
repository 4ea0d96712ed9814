"""Custom headers of a subscription, as `Name: value` lines."""

from __future__ import annotations

import re

from django.utils.translation import gettext as _

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
        name, value = _header(number, line)
        if name.lower() in seen:
            raise UnacceptableHeaders(
                _("Line %(number)s: the header %(name)s is named twice.") % {"number": number, "name": name}
            )
        seen.add(name.lower())
        headers.append(f"{name}: {value}")
        if len(headers) > MAX_HEADERS:
            raise UnacceptableHeaders(
                _("Line %(number)s is one too many: at most %(most)s headers are allowed.")
                % {"number": number, "most": MAX_HEADERS}
            )
    return headers


def names(text: str) -> list[str]:
    """The names, of lines that parse() has accepted."""
    return [line.partition(":")[0] for line in text.split("\n") if line]


def values(text: str) -> list[str]:
    """The values; the text may violate today's rules."""
    return [line.partition(":")[2].strip() for line in text.split("\n")]


def _header(number: int, line: str) -> tuple[str, str]:
    if "\0" in line:
        raise UnacceptableHeaders(_("Line %(number)s holds a NUL character.") % {"number": number})
    if line[0] in " \t":
        raise UnacceptableHeaders(
            _("Line %(number)s starts with white space; a header is one line, from its beginning.") % {"number": number}
        )
    name, colon, value = line.partition(":")
    value = value.strip(" \t")
    if not colon or not NAME.match(name):
        raise UnacceptableHeaders(_("Line %(number)s is not a header; write it as Name: value.") % {"number": number})
    # Receivers behind CGI or WSGI see no difference between webhook_id and webhook-id.
    as_received = name.lower().replace("_", "-")
    if as_received in FORBIDDEN or as_received.startswith(FORBIDDEN_PREFIXES):
        raise UnacceptableHeaders(
            _("Line %(number)s: the header %(name)s is the hub's own and cannot be set.")
            % {"number": number, "name": name}
        )
    if not value:
        raise UnacceptableHeaders(
            _("Line %(number)s: the header %(name)s has no value.") % {"number": number, "name": name}
        )
    if not VALUE.match(value):
        raise UnacceptableHeaders(
            _("Line %(number)s: the value of %(name)s holds characters that a header cannot carry.")
            % {"number": number, "name": name}
        )
    if len(f"{name}: {value}") > MAX_BYTES:
        raise UnacceptableHeaders(
            _("Line %(number)s: the header %(name)s is longer than %(most)s bytes.")
            % {"number": number, "name": name, "most": MAX_BYTES}
        )
    return name, value
