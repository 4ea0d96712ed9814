"""The fields that endpoints and subscriptions share, and the errors of storing them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

from subscriptions import credential_services, health, secrets, services, verification
from subscriptions.endpoint_models import Endpoint
from subscriptions.models import Subscription
from webhookhub.db import clock
from webhookhub.db.requirements import UnsuitableDatabase

from .problems import Problem
from .schemas.subscriptions import ClientCertificateOut, OAuth2ClientOut, RotateIn

Target = TypeVar("Target", Endpoint, Subscription)
# Of a response: those that are not columns, or are shown in another form.
SHARED = {
    "customer",
    "base_delay",
    "verification_result",
    "header_names",
    "client_certificate",
    "oauth2_client",
    "disabled_reason",
}


def shared(target: Endpoint | Subscription, disabled_reason: str) -> dict[str, Any]:
    delay = target.base_delay
    return {
        "customer": target.customer_key or None,
        "base_delay": None if delay is None else delay.total_seconds(),
        "verification_result": verification.describe(target.verification_result),
        "header_names": services.header_names(target),
        "client_certificate": _certificate(target),
        "oauth2_client": _oauth2_client(target),
        "disabled_reason": health.describe(disabled_reason) or None,
    }


def _certificate(target: Endpoint | Subscription) -> ClientCertificateOut | None:
    facts = credential_services.certificate_facts(target)
    return facts and ClientCertificateOut(**facts._asdict(), expires_soon=facts.expires_soon(clock.now()))


def _oauth2_client(target: Endpoint | Subscription) -> OAuth2ClientOut | None:
    client = credential_services.shown_oauth2(target)
    return client and OAuth2ClientOut(**client._asdict())


def columns(fields: dict[str, Any]) -> dict[str, Any]:
    delay = fields.get("base_delay")
    return fields if delay is None else {**fields, "base_delay": timedelta(seconds=delay)}


def saved(save: Callable[[], Target]) -> Target:
    try:
        target = save()
    except services.InvalidSubscription as error:
        errors = [("customer" if field == "customer_key" else field, why) for field, why in error.errors.items()]
        raise Problem(422, "; ".join(f"{field}: {why}" for field, why in errors), errors) from None
    except services.AlreadySubscribed as error:
        raise Problem(409, f"Nothing was stored: {error}.", [("callback_url", str(error))]) from None
    except UnsuitableDatabase as error:
        raise Problem(409, f"Nothing was stored: {error}.") from None
    # Read the columns that the database has set.
    target.refresh_from_db()
    return target


def rotated(target: Endpoint | Subscription, body: RotateIn) -> str:
    """The new signing secret."""
    try:
        return secrets.rotate(target, body.signing_scheme, force=body.force)
    except secrets.RotationRefused as error:
        raise Problem(409, f"Nothing was changed: {error}.") from None
