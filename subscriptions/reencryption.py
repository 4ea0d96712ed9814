"""Everything that is stored encrypted, encrypted anew when the key changes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from webhookhub import crypto
from webhookhub.auditlog import actions
from webhookhub.auditlog.record import record
from webhookhub.db import clock
from webhookhub.db.retry import one_statement

from .models import Subscription

BATCH = 200
# Somebody else's change of the same row is rare; so many in a row are something else.
TRIES = 10
COLUMNS = ("secret", "previous_secret", "custom_headers", "previous_secret_until")


@dataclass
class Outcome:
    """How many subscriptions are under the first key now, and which are not, by number."""

    done: int = 0
    unopened: list[int] = field(default_factory=list)
    restless: list[int] = field(default_factory=list)


def reencrypt() -> Outcome:
    """Encrypt everything anew with the first key. What cannot be opened is left as it is and does not stop the rest."""
    outcome = Outcome()
    record(actions.REENCRYPT, kind="subscription", name="all subscriptions")
    for number in _numbers():
        try:
            if _reencrypt(number):
                outcome.done += 1
            else:
                outcome.restless.append(number)
        except crypto.Undecipherable:
            outcome.unopened.append(number)
    return outcome


def _numbers() -> Iterator[int]:
    after = 0
    while batch := list(Subscription.objects.filter(id__gt=after).order_by("id").values_list("id", flat=True)[:BATCH]):
        yield from batch
        after = batch[-1]


def _reencrypt(number: int) -> bool:
    """Compared and set, so that no rotation or edit of the same moment is undone.

    A rotation keeps the replaced secret as it was stored: after a miss there may still be one under the old key.
    """
    for _ in range(TRIES):
        stored = Subscription.objects.filter(id=number).values(*COLUMNS).get()
        unchanged, anew = Subscription.objects.filter(id=number, **stored), _anew(stored, clock.now())
        if one_statement(lambda unchanged=unchanged, anew=anew: unchanged.update(**anew)):  # type: ignore[misc]
            return True
    return False


def _anew(stored: dict[str, Any], now: datetime) -> dict[str, Any]:
    secret, previous, headers, until = (stored[column] for column in COLUMNS)
    if until is None or until <= now:
        previous, until = "", None  # it signs no more: nobody needs it again
    tokens = [crypto.with_first_key(token) if token else "" for token in (secret, previous, headers)]
    return dict(zip(COLUMNS, [*tokens, until], strict=True))
