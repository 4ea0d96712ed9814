"""Creates, checks and revokes API keys.

A key has the form `whk_<id>_<secret>`. The id finds the row, and the secret is compared with the row's hash.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils.translation import gettext as _

from events.intake import is_the_hub
from webhookhub.auditlog import actions
from webhookhub.auditlog.record import record
from webhookhub.conf import hub
from webhookhub.db import clock
from webhookhub.db.clock import UtcNow
from webhookhub.db.compiled import CompiledSelect, columns_of
from webhookhub.logs import Log, log

from .models import ApiKey, parse_networks
from .scopes import HUB_WIDE, SCOPES

PREFIX = "whk"
ID_BYTES = 6
SECRET_BYTES = 32
NAME_LENGTH = 100
NETWORKS_LENGTH = 500
MAX_RATE = 100_000
LAST_USED_INTERVAL = timedelta(minutes=1)
WARNING_INTERVAL = timedelta(days=1)
NO_HASH = "0" * 64
# A revocation must have effect within a second.
CACHE_SECONDS = 0.8


class InvalidKey(ValueError):
    """A field of a new key is invalid; nothing was stored."""

    def __init__(self, field: str, why: str) -> None:
        super().__init__(f"{field} {why}")
        self.field = field
        self.why = why


@dataclass(frozen=True)
class Caller:
    """The key that a request was sent with, and the database's time when it was read."""

    key: ApiKey
    now: datetime


class _Cached(NamedTuple):
    """A caller and when its key was read, by this process's clock."""

    caller: Caller
    read_at: float


# When the log was last warned of a key that expires.
_warned_at: dict[int, datetime] = {}
# By key id. Only valid keys are added, so there are no more than keys in the database.
_cache: dict[str, _Cached] = {}


def create(
    name: str,
    scopes: Iterable[str],
    *,
    by: str,
    source: str = "",
    expires_at: datetime | None = None,
    events_per_second: int | None = None,
    networks: str = "",
) -> tuple[ApiKey, str]:
    """Returns the new key and its text, which is not stored."""
    chosen = sorted(set(scopes))
    check(name, chosen, source, expires_at, events_per_second, networks)
    key_id, secret = secrets.token_hex(ID_BYTES), secrets.token_urlsafe(SECRET_BYTES)
    key = ApiKey(
        key_id=key_id,
        secret_sha256=_hash(secret),
        name=name,
        scopes=" ".join(chosen),
        source=source,
        expires_at=expires_at,
        events_per_second=events_per_second,
        networks=networks,
        created_by=by[:150],
    )
    try:
        with transaction.atomic():
            key.save(force_insert=True)
            details = {
                "key_id": key_id,
                "scopes": chosen,
                "source": source,
                "networks": networks,
                "expires_at": expires_at,
            }
            record(actions.CREATE_KEY, key, by=by, details=details)
    except IntegrityError:
        raise InvalidKey("name", _("%(name)s is taken; choose another") % {"name": repr(name)}) from None
    log(Log.API_KEY_CREATED, key_id=key_id, name=name, scopes=key.scopes, source=source, by=key.created_by)
    return key, f"{PREFIX}_{key_id}_{secret}"


def check(
    name: str,
    scopes: list[str],
    source: str,
    expires_at: datetime | None,
    events_per_second: int | None,
    networks: str = "",
) -> None:
    """Raises InvalidKey if a field of a new key is invalid."""
    _check_name("name", name)
    if source:
        _check_name("source", source)
    if not scopes:
        raise InvalidKey("scope", _("is missing; give at least one of %(scopes)s") % {"scopes": ", ".join(SCOPES)})
    for scope in scopes:
        if scope not in SCOPES:
            raise InvalidKey(
                "scope",
                _("must not include %(scope)s; valid scopes are %(scopes)s")
                % {"scope": repr(scope), "scopes": ", ".join(SCOPES)},
            )
        if source and scope in HUB_WIDE:
            raise InvalidKey(
                "scope", _("must not include %(scope)s, which is only for a key without a source") % {"scope": scope}
            )
    if expires_at is not None and expires_at <= clock.now():
        raise InvalidKey("expires_at", _("must be in the future"))
    if events_per_second is not None and not 1 <= events_per_second <= MAX_RATE:
        raise InvalidKey("events_per_second", _("must be an integer from 1 to %(limit)s") % {"limit": MAX_RATE})
    try:
        parse_networks(networks)
    except ValueError as error:
        why = _("must be networks in CIDR form, separated by commas (%(error)s)")
        raise InvalidKey("networks", why % {"error": error}) from None
    if len(networks) > NETWORKS_LENGTH:
        raise InvalidKey("networks", _("must have at most %(limit)s characters") % {"limit": NETWORKS_LENGTH})


def revoke(key: ApiKey, *, by: str) -> bool:
    """Revokes the key. Returns False if it was revoked before."""
    with transaction.atomic():
        revoked = bool(ApiKey.objects.filter(pk=key.pk, revoked_at__isnull=True).update(revoked_at=UtcNow()))
        if revoked:
            record(actions.REVOKE_KEY, key, by=by, details={"key_id": key.key_id})
    key.refresh_from_db()
    if revoked:
        log(Log.API_KEY_REVOKED, key_id=key.key_id, name=key.name, by=by)
    return revoked


def find_cached(text: str) -> Caller | None:
    """Like find(), from memory for CACHE_SECONDS after the key was read: so long may a change take to have effect."""
    key_id, secret_hash = _parts(text)
    cached = _cache.get(key_id)
    if cached is not None:
        elapsed = time.monotonic() - cached.read_at
        # Any other secret is looked up like an unknown key: the time must not reveal which keys are in use.
        if elapsed < CACHE_SECONDS and hmac.compare_digest(cached.caller.key.secret_sha256, secret_hash):
            key, now = cached.caller.key, cached.caller.now + timedelta(seconds=elapsed)
            return Caller(key, now) if key.expires_at is None or key.expires_at > now else None
    read_at = time.monotonic()
    caller = find(text)
    if caller is not None:
        _cache[key_id] = _Cached(caller, read_at)
    return caller


def find(text: str) -> Caller | None:
    """The caller with this key; None if it is not valid. A wrong key takes the same time as a right one."""
    key_id, secret_hash = _parts(text)
    rows = _usable(key_id=key_id)
    key = ApiKey.from_db(None, COLUMNS, rows[0][:-1]) if rows else None
    matches = hmac.compare_digest(key.secret_sha256 if key else NO_HASH, secret_hash)
    if key is None or not matches:
        return None
    read_at: datetime = rows[0][-1]
    _note_use(key, read_at)
    _warn_of_expiry(key, read_at)
    return Caller(key, read_at)


COLUMNS = columns_of(ApiKey)
_usable = CompiledSelect(
    lambda key_id: (
        ApiKey.objects.usable().filter(key_id=key_id).annotate(read_at=UtcNow()).values_list(*COLUMNS, "read_at")
    )
)


def _parts(text: str) -> tuple[str, str]:
    """The id of a key, empty if it is none, and the hash of its secret."""
    prefix, _, rest = text.partition("_")
    key_id, _, secret = rest.partition("_")
    is_valid = prefix == PREFIX and len(key_id) == 2 * ID_BYTES and key_id.isascii()
    return key_id if is_valid else "", _hash(secret)


def _note_use(key: ApiKey, now: datetime) -> None:
    """Written at most once a minute, to save a write per request."""
    before = now - LAST_USED_INTERVAL
    if key.last_used_at is None or key.last_used_at < before:
        stale = Q(last_used_at__isnull=True) | Q(last_used_at__lt=before)
        ApiKey.objects.filter(stale, pk=key.pk).update(last_used_at=now)


def _warn_of_expiry(key: ApiKey, now: datetime) -> None:
    """Logged once a day by each process that gets requests with the key."""
    if key.expires_at is None or key.expires_at - now > hub().key_expiry_warning:
        return
    if _warned_at.get(key.id, now - WARNING_INTERVAL) <= now - WARNING_INTERVAL:
        _warned_at[key.id] = now
        log(Log.API_KEY_EXPIRES, key_id=key.key_id, name=key.name, expires_at=key.expires_at.isoformat())


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode(errors="surrogateescape")).hexdigest()


def _check_name(field: str, value: str) -> None:
    if not 1 <= len(value) <= NAME_LENGTH or not value.isprintable() or value != value.strip():
        raise InvalidKey(
            field,
            _("must have 1 to %(limit)s characters, without control characters and without spaces at either end")
            % {"limit": NAME_LENGTH},
        )
    # The hub's own source may use reserved event types.
    if is_the_hub(value):
        why = _("must not be %(name)s, which is reserved for the hub; choose another")
        raise InvalidKey(field, why % {"name": repr(value)})
