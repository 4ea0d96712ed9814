"""A client of OpenID Connect: the authorization code flow with state, nonce and PKCE.

PyJWT verifies the tokens. It is loaded at the first log-in, so that web servers without single sign-on do without it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from webhookhub.conf import hub
from webhookhub.egress.fetch import FetchFailed, fetch

# Only signatures with a key that the provider alone has: never `none`, never a shared secret.
ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
SCOPES = "openid profile email"
DISCOVERY = "/.well-known/openid-configuration"
CACHE_SECONDS = 3600
# An unknown key makes the hub read the keys again, but not more often.
KEYS_SECONDS = 60
LEEWAY_SECONDS = 60
# After a failure, the configuration is not read again for so long.
RETRY_SECONDS = 10
# Log-ins for which the hub waits for the provider at the same time, each in a thread of the web server.
PARALLEL = 4


class ProviderError(Exception):
    """The provider cannot be used, or its response is not valid. The text is for the log."""


@dataclass(frozen=True)
class Flow:
    """What the hub remembers between the request to the provider and its response."""

    state: str
    nonce: str
    verifier: str


class _Cached:
    """The provider's configuration and keys."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reading = threading.Lock()
        self.clear()

    def clear(self) -> None:
        self._configuration: dict[str, Any] = {}
        self._read_at = self._keys_at = self._failed_at = float("-inf")
        self._keys: Any = None

    def configuration(self) -> dict[str, Any]:
        """One thread at a time reads it: visitors must not occupy the web server while the provider hangs."""
        if time.monotonic() - self._read_at <= CACHE_SECONDS:
            return self._configuration
        if time.monotonic() - self._failed_at < RETRY_SECONDS or not self._reading.acquire(blocking=False):
            raise ProviderError("the provider has not responded yet")
        try:
            self._configuration = _discover()
            self._read_at = time.monotonic()
        except ProviderError:
            self._failed_at = time.monotonic()
            raise
        finally:
            self._reading.release()
        return self._configuration

    def key(self, token: str) -> Any:
        import jwt

        url = str(self.configuration()["jwks_uri"])
        kid = jwt.get_unverified_header(token).get("kid")
        with self._lock:
            found = self._find(kid)
            if found is None and time.monotonic() - self._keys_at > KEYS_SECONDS:
                self._keys = jwt.PyJWKSet.from_dict(_json(url, "keys"))
                self._keys_at = time.monotonic()
                found = self._find(kid)
        if found is None:
            raise ProviderError("the ID token is signed with an unknown key")
        return found

    def _find(self, kid: str | None) -> Any:
        if self._keys is None:
            return None
        keys = [key for key in self._keys.keys if key.public_key_use in (None, "sig")]
        if kid is None:
            return keys[0] if len(keys) == 1 else None
        return next((key for key in keys if key.key_id == kid), None)


cached = _Cached()
_waiting = threading.BoundedSemaphore(PARALLEL)


def begin(redirect_uri: str) -> tuple[str, Flow]:
    """The URL to send the browser to, and what must be remembered in that browser."""
    flow = Flow(secrets.token_urlsafe(32), secrets.token_urlsafe(32), secrets.token_urlsafe(48))
    challenge = base64.urlsafe_b64encode(hashlib.sha256(flow.verifier.encode()).digest()).rstrip(b"=").decode()
    query = {
        "response_type": "code",
        "client_id": hub().oidc_client_id,
        "redirect_uri": redirect_uri,
        "scope": SCOPES,
        "state": flow.state,
        "nonce": flow.nonce,
        "code_challenge": challenge,
        "code_challenge_method": "S256",
    }
    endpoint = str(cached.configuration()["authorization_endpoint"])
    return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(query)}", flow


def claims_of(code: str, flow: Flow, redirect_uri: str) -> dict[str, Any]:
    """The verified claims of the user who comes back from the provider with this code."""
    if not _waiting.acquire(blocking=False):
        raise ProviderError("too many log-ins are waiting for the provider")
    try:
        return _claims(code, flow, redirect_uri)
    finally:
        _waiting.release()


def _claims(code: str, flow: Flow, redirect_uri: str) -> dict[str, Any]:
    tokens = _tokens(code, flow, redirect_uri)
    claims = _verified(str(tokens.get("id_token", "")), flow.nonce)
    # Some providers have the groups and the e-mail address in the response of this endpoint only.
    endpoint, access_token = cached.configuration().get("userinfo_endpoint"), tokens.get("access_token")
    if endpoint and access_token:
        more = _json(str(endpoint), "user info", headers={"Authorization": f"Bearer {access_token}"})
        if more.get("sub") != claims["sub"]:
            raise ProviderError("the user info is about another user")
        claims = {**more, **claims}
    return claims


def groups_of(claims: dict[str, Any]) -> set[str]:
    """The user's groups at the provider. The claim's name may be a path, such as realm_access.roles."""
    name = hub().oidc_groups_claim
    value: Any = claims.get(name)
    if value is None:
        value = claims
        for part in name.split("."):
            value = value.get(part) if isinstance(value, dict) else None
    if isinstance(value, str):
        value = value.replace(",", " ").split()
    return {item for item in value if isinstance(item, str)} if isinstance(value, list) else set()


def _discover() -> dict[str, Any]:
    issuer = hub().oidc_issuer
    found = _json(issuer.rstrip("/") + DISCOVERY, "configuration")
    if str(found.get("issuer", "")).rstrip("/") != issuer.rstrip("/"):
        raise ProviderError("the provider calls itself by another name than WEBHOOKHUB_OIDC_ISSUER")
    for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
        # A provider with TLS must not lead to one without.
        if urlsplit(str(found.get(name, ""))).scheme not in {"https", urlsplit(issuer).scheme}:
            raise ProviderError(f"the provider's configuration has no valid {name}")
    return found


def _tokens(code: str, flow: Flow, redirect_uri: str) -> dict[str, Any]:
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": redirect_uri,
        "code_verifier": flow.verifier,
    }
    client, secret = hub().oidc_client_id, hub().oidc_client_secret
    headers: dict[str, str] = {}
    methods = cached.configuration().get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
    if "client_secret_basic" in methods:
        pair = f"{quote(client, safe='')}:{quote(secret, safe='')}"
        headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
    else:
        form |= {"client_id": client, "client_secret": secret}
    return _json(str(cached.configuration()["token_endpoint"]), "tokens", form=form, headers=headers)


def _verified(token: str, nonce: str) -> dict[str, Any]:
    import jwt

    try:
        claims: dict[str, Any] = jwt.decode(
            token,
            cached.key(token),
            algorithms=ALGORITHMS,
            audience=hub().oidc_client_id,
            issuer=str(cached.configuration()["issuer"]),
            leeway=LEEWAY_SECONDS,
            options={"require": ["exp", "iat", "iss", "aud", "sub"]},
        )
    except (jwt.PyJWTError, ValueError) as error:
        raise ProviderError(f"the ID token is not valid: {error}") from None
    if not secrets.compare_digest(str(claims.get("nonce", "")).encode(), nonce.encode()):
        raise ProviderError("the ID token has another nonce")
    if claims.get("azp", hub().oidc_client_id) != hub().oidc_client_id:
        raise ProviderError("the ID token is for another client")
    if not claims["sub"] or not isinstance(claims["sub"], str) or len(claims["sub"]) > 255:
        raise ProviderError("the ID token has no valid sub")
    return claims


def _json(url: str, what: str, **options: Any) -> dict[str, Any]:
    try:
        response = fetch(url, **options)
    except FetchFailed as error:
        raise ProviderError(f"no {what} from the provider: {error}") from None
    try:
        document = json.loads(response.body)
    except ValueError:
        document = None
    if response.status != 200 or not isinstance(document, dict):
        # `error` is one of a list of words; the description may contain anything.
        word = str(document.get("error", ""))[:50] if isinstance(document, dict) else ""
        raise ProviderError(f"no {what} from the provider: status {response.status} {word}".rstrip())
    return document
