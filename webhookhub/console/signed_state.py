"""What a page has to know when it is sent back, carried in the page itself: signed, and of use to one person only.

Work that is too long for one request is done in portions, each asked for by the page that shows the one before. A page
may be sent back twice (a double click, a reload, the way back), so what it carries must say exactly which portion it
is: never "the next".
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.core import signing
from django.core.exceptions import BadRequest, PermissionDenied
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

PATIENCE = timedelta(hours=1)
TOO_OLD = gettext_lazy("The page had lain open for too long, and nothing was done with it. Begin again.")


class TooOld(Exception):
    """The page has lain open for too long; nothing was done."""


def seal(kind: str, user: int | None, value: Any) -> str:
    """`value` is anything that JSON can hold; `kind` keeps it from being taken for another page's."""
    return signing.dumps([user, value], salt=kind, compress=True)


def opened(kind: str, user: int | None, text: str) -> Any:
    try:
        owner, value = signing.loads(text, salt=kind, max_age=PATIENCE)
    except signing.SignatureExpired:
        raise TooOld from None
    except signing.BadSignature:
        raise BadRequest(_("This page was changed on its way; begin again.")) from None
    if owner != user:
        raise PermissionDenied
    return value
