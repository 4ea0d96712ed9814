"""Subscriptions: which events are delivered to which endpoint."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.core.validators import RegexValidator
from django.db import models, transaction
from django.db.models import Case, When
from django.utils.translation import gettext_lazy as _

from webhookhub import crypto
from webhookhub.auditlog.record import url_without_query
from webhookhub.db import clock
from webhookhub.db.clock import UtcNow
from webhookhub.db.fields import ExactTextField
from webhookhub.db.requirements import UnsuitableDatabase
from webhookhub.egress.urls import masked, normalise
from webhookhub.ids import new_uid

from .client_certificates import WARN_BEFORE
from .endpoint_models import CUSTOMER_KEY_LENGTH as CUSTOMER_KEY_LENGTH
from .endpoint_models import SETTINGS, Endpoint, EndpointSettings, customer_key_validator, settings_constraints
from .endpoint_models import encrypted_new_secret as encrypted_new_secret
from .endpoint_models import validate_callback_url as validate_callback_url
from .fields import LabelFilterField
from .patterns import PATTERN
from .patterns import normalise as normalise_pattern
from .signing import ASYMMETRIC, new_secret

SAMPLE = 5

event_type_validator = RegexValidator(
    r"\A[A-Za-z0-9_.-]{1,100}\Z", _("An event type has 1 to 100 letters, digits, dots, dashes and underscores.")
)


event_pattern_validator = RegexValidator(
    rf"\A{PATTERN}\Z",
    _("An event type has 1 to 100 letters, digits, dots, dashes and underscores. At the end, .* stands for any rest."),
)


class SubscriptionQuerySet(models.QuerySet["Subscription"]):
    def routable(self) -> SubscriptionQuerySet:
        """The subscriptions that may get new deliveries."""
        return self.filter(active=True, verified=True, disabled_at__isnull=True, customer_disabled_at__isnull=True)

    def existing(self) -> SubscriptionQuerySet:
        return self.filter(deleted_at__isnull=True)

    def with_expiring_certificate(self, now: datetime) -> SubscriptionQuerySet:
        """Those whose client certificate expires soon, or has expired."""
        return self.filter(certificate_expires_at__lt=now + WARN_BEFORE)

    def require_keys(self) -> None:
        """Raise UnsuitableDatabase if the encryption keys open none of the newest secrets.

        A single secret that cannot be opened only fails its own deliveries.
        """
        newest = list(self.existing().order_by("-id").values_list("secret", flat=True)[:SAMPLE])
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


class Subscription(EndpointSettings):
    """An event type, or a pattern of them, that an endpoint gets. It is deleted by a mark: deliveries refer to it.

    A change of its copies of the endpoint's settings changes the endpoint, if this is its only subscription. Otherwise
    the subscription gets an endpoint of its own.
    """

    id = models.BigAutoField(_("ID"), primary_key=True)
    endpoint = models.ForeignKey(
        Endpoint,
        models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        null=True,
        editable=False,
        related_name="subscriptions",
    )
    # It gets the events of this customer only; without one, all events of its type. It never changes.
    customer_key = ExactTextField(
        _("customer"),
        max_length=CUSTOMER_KEY_LENGTH,
        blank=True,
        default="",
        db_default="",
        help_text=_("Its events only. Empty: the events of all customers, and those without one."),
    )
    # Or a pattern of them, as subscriptions.patterns has it.
    event_type = ExactTextField(
        _("event type"),
        max_length=100,
        validators=[event_pattern_validator],
        help_text=_("One event type, order.* for all that begin with “order.”, or * for all."),
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
    # When its customer was disabled: a copy, made by a trigger.
    customer_disabled_at = models.DateTimeField(null=True, blank=True, editable=False)
    created_at = models.DateTimeField(_("created at"), db_default=UtcNow(), editable=False)
    updated_at = models.DateTimeField(_("updated at"), db_default=UtcNow(), editable=False)
    # 1, and NULL once it is deleted: an event type that was removed can be added again.
    existing = models.GeneratedField(
        expression=Case(When(deleted_at__isnull=True, then=1), default=None),
        output_field=models.PositiveSmallIntegerField(null=True),
        db_persist=True,
    )

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
            models.Index(fields=["endpoint"], name="idx_sub_endpoint"),
        ]
        permissions = [
            ("reveal_secret", "Can see and rotate a subscription's signing secret"),
            ("change_credentials", "Can set and remove a subscription's credentials at its endpoint"),
            ("verify_subscription", "Can have a subscription's endpoint verified"),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["event_type", "callback_url", "customer_key", "existing"],
                name="uniq_sub_existing",
                violation_error_message=_("This address is subscribed to this event type already."),
            ),
            *settings_constraints("sub"),
        ]

    def __str__(self) -> str:
        return f"{self.event_type} → {self.shown_url}"

    @property
    def is_routable(self) -> bool:
        """Whether it may get new deliveries; the same rule as `routable`."""
        return self.active and self.verified and self.disabled_at is None and self.customer_disabled_at is None

    @property
    def audit_name(self) -> str:
        """The name in the audit log, which must not contain secrets."""
        return f"{self.event_type} → {url_without_query(self.callback_url)}"

    def clean(self) -> None:
        super().clean()
        if isinstance(self.event_type, str):
            self.event_type = normalise_pattern(self.event_type)

    def join(self, endpoint: Endpoint) -> None:
        """Before it is stored: it belongs to this endpoint and has its settings."""
        self.endpoint = endpoint
        for name in SETTINGS:
            setattr(self, name, getattr(endpoint, name))

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
        if self.signing_scheme == ASYMMETRIC and self.endpoint_id is None:
            self.secret = crypto.encrypt(new_secret(ASYMMETRIC))
        with transaction.atomic():
            if self.endpoint_id is None:
                settings = {name: getattr(self, name) for name in SETTINGS}
                self.endpoint = Endpoint(customer_key=self.customer_key, **settings)
                self.endpoint.save()
            super().save(**{**kwargs, "force_insert": True})


def _endpoint() -> models.OneToOneField[Endpoint | None]:
    return models.OneToOneField(Endpoint, models.DO_NOTHING, db_constraint=False, null=True, related_name="+")


class EndpointRate(models.Model):
    """When an endpoint with a rate limit may get its next delivery. The orchestrators share it."""

    id = models.BigAutoField(primary_key=True)
    endpoint = _endpoint()
    # For programs that know no endpoints.
    callback_url = ExactTextField(max_length=500, default="", db_default="")
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
    endpoint = _endpoint()
    # When the row was written; for programs that know no endpoints.
    callback_url = ExactTextField(max_length=500)
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


def endpoint_id(target: Subscription | Endpoint) -> int:
    """Of an endpoint, or of the endpoint of a subscription."""
    pk = target.pk if isinstance(target, Endpoint) else target.endpoint_id
    assert pk is not None, "a trigger gives every subscription an endpoint"
    return int(pk)


def locked(subscription: Subscription) -> Subscription:
    """The stored row. Its endpoint is locked first, as by a change of the endpoint: otherwise they could deadlock."""
    list(Endpoint.objects.select_for_update().filter(pk=subscription.endpoint_id or 0).values_list("id"))
    return Subscription.objects.select_for_update().get(pk=subscription.pk)


def log_fields(target: Subscription | Endpoint) -> dict[str, int]:
    return {f"{target._meta.model_name}_id": target.pk}


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
