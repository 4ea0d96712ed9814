"""Re-encrypt all stored secrets and headers after a change of the encryption keys."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from webhookhub import crypto
from webhookhub.auditlog import actions
from webhookhub.auditlog.record import record
from webhookhub.db import clock
from webhookhub.db.retry import one_statement

from .endpoint_models import Endpoint

# Concurrent changes of one row are rare; this many in a row mean another problem.
MAX_TRIES = 10
COLUMNS = ("secret", "previous_secret", "custom_headers", "credentials", "previous_secret_until")


@dataclass
class Result:
    """The count of re-encrypted endpoints, and the ids of the others."""

    done: int = 0
    undecryptable: list[int] = field(default_factory=list)
    changing: list[int] = field(default_factory=list)


def reencrypt() -> Result:
    """Encrypt everything with the first key; subscriptions follow their endpoints. What cannot be decrypted is left."""
    result = Result()
    record(actions.REENCRYPT, kind="endpoint")
    for pk in list(Endpoint.objects.order_by("id").values_list("id", flat=True)):
        try:
            if _reencrypt(pk):
                result.done += 1
            else:
                result.changing.append(pk)
        except crypto.Undecipherable:
            result.undecryptable.append(pk)
    return result


def _reencrypt(pk: int) -> bool:
    """Compare and set, so that no concurrent rotation or edit is undone.

    Retried after a miss: a rotation keeps the previous secret as stored, which may be under the old key.
    """
    for _ in range(MAX_TRIES):
        stored = Endpoint.objects.filter(id=pk).values(*COLUMNS).get()
        unchanged, new = Endpoint.objects.filter(id=pk, **stored), _with_first_key(stored, clock.now())
        if one_statement(lambda unchanged=unchanged, new=new: unchanged.update(**new)):  # type: ignore[misc]
            return True
    return False


def _with_first_key(stored: dict[str, Any], now: datetime) -> dict[str, Any]:
    secret, previous, headers, credentials, until = (stored[column] for column in COLUMNS)
    if until is None or until <= now:
        previous, until = "", None  # it no longer signs
    tokens = [crypto.with_first_key(token) if token else token for token in (secret, previous, headers, credentials)]
    return dict(zip(COLUMNS, [*tokens, until], strict=True))
