"""Endpoints: a URL of a customer, with its secret, verification and limits, however many event types it gets."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta
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
from webhookhub.egress.urls import UnacceptableURL, masked, normalise
from webhookhub.ids import new_uid
from webhookhub.validators import REASON_LENGTH, first_forbidden, forbidden_message

from .signing import SCHEMES, SYMMETRIC, new_secret

CUSTOMER_KEY_LENGTH = 100
AUTHOR_LENGTH = 150
TWO_SCHEDULES = _("Set either retry delays, or a retry limit and a base delay, and leave the others empty.")

customer_key_validator = RegexValidator(
    r"\A[A-Za-z0-9][A-Za-z0-9_.:@+-]{0,99}\Z",
    _("A customer key has 1 to 100 letters, digits and the signs _ . : @ + -, and begins with a letter or a digit."),
)


def encrypted_new_secret() -> str:
    return crypto.encrypt(new_secret(SYMMETRIC))


def validate_callback_url(value: str) -> None:
    try:
        normalise(value)
    except UnacceptableURL as error:
        raise ValidationError(str(error)) from None


class EndpointSettings(models.Model):
    """The columns of an endpoint that its subscriptions have copies of. Triggers keep the copies equal.

    The copies are there for the statements of the delivery, and for programs that know subscriptions only.
    """

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
        help_text=_("Deliveries per second, retries included."),
    )
    # When it was disabled: a copy of the column of its health, made by a trigger.
    disabled_at = models.DateTimeField(_("disabled at"), null=True, blank=True, editable=False)
    # From then on it is hidden and gets nothing; what it got stays.
    deleted_at = models.DateTimeField(_("deleted at"), null=True, blank=True, editable=False)

    class Meta:
        abstract = True

    @property
    def shown_url(self) -> str:
        """The URL with hidden query values. Only users who may see secrets get the whole URL, in the form."""
        return masked(self.callback_url)

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


# Of an endpoint and its subscriptions.
SETTINGS = tuple(field.name for field in EndpointSettings._meta.local_fields)


def settings_constraints(noun: str) -> list[models.BaseConstraint]:
    return [
        # All texts that begin with https://, because 0 follows the slash. LIKE would ignore case on SQLite.
        models.CheckConstraint(
            condition=models.Q(callback_url__gte="https://", callback_url__lt="https:/0"),
            name=f"chk_{noun}_callback_https",
        ),
        models.CheckConstraint(
            condition=models.Q(max_retry_limit__isnull=True) | models.Q(max_retry_limit__gte=1),
            name=f"chk_{noun}_limit_positive",
        ),
        models.CheckConstraint(
            condition=models.Q(rate_limit__isnull=True) | models.Q(rate_limit__gte=1),
            name=f"chk_{noun}_rate_positive",
        ),
        models.CheckConstraint(
            condition=models.Q(retry_delays__isnull=True)
            | models.Q(max_retry_limit__isnull=True, base_delay__isnull=True),
            name=f"chk_{noun}_one_schedule",
        ),
        *schedule_constraints(noun),
    ]


class EndpointQuerySet(models.QuerySet["Endpoint"]):
    def existing(self) -> EndpointQuerySet:
        return self.filter(deleted_at__isnull=True)


class Endpoint(EndpointSettings):
    """A URL of a customer, or of the operator. It is deleted by a mark, because deliveries refer to it."""

    id = models.BigAutoField(_("ID"), primary_key=True)
    uid = models.UUIDField(_("uid"), unique=True, default=new_uid, editable=False)
    # Its subscriptions have the same one. It never changes.
    customer_key = ExactTextField(
        _("customer"), max_length=CUSTOMER_KEY_LENGTH, blank=True, default="", db_default="", editable=False
    )
    # Who has vouched for an endpoint that cannot return a challenge, and why; empty if it was verified by one.
    vouched_by = ExactTextField(max_length=AUTHOR_LENGTH, blank=True, default="", db_default="", editable=False)
    vouch_reason = ExactTextField(max_length=REASON_LENGTH, blank=True, default="", db_default="", editable=False)
    created_at = models.DateTimeField(_("created at"), db_default=UtcNow(), editable=False)
    updated_at = models.DateTimeField(_("updated at"), db_default=UtcNow(), editable=False)

    objects = EndpointQuerySet.as_manager()

    class Meta:
        db_table = "endpoints"
        verbose_name = _("endpoint")
        verbose_name_plural = _("endpoints")
        indexes = [
            models.Index(fields=["customer_key", "callback_url"], name="idx_endpoint_customer"),
            models.Index(fields=["callback_url"], name="idx_endpoint_callback"),
        ]
        constraints = settings_constraints("endpoint")
        default_permissions = ("view",)
        permissions = [("vouch_endpoint", "Can vouch for an endpoint that cannot be verified")]

    def __str__(self) -> str:
        return self.shown_url

    @property
    def audit_name(self) -> str:
        """The name in the audit log, which must not contain secrets."""
        return url_without_query(self.callback_url)

    def save(self, *, update_fields: Iterable[str] | None = None, **kwargs: Any) -> None:
        """Insert a new endpoint, or update the named columns: the others may have changed since it was loaded."""
        self.updated_at = clock.now()
        if not self._state.adding:
            if update_fields is None:
                raise TypeError("name the update_fields of a stored endpoint, or use endpoint_services.change()")
            super().save(update_fields={*update_fields, "updated_at"}, **kwargs)
            return
        self.callback_url = normalise(self.callback_url)
        super().save(**{**kwargs, "force_insert": True})
