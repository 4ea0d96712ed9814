"""A subscription's signing secret: shown when it is made, and replaced without a gap."""

from __future__ import annotations

from datetime import datetime

from django.utils.translation import gettext as _

from webhookhub import crypto
from webhookhub.auditlog import actions
from webhookhub.auditlog.record import record
from webhookhub.conf import hub
from webhookhub.db import clock
from webhookhub.db.retry import in_transaction
from webhookhub.logs import Fact, log

from .models import Subscription
from .signing import for_the_receiver, new_secret


class RotationRefused(Exception):
    """Nothing was changed; the message says why."""


class RotationConflict(RotationRefused):
    """Somebody else has changed the secret at the same moment."""


class OverlapRunning(RotationRefused):
    """The secret that was replaced last has been promised to sign for a while longer."""


class WrongKeys(RotationRefused):
    """The keys in force are not those of the other processes, or the key of this secret is lost."""


def shown_to_the_receiver(subscription: Subscription) -> str:
    """What the receiver needs to check signatures: for the one moment at which it is shown."""
    return for_the_receiver(crypto.decrypt(subscription.secret))


def overlap_until(subscription: Subscription) -> datetime | None:
    """Until when the secret before the present one signs as well; None if there is none that does."""
    until = subscription.previous_secret_until
    return until if until is not None and clock.now() < until else None


def rotate(
    subscription: Subscription, scheme: str | None = None, *, force: bool = False, key_lost: bool = False
) -> str:
    """Replace the signing secret; both sign for a while. Returns what the receiver needs, which is not shown again.

    Only two can sign, so a rotation during the overlap of an earlier one would end that at once: `force` allows it.
    A secret that the keys in force do not open is replaced only if its key is lost for good, `key_lost`: else they are
    the wrong ones, and the other processes could open neither the old secret nor the new one.
    """
    now = clock.now()
    until = subscription.previous_secret_until
    opens = crypto.opens(subscription.secret)
    if not opens and not key_lost:
        raise WrongKeys(
            _(
                "none of WEBHOOKHUB_ENCRYPTION_KEYS opens the present secret of subscription %(number)s; "
                "use the keys that the other processes have, or add the key that it was encrypted with"
            )
            % {"number": subscription.id}
        )
    if opens and until is not None and now < until and not force:
        raise OverlapRunning(
            _(
                "the secret before the present one signs as well until %(until)s, "
                "and replacing the present one would end that at once"
            )
            % {"until": f"{until:%Y-%m-%d %H:%M:%S} UTC"}
        )
    scheme = scheme or subscription.signing_scheme
    secret = new_secret(scheme)
    overlap = hub().secret_overlap if opens else None
    unchanged = Subscription.objects.filter(id=subscription.id, secret=subscription.secret)

    def replace() -> None:
        replaced = unchanged.update(
            secret=crypto.encrypt(secret),
            signing_scheme=scheme,
            previous_secret=subscription.secret if overlap else "",
            previous_secret_until=now + overlap if overlap else None,
            updated_at=now,
        )
        if not replaced:
            raise RotationConflict(
                _("the secret of subscription %(number)s was changed by somebody else just now")
                % {"number": subscription.id}
            )
        record(
            actions.ROTATE,
            subscription,
            name=subscription.audit_name,
            details={"scheme": scheme, "forced": force or key_lost},
        )

    in_transaction(replace)
    subscription.refresh_from_db()
    log(Fact.SECRET_ROTATED, subscription_id=subscription.id, signing_scheme=scheme)
    return for_the_receiver(secret)


def require_keys() -> None:
    """Raises UnfitDatabase under wrong keys: a worker started with them would fail every delivery there is."""
    Subscription.objects.require_keys()
