"""Set, remove and describe the credentials of a subscription."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from django.db import transaction
from django.utils.translation import gettext as _

from webhookhub.auditlog import actions
from webhookhub.auditlog.record import record, url_without_query
from webhookhub.db import clock
from webhookhub.egress.urls import masked

from . import client_certificates, headers, oauth2
from .client_certificates import CertificateFacts
from .credentials import Credentials, InvalidCredentials, OAuth2Client, Unreadable, parse, serialize
from .endpoint_models import EndpointSettings
from .models import Subscription, locked


def set_certificate(subscription: Subscription, certificate: str, private_key: str) -> CertificateFacts:
    """Store a client certificate and its key in place of the present ones."""
    try:
        pair = client_certificates.check(certificate, private_key, clock.now())
    except client_certificates.UnacceptableCertificate as error:
        raise InvalidCredentials({error.field: str(error)}) from None
    facts = client_certificates.facts(pair)
    details = {"subject": facts.subject, "fingerprint": facts.fingerprint, "expires_at": facts.expires_at.isoformat()}
    _change(
        subscription, client_certificates.CERTIFICATE, lambda old: old._replace(certificate=pair),
        actions.SET_CERTIFICATE, details,
    )  # fmt: skip
    return facts


def remove_certificate(subscription: Subscription) -> bool:
    """Returns whether there was one."""
    return _remove(subscription, lambda old: old._replace(certificate=None), actions.REMOVE_CERTIFICATE)


def set_oauth2(subscription: Subscription, client: OAuth2Client) -> OAuth2Client:
    """Store an OAuth2 client in place of the present one; returns it as stored."""
    client = oauth2.check(client)
    if any(name.lower() == "authorization" for name in headers.stored_names(subscription.custom_headers)):
        raise InvalidCredentials(
            {"token_url": _("The custom headers contain Authorization, which the token is sent in. Remove it first.")}
        )
    details = {"token_url": url_without_query(client.token_url), "client_id": client.client_id}
    _change(subscription, "token_url", lambda old: old._replace(oauth2=client), actions.SET_OAUTH2, details)
    return client


def remove_oauth2(subscription: Subscription) -> bool:
    """Returns whether there was one."""
    return _remove(subscription, lambda old: old._replace(oauth2=None), actions.REMOVE_OAUTH2)


def shown_oauth2(subscription: EndpointSettings) -> OAuth2Client | None:
    """The OAuth2 client without its secret, and with hidden query values of its URL."""
    try:
        client = parse(subscription.credentials).oauth2
    except Unreadable:
        return None
    return client and client._replace(client_secret="", token_url=masked(client.token_url))


def certificate_facts(subscription: EndpointSettings) -> CertificateFacts | None:
    """What may be shown of the client certificate; None if there is none, or if the keys do not open it."""
    try:
        pair = parse(subscription.credentials).certificate
    except Unreadable:
        return None
    return None if pair is None else client_certificates.facts(pair)


def are_unreadable(subscription: Subscription) -> bool:
    try:
        parse(subscription.credentials)
    except Unreadable:
        return True
    return False


def fit_host(stored: EndpointSettings, url: object) -> bool:
    """Whether the stored credentials may be used at this URL: they were meant for one host."""
    if not isinstance(url, str) or stored.credentials is None:
        return True
    try:
        return bool(urlsplit(url).netloc == urlsplit(stored.callback_url).netloc)
    except ValueError:
        return True  # reported as an error of the URL


def _change(
    subscription: Subscription,
    field: str,
    new: Callable[[Credentials], Credentials],
    action: str,
    details: dict[str, Any],
) -> None:
    Subscription.objects.require_keys()
    with transaction.atomic():
        stored = locked(subscription)
        try:
            old = parse(stored.credentials)
        except Unreadable:
            raise InvalidCredentials(
                {field: _("None of WEBHOOKHUB_ENCRYPTION_KEYS opens the stored credentials. Remove them first.")}
            ) from None
        _store(stored, new(old))
        record(action, subscription, name=subscription.audit_name, details=details)
    subscription.refresh_from_db()


def _remove(subscription: Subscription, without: Callable[[Credentials], Credentials], action: str) -> bool:
    with transaction.atomic():
        stored = locked(subscription)
        try:
            old = parse(stored.credentials)
            new = without(old)
        except Unreadable:
            new, old = Credentials(), None  # nothing of it can be kept
        if removed := new != old:
            _store(stored, new)
            record(action, subscription, name=subscription.audit_name)
    subscription.refresh_from_db()
    return removed


def _store(stored: Subscription, credentials: Credentials) -> None:
    stored.credentials = serialize(credentials)
    pair = credentials.certificate
    stored.certificate_expires_at = None if pair is None else client_certificates.facts(pair).expires_at
    stored.save(update_fields={"credentials", "certificate_expires_at"})
