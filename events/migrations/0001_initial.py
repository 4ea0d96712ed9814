from django.db import migrations, models

import webhookhub.db.clock
import webhookhub.db.conditions
import webhookhub.db.fields
import webhookhub.ids


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="RoutingInbox",
            fields=[
                ("event_id", models.BigIntegerField(primary_key=True, serialize=False)),
                ("event_type", webhookhub.db.fields.ExactTextField(max_length=100)),
            ],
            options={
                "db_table": "routing_inbox",
            },
        ),
        migrations.CreateModel(
            name="Event",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "uid",
                    models.UUIDField(
                        db_default=webhookhub.db.clock.NewUid(),
                        default=webhookhub.ids.new_uid,
                        editable=False,
                        unique=True,
                        verbose_name="uid",
                    ),
                ),
                ("event_type", webhookhub.db.fields.ExactTextField(max_length=100, verbose_name="event type")),
                (
                    "source",
                    webhookhub.db.fields.ExactTextField(db_default="default", max_length=100, verbose_name="source"),
                ),
                (
                    "external_id",
                    webhookhub.db.fields.ExactTextField(
                        blank=True, max_length=200, null=True, verbose_name="external ID"
                    ),
                ),
                (
                    "correlation_id",
                    webhookhub.db.fields.ExactTextField(db_default="", max_length=200, verbose_name="correlation ID"),
                ),
                ("payload", webhookhub.db.fields.JSONTextField()),
                (
                    "created_at",
                    models.DateTimeField(db_default=webhookhub.db.clock.UtcNow(), verbose_name="created at"),
                ),
            ],
            options={
                "verbose_name": "event",
                "verbose_name_plural": "events",
                "db_table": "events",
                "indexes": [
                    models.Index(fields=["created_at"], name="idx_event_created"),
                    models.Index(fields=["event_type", "created_at"], name="idx_event_type"),
                    models.Index(fields=["correlation_id"], name="idx_event_correlation"),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("source", "external_id"), name="uniq_event_source_external"),
                    models.CheckConstraint(condition=webhookhub.db.conditions.IsUid("uid"), name="chk_event_uid"),
                    models.CheckConstraint(
                        condition=webhookhub.db.conditions.HasNoControls("correlation_id"),
                        name="chk_event_correlation_id",
                    ),
                    models.CheckConstraint(
                        condition=webhookhub.db.conditions.IsJSON("payload"), name="chk_event_payload"
                    ),
                    models.CheckConstraint(
                        condition=webhookhub.db.conditions.IsTime("created_at"), name="chk_event_created_at"
                    ),
                ],
            },
        ),
    ]
