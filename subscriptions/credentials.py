"""The credentials that the hub needs at an endpoint: a client certificate.

They are one encrypted document in one column, which is NULL for most subscriptions: a worker reads it with the rest.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any, NamedTuple

from webhookhub import crypto
from webhookhub.conf import hub
from webhookhub.egress.messages import ClientCertificate


class Credentials(NamedTuple):
    certificate: ClientCertificate | None = None


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
        certificate = document.get("certificate")
        return Credentials(
            None
            if certificate is None
            else ClientCertificate(*(certificate[part].encode() for part in ("chain", "key")))
        )
    except (crypto.Undecipherable, ValueError, KeyError, TypeError, AttributeError):
        raise Unreadable from None


def serialize(credentials: Credentials) -> str | None:
    document: dict[str, Any] = {}
    if credentials.certificate is not None:
        chain, key = credentials.certificate
        document["certificate"] = {"chain": chain.decode(), "key": key.decode()}
    return crypto.encrypt(json.dumps(document)) if document else None
