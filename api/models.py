"""API keys."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from ipaddress import ip_network

from django.db import models
from django.utils.translation import gettext_lazy as _
from django.utils.translation import gettext_noop

from webhookhub import proxies
from webhookhub.conf import Network, hub
from webhookhub.db.clock import UtcNow
from webhookhub.db.fields import ExactTextField

from .scopes import SCOPES


class ApiKeyQuerySet(models.QuerySet["ApiKey"]):
    def usable(self) -> ApiKeyQuerySet:
        """Neither revoked nor expired, by the database's clock."""
        expired = models.Q(expires_at__isnull=False, expires_at__lte=UtcNow())
        return self.filter(revoked_at__isnull=True).exclude(expired)

    def expiring(self, now: datetime) -> ApiKeyQuerySet:
        """Usable, but not for long."""
        return self.usable().filter(expires_at__lte=now + hub().key_expiry_warning)


class ApiKey(models.Model):
    """Only the id and a hash of the secret are stored."""

    id = models.BigAutoField(primary_key=True)
    key_id = ExactTextField(_("key ID"), max_length=16, unique=True, editable=False)
    # A plain hash is enough for 32 random bytes.
    secret_sha256 = ExactTextField(max_length=64, editable=False)
    name = ExactTextField(_("name"), max_length=100, unique=True)
    scopes = ExactTextField(_("scopes"), max_length=200, help_text=_("What the key may do, separated by spaces."))
    source = ExactTextField(
        _("source"),
        max_length=100,
        blank=True,
        default="",
        help_text=_(
            "The producer that the key is bound to: it sends and reads only events of this source. "
            "Empty: no restriction."
        ),
    )
    networks = ExactTextField(
        _("networks"),
        max_length=500,
        blank=True,
        default="",
        db_default="",
        help_text=_("Networks that may use the key, such as 192.0.2.0/24, separated by commas. Empty: all."),
    )
    events_per_second = models.PositiveIntegerField(
        _("events per second"), null=True, blank=True, help_text=_("The key's limit. Empty: the hub's default.")
    )
    expires_at = models.DateTimeField(_("expires at"), null=True, blank=True)
    revoked_at = models.DateTimeField(_("revoked at"), null=True, blank=True, editable=False)
    last_used_at = models.DateTimeField(_("last used at"), null=True, blank=True, editable=False)
    created_by = ExactTextField(_("created by"), max_length=150, editable=False)
    created_at = models.DateTimeField(_("created at"), db_default=UtcNow(), editable=False)
    # The time until which the allowance is used up, in microseconds since 1970; see limits.py.
    spent_until = models.BigIntegerField(default=0, db_default=0, editable=False)

    objects = ApiKeyQuerySet.as_manager()

    class Meta:
        db_table = "api_keys"
        verbose_name = _("API key")
        verbose_name_plural = _("API keys")
        permissions = [("revoke_apikey", "Can revoke an API key")]

    def __str__(self) -> str:
        return str(self.name)

    def has_scope(self, scope: str) -> bool:
        return scope in SCOPES and scope in self.scopes.split()

    def may_be_used_from(self, address: str) -> bool:
        return not self.networks or proxies.is_in(address, parse_networks(self.networks))

    @property
    def event_source(self) -> str:
        """The source of the events that are sent with this key."""
        return str(self.source or self.name)

    @property
    def readable_source(self) -> str | None:
        """The only source whose events the key may read; None: all sources."""
        return str(self.source) or None

    def state(self, now: datetime) -> str:
        if self.revoked_at is not None:
            return gettext_noop("revoked")
        return (
            gettext_noop("expired") if self.expires_at is not None and self.expires_at <= now else gettext_noop("valid")
        )


@lru_cache(maxsize=1000)
def parse_networks(text: str) -> tuple[Network, ...]:
    """Raises ValueError."""
    return tuple(ip_network(part.strip()) for part in text.split(",") if part.strip())
