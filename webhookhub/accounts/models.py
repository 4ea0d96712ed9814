"""Tables of the log-in."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.db import models
from django.utils.translation import gettext_lazy as _

from webhookhub.db.clock import UtcNow
from webhookhub.db.fields import ExactTextField, WordField

NAME_LENGTH = 100


class Allowance(models.Model):
    """How far a bucket of throttle.py is used up. The buckets are numbered: attackers cannot fill the table."""

    bucket = ExactTextField(max_length=30, primary_key=True)
    # The time until which the allowance is used up, in microseconds since 1970.
    spent_until = models.BigIntegerField(default=0)

    class Meta:
        db_table = "log_in_allowances"
        default_permissions = ()

    def __str__(self) -> str:
        return str(self.bucket)


class SecondFactor(models.Model):
    """An authenticator app or a security key of a user."""

    TOTP, WEBAUTHN = "totp", "webauthn"
    KINDS = {TOTP: _("authenticator app"), WEBAUTHN: _("security key")}

    id = models.BigAutoField(primary_key=True)
    user = models.ForeignKey(User, models.CASCADE, related_name="second_factors")
    kind = WordField(words=tuple(KINDS))
    name = ExactTextField(max_length=NAME_LENGTH)
    # A user has one authenticator app: the user's id for it, NULL for keys.
    totp_user_id = models.IntegerField(null=True, unique=True)
    # The SHA-256 of a key's credential id, which may be long.
    credential_sha256 = ExactTextField(max_length=64, null=True, unique=True)
    # Encrypted: an app's secret, or a key's public key with its id.
    data = models.TextField()
    # The last time step of an app, or the counter of a key: a code or response cannot be used twice.
    counter = models.BigIntegerField(default=0)
    created_at = models.DateTimeField(db_default=UtcNow())
    last_used_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "second_factors"
        default_permissions = ()

    def __str__(self) -> str:
        return str(self.name)

    @property
    def kind_text(self) -> str:
        return str(self.KINDS[str(self.kind)])


class RecoveryCode(models.Model):
    """A code that works once, without the second factor."""

    id = models.BigAutoField(primary_key=True)
    user = models.ForeignKey(User, models.CASCADE, related_name="recovery_codes")
    code_sha256 = ExactTextField(max_length=64)
    used_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "recovery_codes"
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["user", "code_sha256"], name="uniq_recovery_code")]

    def __str__(self) -> str:
        return f"{self.pk}"


class Identity(models.Model):
    """Who a user is at the provider of single sign-on."""

    id = models.BigAutoField(primary_key=True)
    user = models.OneToOneField(User, models.CASCADE, related_name="identity")
    issuer = ExactTextField(max_length=200)
    subject = ExactTextField(max_length=255)
    created_at = models.DateTimeField(db_default=UtcNow())

    class Meta:
        db_table = "sso_identities"
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["issuer", "subject"], name="uniq_sso_subject")]

    def __str__(self) -> str:
        return str(self.subject)
