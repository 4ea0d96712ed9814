"""Subscriptions: which events are delivered to which endpoint."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models
from django.utils.translation import gettext_lazy as _

from webhookhub import crypto
from webhookhub.auditlog.record import url_without_query
from webhookhub.db import clock
from webhookhub.db.clock import UtcNow
from webhookhub.db.conditions import schedule_constraints
from webhookhub.db.fields import ExactTextField, SecondsListField, WordField
from webhookhub.db.requirements import UnsuitableDatabase
from webhookhub.egress.urls import UnacceptableURL, masked, normalise
from webhookhub.ids import new_uid
from webhookhub.validators import first_forbidden, forbidden_message

from .client_certificates import WARN_BEFORE
from .fields import LabelFilterField
from .signing import ASYMMETRIC, SCHEMES, SYMMETRIC, new_secret

SAMPLE = 5
CUSTOMER_KEY_LENGTH = 100
TWO_SCHEDULES = _("Set either retry delays, or a retry limit and a base delay, and leave the others empty.")


def encrypted_new_secret() -> str:
    return crypto.encrypt(new_secret(SYMMETRIC))


event_type_validator = RegexValidator(
    r"\A[A-Za-z0-9_.-]{1,100}\Z", _("An event type has 1 to 100 letters, digits, dots, dashes and underscores.")
)


customer_key_validator = RegexValidator(
    r"\A[A-Za-z0-9][A-Za-z0-9_.:@+-]{0,99}\Z",
    _("A customer key has 1 to 100 letters, digits and the signs _ . : @ + -, and begins with a letter or a digit."),
)


def validate_callback_url(value: str) -> None:
    try:
        normalise(value)
    except UnacceptableURL as error:
        raise ValidationError(str(error)) from None


class SubscriptionQuerySet(models.QuerySet["Subscription"]):
    def routable(self) -> SubscriptionQuerySet:
        """The subscriptions that may get new deliveries."""
        return self.filter(active=True, verified=True, disabled_at__isnull=True, customer_disabled_at__isnull=True)

    def with_expiring_certificate(self, now: datetime) -> SubscriptionQuerySet:
        """Those whose client certificate expires soon, or has expired."""
        return self.filter(certificate_expires_at__lt=now + WARN_BEFORE)

    def require_keys(self) -> None:
        """Raise UnsuitableDatabase if the encryption keys open none of the newest secrets.

        A single secret that cannot be opened only fails its own deliveries.
        """
        newest = list(self.order_by("-id").values_list("secret", flat=True)[:SAMPLE])
        if newest and not any(crypto.opens(secret) for secret in newest):
            raise UnsuitableDatabase(
                "none of WEBHOOKHUB_ENCRYPTION_KEYS opens the stored secrets; add the key that they were encrypted with"
            )


class Customer(models.Model):
    """The owner of subscriptions, identified by the producer's own key. It is disabled and never deleted.

    Events, subscriptions, deliveries and dead letters carry the key, empty if they have no customer.
    """

    id = models.BigAutoField(_("ID"), primary_key=True)
    uid = models.UUIDField(_("uid"), unique=True, default=new_uid, editable=False)
    customer_key = ExactTextField(
        _("key"),
        max_length=CUSTOMER_KEY_LENGTH,
        unique=True,
        validators=[customer_key_validator],
        help_text=_("Your own key of the customer. It cannot be changed later."),
    )
    name = ExactTextField(_("name"), max_length=200, blank=True, default="", db_default="")
    # While it is set, the customer's subscriptions get no deliveries. A trigger copies it to them.
    disabled_at = models.DateTimeField(_("disabled at"), null=True, blank=True, editable=False)
    created_at = models.DateTimeField(_("created at"), db_default=UtcNow(), editable=False)
    updated_at = models.DateTimeField(_("updated at"), db_default=UtcNow(), editable=False)

    class Meta:
        db_table = "customers"
        verbose_name = _("customer")
        verbose_name_plural = _("customers")
        permissions = [("disable_customer", "Can disable and enable a customer")]
        # The empty key stands for no customer.
        constraints = [models.CheckConstraint(condition=~models.Q(customer_key=""), name="chk_customer_key")]

    def __str__(self) -> str:
        return str(self.customer_key)


class Subscription(models.Model):
    """Configuration of deliveries. It is never deleted, because deliveries and dead letters refer to it."""

    id = models.BigAutoField(_("ID"), primary_key=True)
    # It gets the events of this customer only; without one, all events of its type. It never changes.
    customer_key = ExactTextField(
        _("customer"),
        max_length=CUSTOMER_KEY_LENGTH,
        blank=True,
        default="",
        db_default="",
        help_text=_("Its events only. Empty: the events of all customers, and those without one."),
    )
    event_type = ExactTextField(_("event type"), max_length=100, validators=[event_type_validator])
    callback_url = ExactTextField(
        _("callback URL"), max_length=500, validators=[validate_callback_url], help_text=_("An https URL.")
    )
    active = models.BooleanField(
        _("active"), default=True, help_text=_("If off, it gets no new deliveries, and open ones wait.")
    )
    verified = models.BooleanField(
        _("verified"), default=False, editable=False, help_text=_("The endpoint has shown that it wants these events.")
    )
    verification_result = ExactTextField(max_length=200, blank=True, default="", editable=False)
    verification_at = models.DateTimeField(_("last verification"), null=True, blank=True, editable=False)
    signing_scheme = WordField(
        _("signing scheme"),
        words=SCHEMES,
        default=SYMMETRIC,
        help_text=_("v1: a secret that both sides know. v1a: ed25519, the receiver needs the public key only."),
    )
    # Encrypted. A rotation moves it to `previous_secret`.
    secret = ExactTextField(max_length=500, default=encrypted_new_secret, editable=False)
    previous_secret = ExactTextField(max_length=500, default="", blank=True, editable=False)
    previous_secret_until = models.DateTimeField(null=True, blank=True, editable=False)
    # Encrypted, because headers often contain passwords.
    custom_headers = models.TextField(default="", blank=True, editable=False)
    # Encrypted: what the hub needs to identify itself to the endpoint. NULL if it needs nothing.
    credentials = models.TextField(null=True, editable=False)  # noqa: DJ001: a column that can be added at once
    # Of the client certificate, for the warning before it.
    certificate_expires_at = models.DateTimeField(null=True, blank=True, editable=False)
    description = ExactTextField(_("description"), max_length=200, blank=True, default="")
    max_retry_limit = models.PositiveIntegerField(
        _("max retry limit"),
        null=True,
        blank=True,
        validators=[MinValueValidator(1), MaxValueValidator(1000)],
        help_text=_("Attempts, the first included. Empty: the hub's default."),
    )
    base_delay = models.DurationField(
        _("base delay"),
        null=True,
        blank=True,
        validators=[MinValueValidator(timedelta(milliseconds=1)), MaxValueValidator(timedelta(days=1))],
        help_text=_("Delay after the first failure (hh:mm:ss); it doubles each time. Empty: the hub's default."),
    )
    retry_delays = SecondsListField(
        _("retry delays"),
        null=True,
        blank=True,
        help_text=_(
            "Instead of limit and base delay: seconds after each failure, such as 5, 300, 1800. Then it stops."
        ),
    )
    rate_limit = models.PositiveIntegerField(
        _("rate limit"),
        null=True,
        blank=True,
        validators=[MinValueValidator(1), MaxValueValidator(10_000)],
        help_text=_(
            "Deliveries per second, retries included. Of the subscriptions with the same URL, the lowest limit holds."
        ),
    )
    label_filter = LabelFilterField(
        _("label filter"),
        null=True,
        blank=True,
        help_text=_(
            "Only events whose labels meet all of these conditions, as JSON: "
            '[{"label": "region", "one_of": ["eu", "us"]}, {"not": {"label": "test", "exists": true}}]. '
            "Conditions: equals, one_of, prefix, exists, not. Empty: all events of the type."
        ),
    )
    # When its endpoint was disabled: a copy of the endpoint's, made by a trigger.
    disabled_at = models.DateTimeField(_("disabled at"), null=True, blank=True, editable=False)
    # When its customer was disabled: a copy, made by a trigger.
    customer_disabled_at = models.DateTimeField(null=True, blank=True, editable=False)
    created_at = models.DateTimeField(_("created at"), db_default=UtcNow(), editable=False)
    updated_at = models.DateTimeField(_("updated at"), db_default=UtcNow(), editable=False)

    objects = SubscriptionQuerySet.as_manager()

    class Meta:
        db_table = "subscriptions"
        verbose_name = _("subscription")
        verbose_name_plural = _("subscriptions")
        indexes = [
            models.Index(fields=["event_type"], name="idx_sub_event_type"),
            models.Index(fields=["active"], name="idx_sub_active"),
            models.Index(fields=["callback_url"], name="idx_sub_callback"),
            models.Index(fields=["customer_key"], name="idx_sub_customer"),
            models.Index(fields=["certificate_expires_at"], name="idx_sub_certificate_expiry"),
        ]
        permissions = [
            ("reveal_secret", "Can see and rotate a subscription's signing secret"),
            ("change_credentials", "Can set and remove a subscription's credentials at its endpoint"),
            ("verify_subscription", "Can have a subscription's endpoint verified"),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["event_type", "callback_url", "customer_key"],
                name="uniq_sub_type_callback_customer",
                violation_error_message=_("This address is subscribed to this event type already."),
            ),
            # All texts that begin with https://, because 0 follows the slash. LIKE would ignore case on SQLite.
            models.CheckConstraint(
                condition=models.Q(callback_url__gte="https://", callback_url__lt="https:/0"),
                name="chk_sub_callback_https",
            ),
            models.CheckConstraint(
                condition=models.Q(max_retry_limit__isnull=True) | models.Q(max_retry_limit__gte=1),
                name="chk_sub_limit_positive",
            ),
            models.CheckConstraint(
                condition=models.Q(rate_limit__isnull=True) | models.Q(rate_limit__gte=1),
                name="chk_sub_rate_positive",
            ),
            models.CheckConstraint(
                condition=models.Q(retry_delays__isnull=True)
                | models.Q(max_retry_limit__isnull=True, base_delay__isnull=True),
                name="chk_sub_one_schedule",
            ),
            *schedule_constraints("sub"),
        ]

    def __str__(self) -> str:
        return f"{self.event_type} → {self.shown_url}"

    @property
    def is_routable(self) -> bool:
        """Whether it may get new deliveries; the same rule as `routable`."""
        return self.active and self.verified and self.disabled_at is None and self.customer_disabled_at is None

    @property
    def shown_url(self) -> str:
        """The URL with hidden query values. Only users who may see secrets get the whole URL, in the form."""
        return masked(self.callback_url)

    @property
    def audit_name(self) -> str:
        """The name in the audit log, which must not contain secrets."""
        return f"{self.event_type} → {url_without_query(self.callback_url)}"

    def clean(self) -> None:
        super().clean()
        if isinstance(self.description, str) and (code := first_forbidden(self.description)):
            raise ValidationError({"description": _("The description %(why)s.") % {"why": forbidden_message(code)}})
        if self.retry_delays is not None:
            # On each of them: a change of one field reports the errors of that field only.
            both = [name for name in ("max_retry_limit", "base_delay") if getattr(self, name) is not None]
            if both:
                raise ValidationError(dict.fromkeys(["retry_delays", *both], TWO_SCHEDULES))
        with suppress(UnacceptableURL):  # reported by the field's own validator
            self.callback_url = normalise(self.callback_url)

    def save(self, *, update_fields: Iterable[str] | None = None, **kwargs: Any) -> None:
        """Insert a new subscription, or update the named columns: the others may have changed since it was loaded."""
        self.updated_at = clock.now()
        if not self._state.adding:
            if update_fields is None:
                raise TypeError("name the update_fields of a stored subscription, or use services.change()")
            super().save(update_fields={*update_fields, "updated_at"}, **kwargs)
            return
        Subscription.objects.require_keys()
        self.callback_url = normalise(self.callback_url)
        if self.signing_scheme == ASYMMETRIC:
            self.secret = crypto.encrypt(new_secret(ASYMMETRIC))
        super().save(**{**kwargs, "force_insert": True})


class EndpointRate(models.Model):
    """When an endpoint with a rate limit may get its next delivery. The orchestrators share it."""

    id = models.BigAutoField(primary_key=True)
    callback_url = ExactTextField(max_length=500, unique=True)
    free_at = models.DateTimeField()

    class Meta:
        db_table = "endpoint_rates"
        default_permissions = ()  # nobody edits it

    def __str__(self) -> str:
        return masked(self.callback_url)


class EndpointHealth(models.Model):
    """The trouble of an endpoint. Only an endpoint that has had any has a row.

    It is written when this changes, never for a delivery to a healthy endpoint.
    """

    id = models.BigAutoField(primary_key=True)
    callback_url = ExactTextField(max_length=500, unique=True)
    # The first failure after the last success. The trouble lasts until `recovered_at`.
    failing_since = models.DateTimeField()
    last_error_code = ExactTextField(max_length=100)
    recovered_at = models.DateTimeField(null=True)
    recovered_by = ExactTextField(max_length=20, default="", db_default="")
    disabled_at = models.DateTimeField(null=True)
    disabled_reason = ExactTextField(max_length=20, default="", db_default="")
    breaker_open_since = models.DateTimeField(null=True)
    # How much of the time until it is disabled has passed: 0, 50, 80 or 100 percent; and what has been announced of it.
    stage = models.PositiveSmallIntegerField(default=0, db_default=0)
    announced = models.PositiveSmallIntegerField(default=0, db_default=0)
    updated_at = models.DateTimeField(db_default=UtcNow())

    class Meta:
        db_table = "endpoint_health"
        default_permissions = ()  # nobody edits it

    def __str__(self) -> str:
        return masked(self.callback_url)


class SubscriptionVersion(models.Model):
    """One row. A trigger raises `version` with every change of a subscription, in the same transaction.

    A cache of the subscriptions is valid while the version stays the same. `health` is the same for `EndpointHealth`.
    """

    id = models.PositiveSmallIntegerField(primary_key=True)
    version = models.BigIntegerField(db_default=0)
    health = models.BigIntegerField(db_default=0)

    class Meta:
        db_table = "subscription_version"

    def __str__(self) -> str:
        return str(self.version)
