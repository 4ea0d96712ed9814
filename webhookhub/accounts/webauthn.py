"""Security keys. python-fido2 verifies the responses; it is loaded when a key is used."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.http import HttpRequest

from webhookhub.auditlog import actions
from webhookhub.auditlog.record import record
from webhookhub.conf import hub
from webhookhub.db.clock import UtcNow
from webhookhub.db.retry import one_statement

from . import second_factor
from .models import NAME_LENGTH, SecondFactor

if TYPE_CHECKING:
    from fido2.server import Fido2Server

CHALLENGE = "webauthn"


class InvalidKey(ValueError):
    """The browser's response is not valid."""


def registration_options(request: HttpRequest, user: User) -> dict[str, Any]:
    """What the browser needs to add a key. The challenge is kept in the session."""
    from fido2.webauthn import PublicKeyCredentialUserEntity

    entity = PublicKeyCredentialUserEntity(
        id=hashlib.sha256(f"webhookhub {user.pk}".encode()).digest(),
        name=user.get_username(),
        display_name=user.get_username(),
    )
    options, request.session[CHALLENGE] = _server(request).register_begin(
        entity, credentials=[data for _, data in _credentials(user)], user_verification=None
    )
    return dict(options)


def add_key(request: HttpRequest, user: User, response: str, name: str) -> list[str]:
    """Returns new recovery codes if the user has none. Raises InvalidKey."""
    state = request.session.pop(CHALLENGE, None)
    try:
        found = _server(request).register_complete(state, json.loads(response))
        data = found.credential_data
        assert data is not None
    except Exception as error:  # noqa: BLE001  # whatever the library says about a wrong response
        raise InvalidKey(str(error)) from None
    try:
        with transaction.atomic():
            SecondFactor.objects.create(
                user=user,
                kind=SecondFactor.WEBAUTHN,
                name=name[:NAME_LENGTH],
                credential_sha256=hashlib.sha256(data.credential_id).hexdigest(),
                data=base64.b64encode(data).decode(),
                counter=found.counter,
            )
            record(actions.ADD_SECOND_FACTOR, user, details={"method": SecondFactor.WEBAUTHN, "name": name})
            return second_factor.codes_if_none(user)
    except IntegrityError:
        raise InvalidKey("this key was added before") from None


def log_in_options(request: HttpRequest, user: User) -> dict[str, Any] | None:
    """What the browser needs to use one of the user's keys; None if there is none."""
    credentials = [data for _, data in _credentials(user)]
    if not credentials:
        return None
    options, request.session[CHALLENGE] = _server(request).authenticate_begin(credentials)
    return dict(options)


def use_key(request: HttpRequest, user: User, response: str) -> bool:
    """Whether the response is valid, and newer than the key's last one."""
    state = request.session.pop(CHALLENGE, None)
    credentials = _credentials(user)
    try:
        document = json.loads(response)
        used = _server(request).authenticate_complete(state, [data for _, data in credentials], document)
        counter = _counter(document)
    except Exception:  # noqa: BLE001  # whatever the library says about a wrong response
        return False
    [factor] = [factor for factor, data in credentials if data.credential_id == used.credential_id]
    row = SecondFactor.objects.filter(pk=factor.pk)
    # Keys without a counter always send 0. Otherwise a counter that does not grow is a copy of the key.
    if counter or factor.counter:
        row = row.filter(counter__lt=counter)
    return bool(one_statement(lambda: row.update(counter=counter, last_used_at=UtcNow())))


def _counter(document: dict[str, Any]) -> int:
    from fido2.webauthn import AuthenticationResponse

    return int(AuthenticationResponse.from_dict(document).response.authenticator_data.counter)


def _credentials(user: User) -> list[tuple[SecondFactor, Any]]:
    from fido2.webauthn import AttestedCredentialData

    factors = SecondFactor.objects.filter(user=user, kind=SecondFactor.WEBAUTHN)
    return [(factor, AttestedCredentialData(base64.b64decode(factor.data))) for factor in factors]


def _server(request: HttpRequest) -> Fido2Server:
    from fido2.server import Fido2Server
    from fido2.webauthn import PublicKeyCredentialRpEntity

    origin = hub().public_url or f"{request.scheme}://{request.get_host()}"
    entity = PublicKeyCredentialRpEntity(name="WebhookHub", id=urlsplit(origin).hostname)
    return Fido2Server(entity, verify_origin=lambda found: found == origin)
