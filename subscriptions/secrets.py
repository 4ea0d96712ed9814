"""A subscription's secrets: shown when they are made, replaced without a gap, encrypted anew when the key changes."""

from __future__ import annotations

from collections.abc import Iterator

from webhookhub import cipher
from webhookhub.conf import hub
from webhookhub.db import clock
from webhookhub.logs import Fact, log

from .models import Subscription
from .signing import for_the_receiver, new_secret

BATCH = 200
ENCRYPTED_COLUMNS = ("secret", "previous_secret", "custom_headers")


class RotationConflict(Exception):
    """Somebody else has replaced the secret at the same moment."""


def shown_to_the_receiver(subscription: Subscription) -> str:
    """What the receiver needs to check signatures: for the one moment at which it is shown."""
    return for_the_receiver(cipher.decrypt(subscription.secret))


def rotate(subscription: Subscription, scheme: str | None = None) -> str:
    """Replace the signing secret; both sign for a while. Returns what the receiver needs, which is not shown again."""
    scheme = scheme or subscription.signing_scheme
    secret = new_secret(scheme)
    now = clock.now()
    replaced = Subscription.objects.filter(id=subscription.id, secret=subscription.secret).update(
        secret=cipher.encrypt(secret),
        signing_scheme=scheme,
        previous_secret=subscription.secret,
        previous_secret_until=now + hub().secret_overlap,
        updated_at=now,
    )
    if not replaced:
        raise RotationConflict(f"the secret of subscription {subscription.id} was replaced by somebody else just now")
    subscription.refresh_from_db()
    log(Fact.SECRET_ROTATED, subscription_id=subscription.id, signing_scheme=scheme)
    return for_the_receiver(secret)


def reencrypt() -> Iterator[int]:
    """Encrypt every secret anew with the first key, batch by batch; yields how many subscriptions each batch changed.

    Each row is compared and set, so a rotation at the same moment is not undone; it uses the first key already.
    """
    after = 0
    while True:
        rows = list(
            Subscription.objects.filter(id__gt=after).order_by("id").values_list("id", *ENCRYPTED_COLUMNS)[:BATCH]
        )
        if not rows:
            return
        changed = 0
        for id, *tokens in rows:
            stored = dict(zip(ENCRYPTED_COLUMNS, tokens, strict=True))
            anew = {name: cipher.with_first_key(token) if token else "" for name, token in stored.items()}
            changed += Subscription.objects.filter(id=id, **stored).update(**anew)
        after = rows[-1][0]
        yield changed
