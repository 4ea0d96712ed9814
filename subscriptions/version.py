"""By what a form knows whether a subscription is still as it was shown there."""

from __future__ import annotations

import json

from django.utils.crypto import salted_hmac

from webhookhub import crypto

from . import services
from .models import Subscription

# A verification or another secret in between is no business of whoever edits the rest.
COLUMNS = sorted(services.EDITABLE - {services.HEADERS})


class ChangedSince(Exception):
    """Nothing was stored: somebody else has changed it since it was shown."""


def fingerprint(subscription: Subscription) -> str:
    """Of everything that people edit. Keyed: not all of it is for everybody who gets to see this."""
    values = [str(getattr(subscription, name)) for name in COLUMNS]
    values.append(_opened(subscription.custom_headers))
    return salted_hmac("subscriptions.version", json.dumps(values), algorithm="sha256").hexdigest()


def _opened(stored: str) -> str:
    """What is encrypted anew with another key is still the same."""
    try:
        return crypto.decrypt(stored) if stored else ""
    except crypto.Undecipherable:
        return stored
