from django.db import migrations, models

import webhookhub.db.fields


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Counter",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "name", "label", "shard", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("name", webhookhub.db.fields.ExactTextField(max_length=40)),
                ("label", webhookhub.db.fields.ExactTextField(max_length=60)),
                ("shard", models.SmallIntegerField()),
                ("value", models.BigIntegerField(db_default=0, default=0)),
            ],
            options={
                "db_table": "stats_counters",
            },
        ),
        migrations.CreateModel(
            name="Period",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "period",
                        "starts_at",
                        "subscription_id",
                        "shard",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("period", webhookhub.db.fields.WordField(words=["minute", "hour"])),
                ("starts_at", models.DateTimeField()),
                ("subscription_id", models.BigIntegerField()),
                ("shard", models.SmallIntegerField()),
                ("attempts", models.BigIntegerField(db_default=0, default=0)),
                ("completed", models.BigIntegerField(db_default=0, default=0)),
                ("dead_lettered", models.BigIntegerField(db_default=0, default=0)),
                ("failed_4xx", models.BigIntegerField(db_default=0, default=0)),
                ("failed_5xx", models.BigIntegerField(db_default=0, default=0)),
                ("failed_timeout", models.BigIntegerField(db_default=0, default=0)),
                ("failed_connection", models.BigIntegerField(db_default=0, default=0)),
                ("failed_other", models.BigIntegerField(db_default=0, default=0)),
                ("duration_ms", models.BigIntegerField(db_default=0, default=0, help_text="Sum over all requests.")),
                ("within_10_ms", models.BigIntegerField(db_default=0, default=0)),
                ("within_25_ms", models.BigIntegerField(db_default=0, default=0)),
                ("within_50_ms", models.BigIntegerField(db_default=0, default=0)),
                ("within_100_ms", models.BigIntegerField(db_default=0, default=0)),
                ("within_250_ms", models.BigIntegerField(db_default=0, default=0)),
                ("within_500_ms", models.BigIntegerField(db_default=0, default=0)),
                ("within_1000_ms", models.BigIntegerField(db_default=0, default=0)),
                ("within_2500_ms", models.BigIntegerField(db_default=0, default=0)),
                ("within_5000_ms", models.BigIntegerField(db_default=0, default=0)),
                ("within_10000_ms", models.BigIntegerField(db_default=0, default=0)),
                ("within_30000_ms", models.BigIntegerField(db_default=0, default=0)),
                ("slower", models.BigIntegerField(db_default=0, default=0)),
            ],
            options={
                "db_table": "stats_periods",
                "indexes": [
                    models.Index(fields=["subscription_id", "period", "starts_at"], name="idx_period_subscription")
                ],
            },
        ),
        migrations.CreateModel(
            name="WorkflowPeriod",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "starts_at", "workflow", "shard", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("starts_at", models.DateTimeField()),
                ("workflow", webhookhub.db.fields.ExactTextField(max_length=30)),
                ("shard", models.SmallIntegerField()),
                ("started", models.BigIntegerField(db_default=0, default=0)),
                ("completed", models.BigIntegerField(db_default=0, default=0)),
                ("compensated", models.BigIntegerField(db_default=0, default=0)),
                ("failed", models.BigIntegerField(db_default=0, default=0)),
                ("compensations", models.BigIntegerField(db_default=0, default=0)),
                ("by_hand", models.BigIntegerField(db_default=0, default=0)),
                (
                    "duration_us",
                    models.BigIntegerField(db_default=0, default=0, help_text="Sum over the completed runs."),
                ),
                ("detections", models.BigIntegerField(db_default=0, default=0)),
                (
                    "detected_late",
                    models.BigIntegerField(db_default=0, default=0, help_text="After more than a minute."),
                ),
                ("detection_us", models.BigIntegerField(db_default=0, default=0, help_text="Sum over the detections.")),
            ],
            options={
                "db_table": "stats_workflow_periods",
            },
        ),
    ]
