import datetime

import django.db.models.deletion
from django.db import migrations, models

import webhookhub.db.clock
import webhookhub.db.conditions
import webhookhub.db.fields
import webhookhub.ids


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
                "permissions": [
                    ("send_now", "Can send waiting deliveries now"),
                    ("abandon", "Can abandon deliveries"),
                    ("send_again", "Can send ended deliveries again"),
                    ("bulk_request", "Can send now or abandon more than one delivery at a time"),
                ],
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
                    models.CheckConstraint(
                        condition=models.Q(
                            ("base_delay__gte", datetime.timedelta(0)), ("base_delay__lte", datetime.timedelta(days=30))
                        ),
                        name="chk_saga_base_delay",
                    ),
                    models.CheckConstraint(
                        condition=webhookhub.db.conditions.IsSecondsList("retry_delays"),
                        name="chk_saga_retry_delays",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="DeliveryRequest",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False, verbose_name="ID")),
                ("uid", models.UUIDField(default=webhookhub.ids.new_uid, editable=False, unique=True)),
                ("kind", webhookhub.db.fields.WordField(words=["send_now", "abandon", "send_again"])),
                ("conditions", webhookhub.db.fields.JSONTextField()),
                ("max_saga_id", models.BigIntegerField()),
                ("requested_by", webhookhub.db.fields.ExactTextField(max_length=150, verbose_name="requested by")),
                (
                    "requested_at",
                    models.DateTimeField(db_default=webhookhub.db.clock.UtcNow(), verbose_name="requested at"),
                ),
                ("reason", webhookhub.db.fields.ExactTextField(max_length=500)),
                ("request_token", webhookhub.db.fields.ExactTextField(max_length=32, unique=True)),
                ("due_at", models.DateTimeField(db_default=webhookhub.db.clock.UtcNow(), null=True)),
                ("applied_at", models.DateTimeField(null=True)),
                ("batches", models.PositiveIntegerField(db_default=0)),
                ("scanned_to", models.BigIntegerField(db_default=0)),
                ("left_from", models.BigIntegerField(null=True)),
                ("changed", models.PositiveIntegerField(db_default=0, verbose_name="changed deliveries")),
                (
                    "saga",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="requests",
                        to="sagas.saga",
                    ),
                ),
            ],
            options={
                "verbose_name": "request",
                "verbose_name_plural": "requests",
                "db_table": "delivery_requests",
                "default_permissions": ("view",),
                "indexes": [
                    models.Index(fields=["due_at"], name="idx_request_due"),
                    models.Index(fields=["saga"], name="idx_request_saga"),
                ],
                "constraints": [
                    models.CheckConstraint(condition=webhookhub.db.conditions.IsUid("uid"), name="chk_request_uid"),
                    models.CheckConstraint(
                        condition=webhookhub.db.conditions.IsJSON("conditions"), name="chk_request_conditions"
                    ),
                ],
            },
        ),
        migrations.AddField(
            model_name="saga",
            name="abandoned_by",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.DO_NOTHING,
                related_name="+",
                to="sagas.deliveryrequest",
            ),
        ),
    ]
