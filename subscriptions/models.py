"""Who receives which events, and where."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models
from django.utils.translation import gettext as _

from webhookhub import crypto
from webhookhub.auditlog.record import address
from webhookhub.db import clock
from webhookhub.db.clock import UtcNow
from webhookhub.db.errors import UnfitDatabase
from webhookhub.db.fields import ExactTextField, WordField
from webhookhub.egress.urls import UnacceptableURL, masked, normalise
from webhookhub.validators import first_forbidden, forbidden_message

from .signing import ASYMMETRIC, SCHEMES, SYMMETRIC, new_secret

SAMPLE = 5


def encrypted_new_secret() -> str:
    return crypto.encrypt(new_secret(SYMMETRIC))


event_type_validator = RegexValidator(
    r"\A[A-Za-z0-9_.-]{1,100}\Z", "An event type has 1 to 100 letters, digits, dots, dashes and underscores."
)


# What an update of the address alone must take along.
WRITTEN_WITH_ANOTHER_URL = ("verified", "verification_result", "verification_at", "updated_at")
# What a save writes only if it names it: an instance that was loaded a while ago would undo a verification, a
# rotation or an edit made since.
WRITTEN_BY_NAME_ONLY = {
    "created_at",
    "verified",
    "verification_result",
    "verification_at",
    "signing_scheme",
    "secret",
    "previous_secret",
    "previous_secret_until",
    "custom_headers",
}


def validate_callback_url(value: str) -> None:
    try:
        normalise(value)
    except UnacceptableURL as error:
        raise ValidationError(str(error)) from None


class SubscriptionQuerySet(models.QuerySet["Subscription"]):
    def routable(self) -> SubscriptionQuerySet:
        """Those that may get new deliveries."""
        return self.filter(active=True, verified=True)

    def require_keys(self) -> None:
        """Raises UnfitDatabase if the keys in force are others than those the secrets are stored under.

        A sample is enough for that; a single secret that cannot be opened is its own delivery's failure.
        """
        newest = list(self.order_by("-id").values_list("secret", flat=True)[:SAMPLE])
        if newest and not any(crypto.opens(secret) for secret in newest):
            raise UnfitDatabase(
                "none of WEBHOOKHUB_ENCRYPTION_KEYS opens the stored secrets; add the key that they were encrypted with"
            )


class Subscription(models.Model):
    """Configuration only: nothing happens because a subscription is saved.

    Switched off instead of deleted, because deliveries and dead letters refer to it.
    """

    id = models.BigAutoField(primary_key=True)
    event_type = ExactTextField(max_length=100, validators=[event_type_validator])
    callback_url = ExactTextField(max_length=500, validators=[validate_callback_url], help_text="An https address.")
    active = models.BooleanField(default=True, help_text="Switched off, it gets no new deliveries; open ones wait.")
    verified = models.BooleanField(
        default=False, editable=False, help_text="The endpoint has shown that it wants these events."
    )
    verification_result = ExactTextField(max_length=200, blank=True, default="", editable=False)
    verification_at = models.DateTimeField(null=True, blank=True, editable=False)
    signing_scheme = WordField(
        words=SCHEMES,
        default=SYMMETRIC,
        help_text="v1: a secret that both sides know. v1a: ed25519, the receiver needs the public key only.",
    )
    # Encrypted. Made with the subscription, so that none is ever without one; rotation moves it to `previous_secret`.
    secret = ExactTextField(max_length=500, default=encrypted_new_secret, editable=False)
    previous_secret = ExactTextField(max_length=500, default="", blank=True, editable=False)
    previous_secret_until = models.DateTimeField(null=True, blank=True, editable=False)
    # Encrypted too: what people put there is a password more often than not.
    custom_headers = models.TextField(default="", blank=True, editable=False)
    description = ExactTextField(max_length=200, blank=True, default="")
    max_retry_limit = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=[MinValueValidator(1), MaxValueValidator(1000)],
        help_text="Attempts, the first included. Empty: the hub's default.",
    )
    base_delay = models.DurationField(
        null=True,
        blank=True,
        validators=[MinValueValidator(timedelta(milliseconds=1)), MaxValueValidator(timedelta(days=1))],
        help_text="Delay after the first failure (hh:mm:ss); it doubles each time. Empty: the hub's default.",
    )
    created_at = models.DateTimeField(db_default=UtcNow(), editable=False)
    updated_at = models.DateTimeField(db_default=UtcNow(), editable=False)

    objects = SubscriptionQuerySet.as_manager()

    class Meta:
        db_table = "subscriptions"
        indexes = [
            models.Index(fields=["event_type"], name="idx_sub_event_type"),
            models.Index(fields=["active"], name="idx_sub_active"),
        ]
        permissions = [
            ("reveal_secret", "Can see and rotate a subscription's signing secret"),
            ("verify_subscription", "Can have a subscription's endpoint verified"),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["event_type", "callback_url"],
                name="uniq_sub_event_type_callback",
                violation_error_message="This address is subscribed to this event type already.",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.event_type} → {self.shown_url}"

    @property
    def is_routable(self) -> bool:
        """Whether it may get new deliveries, as `routable` asks the table."""
        return self.active and self.verified

    @property
    def shown_url(self) -> str:
        """As pages show it: whole it stands only before those who may see secrets, in the form that changes it."""
        return masked(self.callback_url)

    @property
    def in_the_trail(self) -> str:
        """As the audit log calls it: without what an address may carry of secrets."""
        return f"{self.event_type} → {address(self.callback_url)}"

    @classmethod
    def from_db(cls, *args: Any, **kwargs: Any) -> Subscription:
        subscription = super().from_db(*args, **kwargs)
        subscription._stored_callback_url = subscription.__dict__.get("callback_url")
        return subscription

    def clean(self) -> None:
        super().clean()
        if isinstance(self.description, str) and (code := first_forbidden(self.description)):
            raise ValidationError({"description": _("The description %(why)s.") % {"why": forbidden_message(code)}})
        try:
            self.callback_url = normalise(self.callback_url)
        except UnacceptableURL:
            return  # the field's own validator has said so

    def refresh_from_db(self, using: str | None = None, fields: Any = None, from_queryset: Any = None) -> None:
        super().refresh_from_db(using, fields, from_queryset)
        if fields is None or "callback_url" in fields:
            self._stored_callback_url = self.__dict__.get("callback_url")

    def save(self, **kwargs: Any) -> None:
        """A new one is inserted whole. Of one that is there, WRITTEN_BY_NAME_ONLY is left out unless named."""
        only = kwargs.pop("update_fields", None)
        if only is None or "callback_url" in only:
            self.callback_url = normalise(self.callback_url)
        self.updated_at = clock.now()
        if self._state.adding and self.signing_scheme == ASYMMETRIC:
            self.secret = crypto.encrypt(new_secret(ASYMMETRIC))
        if self._state.adding or (self.custom_headers and "custom_headers" in (only or ())):
            # Nobody else could open what is encrypted with other keys than theirs.
            Subscription.objects.require_keys()
        if only is None and not kwargs.get("force_insert"):
            if self._state.adding and not kwargs.get("force_update"):
                kwargs["force_insert"] = True  # never over another one that has this number already
            else:
                only = self._written_without_being_named()
        stored = getattr(self, "_stored_callback_url", None)
        writes_url = only is None or "callback_url" in only
        if writes_url and stored is not None and stored != self.callback_url:
            # Another address has promised nothing yet.
            self.verified, self.verification_result, self.verification_at = False, "", None
            if only is not None:
                only = {*only, *WRITTEN_WITH_ANOTHER_URL}
        super().save(update_fields=only, **kwargs)
        if writes_url:
            self._stored_callback_url = self.callback_url

    def _written_without_being_named(self) -> set[str]:
        columns = {field.attname for field in self._meta.concrete_fields if not field.primary_key}
        return columns - WRITTEN_BY_NAME_ONLY - self.get_deferred_fields()


class SubscriptionVersion(models.Model):
    """One row whose number a trigger raises with every change of a subscription, in the same transaction.

    Whoever keeps a copy of the subscriptions knows by it whether the copy is still true.
    """

    id = models.PositiveSmallIntegerField(primary_key=True)
    version = models.BigIntegerField()

    class Meta:
        db_table = "subscription_version"

    def __str__(self) -> str:
        return str(self.version)
