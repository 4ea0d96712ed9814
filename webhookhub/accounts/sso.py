"""The hub's user for the claims of a provider: found, linked by a verified e-mail address, or created.

The groups in WEBHOOKHUB_OIDC_GROUPS follow the provider at each log-in; other groups stay as they are.
"""

from __future__ import annotations

import re
from typing import Any

from django.contrib.auth.models import Group, User
from django.db import IntegrityError
from django.utils.translation import gettext_lazy as _

from webhookhub.auditlog import actions
from webhookhub.auditlog.context import Actor, acting_as
from webhookhub.auditlog.record import record
from webhookhub.conf import hub
from webhookhub.db.retry import in_transaction

from . import oidc
from .models import Identity

SUPERUSERS = "superusers"
NAME_LENGTH = 150
MAX_SAME_NAMES = 100

NO_GROUP = _("You are in no group that may use this console. Ask an administrator.")
NOT_VERIFIED = _(
    "There is a user with your e-mail address, but the provider has not verified that it is yours. "
    "Ask an administrator."
)
INACTIVE = _("This user may not log in. Ask an administrator.")


class Refused(Exception):
    """The provider knows the user, but the user may not use the console."""

    def __init__(self, cause: str, message: Any, name: str, user_id: int | None = None) -> None:
        super().__init__(cause)
        self.cause, self.message, self.name, self.user_id = cause, message, name, user_id


def user_for(claims: dict[str, Any]) -> User:
    """Raises Refused. What the user has lost at the provider is lost in the hub, even then."""
    name = _name(claims)
    with acting_as(lambda: Actor(f"{hub().oidc_name} ({name})"[:NAME_LENGTH], actions.CONSOLE)):
        user, refusal = in_transaction(lambda: _update(claims, name))
    if refusal is not None:
        raise refusal
    assert user is not None
    return user


def _update(claims: dict[str, Any], name: str) -> tuple[User | None, Refused | None]:
    wanted = {group for theirs, group in hub().oidc_groups if theirs in oidc.groups_of(claims)}
    identity = Identity.objects.select_related("user").filter(issuer=hub().oidc_issuer, subject=claims["sub"]).first()
    if identity is None and not wanted:
        return None, Refused("no_group", NO_GROUP, name)
    user = identity.user if identity is not None else None
    if user is None:
        user, refusal = _linked_or_created(claims, name)
        if user is None:
            return None, refusal
    _set_groups(user, wanted)
    if not user.is_active:
        return None, Refused("inactive", INACTIVE, user.get_username(), user.pk)
    if not user.is_staff:
        return None, Refused("no_group", NO_GROUP, user.get_username(), user.pk)
    return user, None


def _linked_or_created(claims: dict[str, Any], name: str) -> tuple[User | None, Refused | None]:
    address = claims.get("email")
    address = address if isinstance(address, str) and "@" in address else ""
    is_verified = claims.get("email_verified") is True
    # Users who are known to this provider under another subject keep their account for themselves.
    free = User.objects.exclude(identity__issuer=hub().oidc_issuer)
    similar = free.filter(email__iexact=address) if address else []
    same = [user for user in similar if _is_same_address(user.email, address)]
    if same and not is_verified:
        return None, Refused("email_not_verified", NOT_VERIFIED, name, same[0].pk)
    if len(same) > 1:
        return None, Refused("email_not_unique", NOT_VERIFIED, name)
    user = same[0] if same else _created(name, address if is_verified else "")
    Identity.objects.update_or_create(user=user, defaults={"issuer": hub().oidc_issuer, "subject": claims["sub"]})
    record(actions.LINK_IDENTITY, user, details={"name": claims["sub"]})
    return user, None


def _is_same_address(one: str, other: str) -> bool:
    """Collations of the database ignore accents, too: an address that only looks the same is another person's."""
    return one == other or (one.isascii() and other.isascii() and one.lower() == other.lower())


def _created(name: str, address: str) -> User:
    for number in range(1, MAX_SAME_NAMES):
        # Never another user's account: names are not proof of anything.
        username = name if number == 1 else f"{name[: NAME_LENGTH - 4]}-{number}"
        if not User.objects.filter(username__iexact=username).exists():
            user = User(username=username, email=address)
            user.set_unusable_password()
            user.save(force_insert=True)
            return user
    raise IntegrityError(f"all names like {name} are taken")


def _set_groups(user: User, wanted: set[str]) -> None:
    managed = {group for _, group in hub().oidc_groups}
    current = set(user.groups.filter(name__in=managed).values_list("name", flat=True))
    if lost := current - wanted:
        user.groups.remove(*Group.objects.filter(name__in=lost))
    if gained := wanted - current - {SUPERUSERS}:
        user.groups.add(*Group.objects.filter(name__in=gained))
    before = user.is_staff, user.is_superuser
    if SUPERUSERS in managed:
        user.is_superuser = SUPERUSERS in wanted
    user.is_staff = bool(wanted)
    if before != (user.is_staff, user.is_superuser):
        user.save(update_fields=["is_staff", "is_superuser"])


def _name(claims: dict[str, Any]) -> str:
    for claim in ("preferred_username", "email", "sub"):
        value = claims.get(claim)
        if isinstance(value, str) and value:
            return re.sub(r"[^\w.@+-]", "_", value)[:NAME_LENGTH]
    return "user"
