"""Show and rotate a subscription's signing secret."""

from __future__ import annotations

from datetime import datetime

from django.utils.translation import gettext as _

from webhookhub import crypto
from webhookhub.auditlog import actions
from webhookhub.auditlog.record import record
from webhookhub.conf import hub
from webhookhub.db import clock
from webhookhub.db.retry import in_transaction
from webhookhub.logs import Log, log

from .endpoint_models import Endpoint, EndpointSettings
from .models import Subscription, log_fields
from .signing import endpoint_key, new_secret


class RotationRefused(Exception):
    """Nothing was changed; the message says why."""


class RotationConflict(RotationRefused):
    """Another request changed the secret at the same time."""


class OverlapRunning(RotationRefused):
    """The previous secret still signs."""


class WrongKeys(RotationRefused):
    """The encryption keys differ from those of the other processes, or the key of this secret is lost."""


def reveal(subscription: EndpointSettings) -> str:
    """The key that the receiver needs to check signatures. Show it only once, when it is new."""
    return endpoint_key(crypto.decrypt(subscription.secret))


def overlap_until(subscription: EndpointSettings) -> datetime | None:
    """Until when the previous secret signs too; None if it does not."""
    until = subscription.previous_secret_until
    return until if until is not None and clock.now() < until else None


def rotate(
    subscription: Subscription | Endpoint, scheme: str | None = None, *, force: bool = False, key_lost: bool = False
) -> str:
    """Replace the signing secret of an endpoint and return the receiver's key. Both secrets sign during an overlap.

    Of a subscription that shares an endpoint, this is for the subscription alone: it gets an endpoint of its own.
    Only two secrets can sign: during an overlap, `force` allows a rotation that ends it at once.
    A secret that the encryption keys do not open is replaced only with `key_lost`. Otherwise the keys may be wrong
    here, and the other processes could open neither the old secret nor the new one.
    """
    now = clock.now()
    until = overlap_until(subscription)
    opens = crypto.opens(subscription.secret)
    if not opens and not key_lost:
        raise WrongKeys(
            _(
                "none of WEBHOOKHUB_ENCRYPTION_KEYS opens the current secret of subscription %(number)s; "
                "use the keys that the other processes have, or add the key that it was encrypted with"
            )
            % {"number": subscription.id}
        )
    if opens and until is not None and not force:
        raise OverlapRunning(
            _("the previous secret signs too until %(until)s, and a rotation now would end that at once")
            % {"until": f"{until:%Y-%m-%d %H:%M:%S} UTC"}
        )
    scheme = scheme or subscription.signing_scheme
    secret = new_secret(scheme)
    overlap = hub().secret_overlap if opens else None
    model = type(subscription)
    unchanged = model._default_manager.filter(id=subscription.id, secret=subscription.secret)

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
                _("another request changed the secret of subscription %(number)s at the same time")
                % {"number": subscription.id}
            )
        details = {"scheme": scheme, "forced": force or key_lost}
        record(actions.ROTATE, subscription, name=subscription.audit_name, details=details)

    in_transaction(replace)
    subscription.refresh_from_db()
    log(Log.SECRET_ROTATED, **log_fields(subscription), signing_scheme=scheme)
    return endpoint_key(secret)


def require_keys() -> None:
    """Raise UnsuitableDatabase under wrong keys: a worker started with them would fail every delivery."""
    Subscription.objects.require_keys()
