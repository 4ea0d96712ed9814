"""Signed values that a client sends back: the state of a page between two requests, the cursor of a list."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.core import signing
from django.core.exceptions import BadRequest, PermissionDenied
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

MAX_PAGE_AGE = timedelta(hours=1)
EXPIRED = gettext_lazy("The page was open for too long. Nothing was done; start again.")


class Expired(Exception):
    """The value was signed longer ago than it may be used."""


def sign(value: Any, purpose: str, owner: Any) -> str:
    """`value` and `owner` as JSON, signed. Only the same purpose and owner can read it."""
    return signing.dumps([owner, value], salt=purpose, compress=True)


def read(text: str, purpose: str, owner: Any, *, max_age: timedelta | None = None) -> Any:
    """The signed value. Raises BadRequest if the signature is wrong, Expired, or PermissionDenied for another owner."""
    try:
        signed_owner, value = signing.loads(text, salt=purpose, max_age=max_age)
    except signing.SignatureExpired:
        raise Expired from None
    except (signing.BadSignature, ValueError, TypeError):
        raise BadRequest(_("This page was changed. Start again.")) from None
    if signed_owner != owner:
        raise PermissionDenied
    return value
