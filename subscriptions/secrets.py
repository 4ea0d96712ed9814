"""A subscription's signing secret: shown when it is made, and replaced without a gap."""

from __future__ import annotations

from webhookhub import cipher
from webhookhub.conf import hub
from webhookhub.db import clock
from webhookhub.db.errors import UnfitDatabase
from webhookhub.db.retry import one_statement
from webhookhub.logs import Fact, log

from .models import Subscription
from .signing import for_the_receiver, new_secret

SAMPLE = 5


class RotationRefused(Exception):
    """Nothing was changed; the message says why."""


class RotationConflict(RotationRefused):
    """Somebody else has changed the secret at the same moment."""


class OverlapRunning(RotationRefused):
    """The secret that was replaced last has been promised to sign for a while longer."""


def shown_to_the_receiver(subscription: Subscription) -> str:
    """What the receiver needs to check signatures: for the one moment at which it is shown."""
    return for_the_receiver(cipher.decrypt(subscription.secret))


def rotate(subscription: Subscription, scheme: str | None = None, *, force: bool = False) -> str:
    """Replace the signing secret; both sign for a while. Returns what the receiver needs, which is not shown again.

    Only two can sign, so a rotation during the overlap of an earlier one would end that at once: `force` allows it.
    """
    now = clock.now()
    until = subscription.previous_secret_until
    if until is not None and now < until and not force:
        raise OverlapRunning(
            f"the secret before the present one signs as well until {until:%Y-%m-%d %H:%M:%S} UTC, "
            "and replacing the present one would end that at once"
        )
    scheme = scheme or subscription.signing_scheme
    secret = new_secret(scheme)
    overlap = hub().secret_overlap
    unchanged = Subscription.objects.filter(id=subscription.id, secret=subscription.secret)
    replaced = one_statement(
        lambda: unchanged.update(
            secret=cipher.encrypt(secret),
            signing_scheme=scheme,
            previous_secret=subscription.secret if overlap else "",
            previous_secret_until=now + overlap if overlap else None,
            updated_at=now,
        )
    )
    if not replaced:
        raise RotationConflict(f"the secret of subscription {subscription.id} was changed by somebody else just now")
    subscription.refresh_from_db()
    log(Fact.SECRET_ROTATED, subscription_id=subscription.id, signing_scheme=scheme)
    return for_the_receiver(secret)


def require_keys() -> None:
    """Raises UnfitDatabase if the keys in force are others than those the secrets are stored under.

    Without this, a worker started with wrong keys would fail every delivery there is. A sample is enough for that; a
    single secret that cannot be opened is its own delivery's failure.
    """
    newest = Subscription.objects.order_by("-id").values_list("secret", flat=True)[:SAMPLE]
    secrets = list(newest)
    if secrets and not any(_opens(secret) for secret in secrets):
        raise UnfitDatabase(
            "none of WEBHOOKHUB_ENCRYPTION_KEYS opens the stored secrets; add the key that they were encrypted with"
        )


def _opens(token: str) -> bool:
    try:
        cipher.decrypt(token)
    except (cipher.Undecipherable, ValueError):  # ValueError: there are no keys at all
        return False
    return True
