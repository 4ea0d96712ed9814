"""Checks the signature and age of a request, as every endpoint should (Standard Webhooks).

It does not use the hub's code, because an endpoint is another program.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from collections.abc import Mapping

TOLERANCE_SECONDS = 300


def is_genuine(secret: str, headers: Mapping[str, str], body: bytes) -> bool:
    key = base64.b64decode(secret.removeprefix("whsec_"))
    timestamp = headers.get("webhook-timestamp", "")
    if not timestamp.isdigit() or abs(time.time() - int(timestamp)) > TOLERANCE_SECONDS:
        return False
    content = f"{headers.get('webhook-id', '')}.{timestamp}.".encode() + body
    expected = base64.b64encode(hmac.digest(key, content, hashlib.sha256)).decode()
    # During a rotation there are two signatures.
    signatures = headers.get("webhook-signature", "").split()
    return any(hmac.compare_digest(signature.encode(), f"v1,{expected}".encode()) for signature in signatures)
