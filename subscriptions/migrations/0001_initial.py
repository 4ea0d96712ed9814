import datetime

import django.core.validators
from django.db import migrations, models

import subscriptions.models
import webhookhub.db.clock
import webhookhub.db.conditions
import webhookhub.db.fields


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="EndpointRate",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("callback_url", webhookhub.db.fields.ExactTextField(max_length=500, unique=True)),
                ("free_at", models.DateTimeField()),
            ],
            options={
                "db_table": "endpoint_rates",
                "default_permissions": (),
            },
        ),
        migrations.CreateModel(
            name="EndpointHealth",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("callback_url", webhookhub.db.fields.ExactTextField(max_length=500, unique=True)),
                ("failing_since", models.DateTimeField()),
                ("last_error_code", webhookhub.db.fields.ExactTextField(max_length=100)),
                ("recovered_at", models.DateTimeField(null=True)),
                ("recovered_by", webhookhub.db.fields.ExactTextField(db_default="", default="", max_length=20)),
                ("disabled_at", models.DateTimeField(null=True)),
                ("disabled_reason", webhookhub.db.fields.ExactTextField(db_default="", default="", max_length=20)),
                ("breaker_open_since", models.DateTimeField(null=True)),
                ("stage", models.PositiveSmallIntegerField(db_default=0, default=0)),
                ("announced", models.PositiveSmallIntegerField(db_default=0, default=0)),
                ("updated_at", models.DateTimeField(db_default=webhookhub.db.clock.UtcNow())),
            ],
            options={
                "db_table": "endpoint_health",
                "default_permissions": (),
            },
        ),
        migrations.CreateModel(
            name="SubscriptionVersion",
            fields=[
                ("id", models.PositiveSmallIntegerField(primary_key=True, serialize=False)),
                ("version", models.BigIntegerField(db_default=0)),
                ("health", models.BigIntegerField(db_default=0)),
            ],
            options={
                "db_table": "subscription_version",
            },
        ),
        migrations.CreateModel(
            name="Subscription",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "event_type",
                    webhookhub.db.fields.ExactTextField(
                        max_length=100,
                        validators=[
                            django.core.validators.RegexValidator(
                                "\\A[A-Za-z0-9_.-]{1,100}\\Z",
                                "An event type has 1 to 100 letters, digits, dots, dashes and underscores.",
                            )
                        ],
                        verbose_name="event type",
                    ),
                ),
                (
                    "callback_url",
                    webhookhub.db.fields.ExactTextField(
                        help_text="An https URL.",
                        max_length=500,
                        validators=[subscriptions.models.validate_callback_url],
                        verbose_name="callback URL",
                    ),
                ),
                (
                    "active",
                    models.BooleanField(
                        default=True,
                        help_text="If off, it gets no new deliveries, and open ones wait.",
                        verbose_name="active",
                    ),
                ),
                (
                    "verified",
                    models.BooleanField(
                        default=False,
                        editable=False,
                        help_text="The endpoint has shown that it wants these events.",
                        verbose_name="verified",
                    ),
                ),
                (
                    "verification_result",
                    webhookhub.db.fields.ExactTextField(blank=True, default="", editable=False, max_length=200),
                ),
                (
                    "verification_at",
                    models.DateTimeField(blank=True, editable=False, null=True, verbose_name="last verification"),
                ),
                (
                    "signing_scheme",
                    webhookhub.db.fields.WordField(
                        default="v1",
                        help_text="v1: a secret that both sides know. v1a: ed25519, the receiver needs the public key only.",
                        verbose_name="signing scheme",
                        words=["v1", "v1a"],
                    ),
                ),
                (
                    "secret",
                    webhookhub.db.fields.ExactTextField(
                        default=subscriptions.models.encrypted_new_secret, editable=False, max_length=500
                    ),
                ),
                (
                    "previous_secret",
                    webhookhub.db.fields.ExactTextField(blank=True, default="", editable=False, max_length=500),
                ),
                ("previous_secret_until", models.DateTimeField(blank=True, editable=False, null=True)),
                ("custom_headers", models.TextField(blank=True, default="", editable=False)),
                (
                    "description",
                    webhookhub.db.fields.ExactTextField(
                        blank=True, default="", max_length=200, verbose_name="description"
                    ),
                ),
                (
                    "max_retry_limit",
                    models.PositiveIntegerField(
                        blank=True,
                        help_text="Attempts, the first included. Empty: the hub's default.",
                        null=True,
                        validators=[
                            django.core.validators.MinValueValidator(1),
                            django.core.validators.MaxValueValidator(1000),
                        ],
                        verbose_name="max retry limit",
                    ),
                ),
                (
                    "base_delay",
                    models.DurationField(
                        blank=True,
                        help_text="Delay after the first failure (hh:mm:ss); it doubles each time. Empty: the hub's default.",
                        null=True,
                        validators=[
                            django.core.validators.MinValueValidator(datetime.timedelta(microseconds=1000)),
                            django.core.validators.MaxValueValidator(datetime.timedelta(days=1)),
                        ],
                        verbose_name="base delay",
                    ),
                ),
                (
                    "retry_delays",
                    webhookhub.db.fields.SecondsListField(
                        blank=True,
                        help_text="Instead of limit and base delay: seconds after each failure, such as 5, 300, 1800. Then it stops.",
                        null=True,
                        verbose_name="retry delays",
                    ),
                ),
                (
                    "rate_limit",
                    models.PositiveIntegerField(
                        blank=True,
                        help_text="Deliveries per second, retries included. Of the subscriptions with the same URL, "
                        "the lowest limit holds.",
                        null=True,
                        validators=[
                            django.core.validators.MinValueValidator(1),
                            django.core.validators.MaxValueValidator(10000),
                        ],
                        verbose_name="rate limit",
                    ),
                ),
                (
                    "disabled_at",
                    models.DateTimeField(blank=True, editable=False, null=True, verbose_name="disabled at"),
                ),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=webhookhub.db.clock.UtcNow(), editable=False, verbose_name="created at"
                    ),
                ),
                (
                    "updated_at",
                    models.DateTimeField(
                        db_default=webhookhub.db.clock.UtcNow(), editable=False, verbose_name="updated at"
                    ),
                ),
            ],
            options={
                "verbose_name": "subscription",
                "verbose_name_plural": "subscriptions",
                "db_table": "subscriptions",
                "permissions": [
                    ("reveal_secret", "Can see and rotate a subscription's signing secret"),
                    ("verify_subscription", "Can have a subscription's endpoint verified"),
                ],
                "indexes": [
                    models.Index(fields=["event_type"], name="idx_sub_event_type"),
                    models.Index(fields=["active"], name="idx_sub_active"),
                    models.Index(fields=["callback_url"], name="idx_sub_callback"),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("event_type", "callback_url"),
                        name="uniq_sub_event_type_callback",
                        violation_error_message="This address is subscribed to this event type already.",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(callback_url__gte="https://", callback_url__lt="https:/0"),
                        name="chk_sub_callback_https",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("max_retry_limit__isnull", True), ("max_retry_limit__gte", 1), _connector="OR"
                        ),
                        name="chk_sub_limit_positive",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("rate_limit__isnull", True), ("rate_limit__gte", 1), _connector="OR"),
                        name="chk_sub_rate_positive",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("retry_delays__isnull", True),
                            models.Q(("base_delay__isnull", True), ("max_retry_limit__isnull", True)),
                            _connector="OR",
                        ),
                        name="chk_sub_one_schedule",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("base_delay__gte", datetime.timedelta(0)), ("base_delay__lte", datetime.timedelta(days=30))
                        ),
                        name="chk_sub_base_delay",
                    ),
                    models.CheckConstraint(
                        condition=webhookhub.db.conditions.IsSecondsList("retry_delays"),
                        name="chk_sub_retry_delays",
                    ),
                ],
            },
        ),
    ]
