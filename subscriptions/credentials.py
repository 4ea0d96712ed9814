"""The credentials that the hub needs at an endpoint: a client certificate, and an OAuth2 client that gets tokens.

They are one encrypted document in one column, which is NULL for most subscriptions: a worker reads it with the rest.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any, NamedTuple

from webhookhub import crypto
from webhookhub.conf import hub
from webhookhub.egress.messages import ClientCertificate


class OAuth2Client(NamedTuple):
    """What the token server needs for the grant type client_credentials."""

    token_url: str
    client_id: str
    client_secret: str
    scope: str = ""
    audience: str = ""
    # How the client identifies itself: in the header (`basic`) or in the body (`post`).
    authentication: str = "basic"

    def __repr__(self) -> str:
        return "OAuth2Client(…)"


class Credentials(NamedTuple):
    certificate: ClientCertificate | None = None
    oauth2: OAuth2Client | None = None


class InvalidCredentials(ValueError):
    """Nothing was stored; `errors` maps each field to its error."""

    def __init__(self, errors: dict[str, str]) -> None:
        super().__init__("; ".join(f"{field}: {error}" for field, error in errors.items()))
        self.errors = errors


class Unreadable(Exception):
    """No key in use decrypts them, or they are not a document of this module."""


def parse(token: str | None) -> Credentials:
    """The credentials of an endpoint, or Unreadable. `token` is the column."""
    return Credentials() if token is None else _parse(token, hub().encryption_keys)


# Decrypted once: a worker sends thousands of requests to the same endpoint. The same object for all of them, so that
# it is compared quickly.
@lru_cache(maxsize=1000)
def _parse(token: str, keys: tuple[str, ...]) -> Credentials:
    try:
        document = json.loads(crypto.decrypt(token))
        pair, client = document.get("certificate"), document.get("oauth2")
        return Credentials(
            None if pair is None else ClientCertificate(pair["chain"].encode(), pair["key"].encode()),
            None if client is None else OAuth2Client(**client),
        )
    except (crypto.Undecipherable, ValueError, KeyError, TypeError, AttributeError):
        raise Unreadable from None


def serialize(credentials: Credentials) -> str | None:
    document: dict[str, Any] = {}
    if credentials.certificate is not None:
        chain, key = credentials.certificate
        document["certificate"] = {"chain": chain.decode(), "key": key.decode()}
    if credentials.oauth2 is not None:
        document["oauth2"] = credentials.oauth2._asdict()
    return crypto.encrypt(json.dumps(document)) if document else None
