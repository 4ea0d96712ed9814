import django.db.models.deletion
from django.db import migrations, models

import webhookhub.db.fields


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("sagas", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="Job",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "attempt_no",
                    models.PositiveIntegerField(help_text="1 for the first attempt.", verbose_name="attempt"),
                ),
                (
                    "status",
                    webhookhub.db.fields.WordField(
                        default="Pending", verbose_name="status", words=["Pending", "Leased", "Completed", "Failed"]
                    ),
                ),
                ("lease_until", models.DateTimeField(blank=True, null=True)),
                (
                    "attempt_at",
                    models.DateTimeField(
                        help_text="When the attempt was due; later than the attempt before.", verbose_name="due at"
                    ),
                ),
                ("response_status", models.IntegerField(blank=True, null=True, verbose_name="response status")),
                ("error_code", webhookhub.db.fields.ExactTextField(blank=True, max_length=100, null=True)),
                ("worker_id", webhookhub.db.fields.ExactTextField(db_default="", default="", max_length=150)),
                ("lease_token", webhookhub.db.fields.ExactTextField(db_default="", default="", max_length=32)),
                ("lease_resets", models.PositiveIntegerField(db_default=0, default=0)),
                (
                    "retry_after",
                    models.DateTimeField(blank=True, help_text="The earliest time the endpoint asked for.", null=True),
                ),
                ("duration_ms", models.PositiveIntegerField(blank=True, null=True, verbose_name="duration (ms)")),
                ("response_snippet", webhookhub.db.fields.ExactTextField(db_default="", default="", max_length=1000)),
                ("finished_at", models.DateTimeField(blank=True, null=True)),
                ("settled_at", models.DateTimeField(blank=True, null=True)),
                (
                    "active_saga_id",
                    models.GeneratedField(
                        db_persist=True,
                        expression=models.Case(
                            models.When(status__in=("Pending", "Leased"), then=models.F("saga_id")), default=None
                        ),
                        output_field=models.BigIntegerField(null=True),
                    ),
                ),
                (
                    "saga",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="jobs",
                        to="sagas.saga",
                    ),
                ),
            ],
            options={
                "verbose_name": "attempt",
                "verbose_name_plural": "attempts",
                "db_table": "webhook_delivery_jobs",
                "indexes": [
                    models.Index(fields=["saga"], name="idx_job_saga"),
                    models.Index(fields=["status", "lease_until"], name="idx_job_status_lease"),
                    models.Index(fields=["settled_at", "status"], name="idx_job_settled"),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("saga", "attempt_at"), name="uniq_job_saga_attempt"),
                    models.UniqueConstraint(fields=("saga", "attempt_no"), name="uniq_job_saga_attempt_no"),
                    models.UniqueConstraint(fields=("active_saga_id",), name="uniq_job_active_saga"),
                ],
            },
        ),
    ]
