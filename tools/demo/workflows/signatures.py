"""What a receiver does before anything else: see that a request comes from the hub, and recently (Standard Webhooks).

Written out and not taken from the hub: this side of the line is somebody else's program.
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
    # While a secret is being replaced there are two.
    given = headers.get("webhook-signature", "").split()
    return any(hmac.compare_digest(signature.encode(), f"v1,{expected}".encode()) for signature in given)
