import datetime

import django.db.models.deletion
from django.db import migrations, models

import webhookhub.db.clock
import webhookhub.db.conditions
import webhookhub.db.fields


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("events", "0001_initial"),
        ("sagas", "0001_initial"),
        ("subscriptions", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="DeadLetter",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False, verbose_name="ID")),
                ("final_error_code", webhookhub.db.fields.ExactTextField(max_length=100)),
                ("failed_at", models.DateTimeField(verbose_name="failed at")),
                ("payload_snapshot", webhookhub.db.fields.JSONTextField()),
                (
                    "event",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="events.event",
                    ),
                ),
                (
                    "saga",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="dead_letters",
                        to="sagas.saga",
                    ),
                ),
                (
                    "subscription",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="subscriptions.subscription",
                    ),
                ),
            ],
            options={
                "verbose_name": "dead letter",
                "verbose_name_plural": "dead letters",
                "db_table": "dead_letters",
                "permissions": [
                    ("requeue_deadletter", "Can requeue a dead letter"),
                    ("bulk_requeue_deadletter", "Can requeue more than one dead letter at a time"),
                ],
            },
        ),
        migrations.CreateModel(
            name="Requeue",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("requested_by", webhookhub.db.fields.ExactTextField(max_length=150)),
                ("requested_at", models.DateTimeField(db_default=webhookhub.db.clock.UtcNow())),
                ("reason", webhookhub.db.fields.ExactTextField(max_length=500)),
                ("request_token", webhookhub.db.fields.ExactTextField(max_length=32)),
                ("max_retry_limit", models.PositiveIntegerField()),
                ("base_delay", models.DurationField()),
                ("retry_delays", webhookhub.db.fields.SecondsListField(null=True)),
                (
                    "dead_letter",
                    models.OneToOneField(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="requeue",
                        to="deadletters.deadletter",
                    ),
                ),
            ],
            options={
                "db_table": "dead_letter_requeues",
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("base_delay__gte", datetime.timedelta(0)), ("base_delay__lte", datetime.timedelta(days=30))
                        ),
                        name="chk_requeue_base_delay",
                    ),
                    models.CheckConstraint(
                        condition=webhookhub.db.conditions.IsSecondsList("retry_delays"),
                        name="chk_requeue_retry_delays",
                    ),
                ],
            },
        ),
        migrations.AddIndex(
            model_name="deadletter",
            index=models.Index(fields=["saga"], name="idx_dead_saga"),
        ),
        migrations.AddIndex(
            model_name="deadletter",
            index=models.Index(fields=["event"], name="idx_dead_event"),
        ),
        migrations.AddIndex(
            model_name="deadletter",
            index=models.Index(fields=["failed_at"], name="idx_dead_failed"),
        ),
        migrations.AddIndex(
            model_name="deadletter",
            index=models.Index(fields=["subscription", "failed_at"], name="idx_dead_subscription"),
        ),
        migrations.AddIndex(
            model_name="deadletter",
            index=models.Index(fields=["final_error_code", "failed_at"], name="idx_dead_error"),
        ),
        migrations.AddConstraint(
            model_name="deadletter",
            constraint=models.UniqueConstraint(fields=("saga",), name="uniq_dead_saga"),
        ),
        migrations.AddConstraint(
            model_name="deadletter",
            constraint=models.CheckConstraint(
                condition=webhookhub.db.conditions.IsJSON("payload_snapshot"), name="chk_dead_payload"
            ),
        ),
        migrations.AddConstraint(
            model_name="deadletter",
            constraint=models.CheckConstraint(
                condition=webhookhub.db.conditions.IsTime("failed_at"), name="chk_dead_failed_at"
            ),
        ),
    ]
