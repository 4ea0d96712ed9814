"""Whether what was received is what is stored: the bytes, the signature and the numbers."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections import defaultdict
from collections.abc import Iterator

from .deliveries import addressed
from .evidence import Evidence, Receipt
from .faults import SLACK_SECONDS
from .plan import LEASE_SECONDS
from .stage import key_of

TERMINAL = ("Completed", "DeadLettered")


def same_bytes(evidence: Evidence) -> Iterator[str]:
    bodies: dict[str, set[str]] = defaultdict(set)
    known = {(event.uid, path): saga for saga, event, path in addressed(evidence)}
    for receipt in evidence.receipts:
        bodies[receipt.uid].add(receipt.body)
        saga = known.get((receipt.uid, receipt.path))
        if saga is None:
            yield f"{receipt.uid} was received at {receipt.path}, and there is no such delivery"
        elif not 1 <= receipt.attempt <= saga.attempt_count + (saga.status not in TERMINAL):
            yield f"{receipt.uid} was received at {receipt.path} as attempt {receipt.attempt} of {saga.attempt_count}"
    yield from (f"{uid} was sent with {len(found)} different bodies" for uid, found in bodies.items() if len(found) > 1)


def as_stored_and_signed(evidence: Evidence) -> Iterator[str]:
    """By the row and by the definition of the signature, without the hub's own code."""
    bodies = {event.uid: event.body for event in evidence.events.values()}
    hashes = {uid: hashlib.sha256(body).hexdigest() for uid, body in bodies.items()}
    for receipt in evidence.receipts:
        where = f"{receipt.uid} at {receipt.path}, attempt {receipt.attempt}"
        if receipt.uid not in bodies:
            continue  # named by another claim
        if receipt.body != hashes[receipt.uid]:
            yield f"{where}: the bytes are not those that the stored event makes"
        elif receipt.signature != signature(receipt, bodies[receipt.uid]):
            yield f"{where}: the signature is not that of its subscription's secret"
        elif not _is_fresh(receipt):
            yield f"{where}: was signed as of {receipt.timestamp} and received at {receipt.at:.3f}"


def signature(receipt: Receipt, body: bytes) -> str:
    """As Standard Webhooks defines `v1`."""
    content = f"{receipt.uid}.{receipt.timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.digest(key_of(receipt.path), content, "sha256")).decode()


def _is_fresh(receipt: Receipt) -> bool:
    """Signed when it was leased, or at least not in another life; a worker that was stopped sends late."""
    if not receipt.timestamp.isdigit():
        return False
    return -SLACK_SECONDS <= receipt.at - int(receipt.timestamp) <= LONGEST_SECONDS


# A lease, and as much again in which its worker is stopped; receivers that follow the standard allow five minutes.
LONGEST_SECONDS = 6 * LEASE_SECONDS
