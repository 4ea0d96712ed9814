"""The second factor of log-ins with a password: authenticator apps (TOTP), security keys (webauthn.py), and recovery
codes. Every code works once, in all processes: the last time step and each used code are in the database."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import struct
import time

from django.contrib.auth.models import User
from django.http import HttpRequest
from django.utils.crypto import salted_hmac

from webhookhub import crypto
from webhookhub.auditlog import actions
from webhookhub.auditlog.record import record
from webhookhub.conf import hub
from webhookhub.db.clock import UtcNow
from webhookhub.db.retry import in_transaction, one_statement

from .log_in import PASSWORD
from .models import RecoveryCode, SecondFactor
from .sessions import METHOD

STEP_SECONDS = 30
DIGITS = 6
# Clocks of phones may differ by one step.
TOLERATED_STEPS = 1
SECRET_BYTES = 20
CODES = 10
CODE_CHARACTERS = 10  # 50 random bits


def new_secret() -> str:
    return base64.b32encode(secrets.token_bytes(SECRET_BYTES)).decode()


def code_at(secret: str, step: int) -> str:
    """RFC 6238 with SHA-1, which all authenticator apps know."""
    digest = hmac.new(base64.b32decode(secret), struct.pack(">Q", step), hashlib.sha1).digest()
    offset = digest[-1] & 15
    (number,) = struct.unpack(">I", digest[offset : offset + 4])
    return str((number & 0x7FFFFFFF) % 10**DIGITS).zfill(DIGITS)


def matching_step(secret: str, code: str) -> int | None:
    now = int(time.time()) // STEP_SECONDS
    steps = range(now - TOLERATED_STEPS, now + TOLERATED_STEPS + 1)
    return next((step for step in steps if hmac.compare_digest(code_at(secret, step).encode(), code.encode())), None)


def add_app(user: User, secret: str, step: int) -> list[str]:
    """Replaces the user's app. Returns new recovery codes if the user has none."""

    def work() -> list[str]:
        SecondFactor.objects.filter(totp_user_id=user.pk).delete()
        factor = SecondFactor.objects.create(
            user=user,
            kind=SecondFactor.TOTP,
            name="TOTP",
            totp_user_id=user.pk,
            data=crypto.encrypt(secret),
            counter=step,
        )
        record(actions.ADD_SECOND_FACTOR, user, details={"method": factor.kind})
        return codes_if_none(user)

    return in_transaction(work)


def codes_if_none(user: User) -> list[str]:
    return [] if RecoveryCode.objects.filter(user=user, used_at__isnull=True).exists() else new_codes(user)


def new_codes(user: User) -> list[str]:
    """Replaces the user's recovery codes. The codes themselves are not stored."""
    alphabet = "abcdefghijkmnpqrstuvwxyz23456789"
    codes = ["".join(secrets.choice(alphabet) for _ in range(CODE_CHARACTERS)) for _ in range(CODES)]

    def work() -> None:
        RecoveryCode.objects.filter(user=user).delete()
        RecoveryCode.objects.bulk_create(RecoveryCode(user=user, code_sha256=_hash(user, code)) for code in codes)
        record(actions.NEW_RECOVERY_CODES, user)

    in_transaction(work)
    return [f"{code[:5]}-{code[5:]}" for code in codes]


def use_code(user: User, text: str) -> str | None:
    """Uses a code of the app or a recovery code. Returns which it was, or None if it is wrong or was used before."""
    code = "".join(text.split()).replace("-", "").lower()
    if len(code) == DIGITS and code.isascii() and code.isdigit():
        return SecondFactor.TOTP if _use_app(user, code) else None
    unused = RecoveryCode.objects.filter(user=user, code_sha256=_hash(user, code), used_at__isnull=True)
    return "recovery_code" if one_statement(lambda: unused.update(used_at=UtcNow())) else None


def _use_app(user: User, code: str) -> bool:
    factor = SecondFactor.objects.filter(totp_user_id=user.pk).first()
    step = None if factor is None else matching_step(crypto.decrypt(factor.data), code)
    if factor is None or step is None:
        return False
    older = SecondFactor.objects.filter(pk=factor.pk, counter__lt=step)
    return bool(one_statement(lambda: older.update(counter=step, last_used_at=UtcNow())))


def has_factor(user: User) -> bool:
    return SecondFactor.objects.filter(user=user).exists()


def remove(factor: SecondFactor) -> None:
    """Without the last factor, the recovery codes go, too."""

    def work() -> None:
        record(actions.REMOVE_SECOND_FACTOR, factor.user, details={"method": factor.kind, "name": factor.name})
        factor.delete()
        if not has_factor(factor.user):
            RecoveryCode.objects.filter(user=factor.user).delete()

    in_transaction(work)


def reset(user: User) -> int:
    """Removes all second factors of a user who has lost them. Returns how many there were."""

    def work() -> int:
        count = SecondFactor.objects.filter(user=user).count()
        record(actions.RESET_SECOND_FACTOR, user, details={"count": count})
        SecondFactor.objects.filter(user=user).delete()
        RecoveryCode.objects.filter(user=user).delete()
        return count

    return in_transaction(work)


def is_missing(request: HttpRequest) -> bool:
    """Whether the session's user must set up a second factor first. Superusers count as members of all groups."""
    groups, user = hub().second_factor_groups, request.user
    if not groups or not isinstance(user, User) or request.session.get(METHOD, PASSWORD) != PASSWORD:
        return False
    return user.is_superuser or user.groups.filter(name__in=groups).exists()


def reencrypt() -> int:
    """Encrypts the secrets of all apps with the first key. Returns how many; raises crypto.Undecipherable."""
    factors = SecondFactor.objects.filter(kind=SecondFactor.TOTP).values_list("pk", "data")
    for pk, data in factors:
        unchanged, new = SecondFactor.objects.filter(pk=pk, data=data), crypto.with_first_key(data)
        one_statement(lambda unchanged=unchanged, new=new: unchanged.update(data=new))  # type: ignore[misc]
    return len(factors)


def _hash(user: User, code: str) -> str:
    # Plain hashing is enough for 50 random bits behind a limit on attempts; the key protects a stolen table.
    return salted_hmac("recovery-code", f"{user.pk} {code}", algorithm="sha256").hexdigest()
