import datetime

import django.db.models.deletion
from django.db import migrations, models

import webhookhub.db.clock
import webhookhub.db.fields


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("events", "0001_initial"),
        ("subscriptions", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="Saga",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "generation",
                    models.PositiveIntegerField(
                        db_default=0, default=0, help_text="0 when routed; each requeue adds one."
                    ),
                ),
                (
                    "status",
                    webhookhub.db.fields.WordField(
                        default="Pending",
                        verbose_name="status",
                        words=["Pending", "InProgress", "PendingRetry", "Completed", "DeadLettered"],
                    ),
                ),
                ("attempt_count", models.PositiveIntegerField(default=0)),
                ("next_attempt_at", models.DateTimeField(db_default=webhookhub.db.clock.UtcNow())),
                ("max_retry_limit", models.PositiveIntegerField()),
                ("base_delay", models.DurationField()),
                ("retry_delays", webhookhub.db.fields.SecondsListField(blank=True, null=True)),
                ("final_error_code", webhookhub.db.fields.ExactTextField(blank=True, max_length=100, null=True)),
                ("created_at", models.DateTimeField(db_default=webhookhub.db.clock.UtcNow())),
                ("updated_at", models.DateTimeField(db_default=webhookhub.db.clock.UtcNow())),
                (
                    "event",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="sagas",
                        to="events.event",
                    ),
                ),
                (
                    "subscription",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="sagas",
                        to="subscriptions.subscription",
                    ),
                ),
                (
                    "parked_subscription_id",
                    models.GeneratedField(
                        db_persist=True,
                        expression=models.Case(
                            models.When(
                                next_attempt_at__gte=datetime.datetime(9000, 1, 1, tzinfo=datetime.UTC),
                                status__in=("Pending", "PendingRetry"),
                                then=models.F("subscription_id"),
                            ),
                            default=None,
                        ),
                        output_field=models.BigIntegerField(null=True),
                    ),
                ),
            ],
            options={
                "verbose_name": "delivery",
                "verbose_name_plural": "deliveries",
                "db_table": "webhook_delivery_sagas",
                "indexes": [
                    models.Index(fields=["event", "subscription"], name="idx_saga_event"),
                    models.Index(fields=["status", "next_attempt_at"], name="idx_saga_status_retry"),
                    models.Index(fields=["status"], name="idx_saga_status"),
                    models.Index(fields=["subscription"], name="idx_saga_subscription"),
                    models.Index(fields=["parked_subscription_id", "id"], name="idx_saga_parked"),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("event", "subscription", "generation"), name="uniq_saga_event_subscription"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("status", "PendingRetry"), _negated=True),
                            ("attempt_count__lt", models.F("max_retry_limit")),
                            _connector="OR",
                        ),
                        name="chk_saga_retry_below_limit",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("max_retry_limit__gte", 1)), name="chk_saga_limit_positive"
                    ),
                ],
            },
        ),
    ]
