"""Parsers for what people type into search boxes, forms and commands."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from .egress.error_codes import MEANING
from .egress.urls import host_as_stored

MAX_ID = 2**63 - 1
HTTP_CODE = re.compile(r"http_[1-9][0-9]{2}")


def parse_id(term: str) -> int | None:
    """The primary key that the term spells in ASCII digits; None if it cannot be one."""
    if not (term.isascii() and term.isdigit() and len(term) <= 19):
        return None
    value = int(term)
    return value if value <= MAX_ID else None


def parse_error_code(term: str) -> str | None:
    """The hub's error code that the term spells, in any case; None if it is not one."""
    code = term.lower()
    return code if code in MEANING or HTTP_CODE.fullmatch(code) else None


def parse_host(term: str) -> str:
    """The host of a term as callback URLs store it; empty if there is none.

    The term may be a host, a host with a port, a URL, or an IPv6 address with or without brackets.
    """
    if term.count(":") > 1 and (address := host_as_stored(term)):
        return address
    try:
        return host_as_stored(urlsplit(term if "://" in term else f"//{term}").hostname or "")
    except ValueError:
        return ""
