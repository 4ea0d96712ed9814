"""Claims about requests: the received bytes, signatures and attempt numbers match the stored rows."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections import defaultdict
from collections.abc import Iterator

from tools.torture.claims.attempts import sagas_with_paths
from tools.torture.claims.faults import SLACK_SECONDS
from tools.torture.config import LEASE_SECONDS
from tools.torture.observations import Observations, Receipt
from tools.torture.prepare import key_of

TERMINAL = ("Completed", "DeadLettered")
# A lease, and the time for which its worker may be stopped. The standard allows five minutes.
MAX_AGE_SECONDS = 6 * LEASE_SECONDS


def same_bytes(observed: Observations) -> Iterator[str]:
    bodies: dict[str, set[str]] = defaultdict(set)
    sagas = {(event.uid, path): saga for saga, event, path in sagas_with_paths(observed)}
    for receipt in observed.receipts:
        bodies[receipt.uid].add(receipt.body)
        saga = sagas.get((receipt.uid, receipt.path))
        if saga is None:
            yield f"{receipt.uid} was received at {receipt.path}, but there is no such delivery"
        elif not 1 <= receipt.attempt <= saga.attempt_count + (saga.status not in TERMINAL):
            yield f"{receipt.uid} was received at {receipt.path} as attempt {receipt.attempt} of {saga.attempt_count}"
    for uid, hashes in bodies.items():
        if len(hashes) > 1:
            yield f"{uid} was sent with {len(hashes)} different bodies"


def as_stored_and_signed(observed: Observations) -> Iterator[str]:
    """Computed from the row and the definition of the signature, without the hub's code."""
    bodies = {event.uid: event.body for event in observed.events.values()}
    hashes = {uid: hashlib.sha256(body).hexdigest() for uid, body in bodies.items()}
    for receipt in observed.receipts:
        name = f"{receipt.uid} at {receipt.path}, attempt {receipt.attempt}"
        if receipt.uid not in bodies:
            continue  # reported by another claim
        if receipt.body != hashes[receipt.uid]:
            yield f"{name}: the body does not match the stored event"
        elif receipt.signature != signature(receipt, bodies[receipt.uid]):
            yield f"{name}: the signature does not match the secret of its subscription"
        elif not _is_fresh(receipt):
            yield f"{name}: signed at {receipt.timestamp} and received at {receipt.at:.3f}"


def signature(receipt: Receipt, body: bytes) -> str:
    """`v1` of Standard Webhooks."""
    content = f"{receipt.uid}.{receipt.timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.digest(key_of(receipt.path), content, "sha256")).decode()


def _is_fresh(receipt: Receipt) -> bool:
    """Requests are signed when they are leased; a worker that was stopped sends late."""
    if not receipt.timestamp.isdigit():
        return False
    return -SLACK_SECONDS <= receipt.at - int(receipt.timestamp) <= MAX_AGE_SECONDS
