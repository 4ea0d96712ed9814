"""Search that asks an index or nothing: the term must be given whole, and each app says where it may stand."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

from django.db.models import QuerySet
from django.http import HttpRequest

from webhookhub.egress.errors import MEANING
from webhookhub.egress.urls import host_as_stored

LARGEST_ID = 2**63 - 1
HTTP_CODE = re.compile(r"http_[1-9][0-9]{2}")


def number(term: str) -> int | None:
    """The row number that a search term is, if it can be one."""
    if not (term.isascii() and term.isdigit() and len(term) <= 19):
        return None
    value = int(term)
    return value if value <= LARGEST_ID else None


def error_code(term: str) -> str | None:
    """The error code of the hub's that a search term is, however it is spelt, if it is one."""
    code = term.lower()
    return code if code in MEANING or HTTP_CODE.fullmatch(code) else None


def host(term: str) -> str:
    """The host that a search term names, as a stored address writes it: by itself, with a port, or within an address.

    Empty if it names none. An IPv6 address may be without the brackets that it has within an address.
    """
    if term.count(":") > 1 and (address := host_as_stored(term)):
        return address
    try:
        return host_as_stored(urlsplit(term if "://" in term else f"//{term}").hostname or "")
    except ValueError:
        return ""


class ExactSearch:
    """For a ModelAdmin: finds the rows whose primary keys `find` gives."""

    search_fields: list[str] | tuple[str, ...] = ("pk",)  # Django shows the box if there is one; it is never used

    def find(self, term: str) -> Iterable[int]:
        raise NotImplementedError

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        term = search_term.strip()
        if term:
            queryset = queryset.filter(pk__in=list(self.find(term)))
        return queryset, False
