"""Requests whose Content-Type cannot be read are refused before Django tries.

It reads that header while it makes the request, before any middleware: what is raised there would be the web server's
own page for its faults and a traceback in the log, as often as anybody likes.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable, Iterable
from typing import Any

from django.utils.http import parse_header_parameters

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

STATUS = "400 Bad Request"
WHY = "The header Content-Type cannot be read; write it as application/json."
# What a sender may name; Python knows others by name that cannot read an address, or are no character sets at all.
CHARSETS = {"utf-8", "utf-16", "ascii", "iso8859-1", "iso8859-15", "cp1252", "big5", "gb18030", "gbk", "shift_jis"}
PROBLEM = {"type": "about:blank", "title": "Bad Request", "status": 400, "detail": WHY}


def with_readable_heads(application: Application) -> Application:
    def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if _is_readable(environ.get("CONTENT_TYPE", "")):
            return application(environ, start_response)
        return _refusal(environ, start_response)

    return answer


def _is_readable(content_type: str) -> bool:
    try:
        _, parameters = parse_header_parameters(content_type)
    except (LookupError, ValueError):  # a character set that does not exist, or that is not what it says
        return False
    return "charset" not in parameters or _is_charset(parameters["charset"])


def _is_charset(name: str) -> bool:
    try:
        return codecs.lookup(name).name in CHARSETS
    except LookupError:
        return True  # passed over by Django; who takes JSON only says so
    except ValueError:
        return False


def _refusal(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """As the API words its errors where it is asked; elsewhere one plain sentence."""
    if environ.get("PATH_INFO", "").startswith("/api/"):
        kind, text = "application/problem+json", json.dumps(PROBLEM)
    else:
        kind, text = "text/plain; charset=utf-8", f"{WHY}\n"
    headers = [
        ("Content-Type", kind),
        ("Content-Length", str(len(text))),
        ("Cache-Control", "no-store"),
        ("X-Content-Type-Options", "nosniff"),
    ]
    start_response(STATUS, headers)
    return [] if environ["REQUEST_METHOD"] == "HEAD" else [text.encode()]
