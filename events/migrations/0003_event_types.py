"""The catalogue of event types, and a version that changes with every declaration."""

from django.db import migrations, models

import webhookhub.db.clock
import webhookhub.db.fields
from webhookhub.db.triggers import CreateTriggers, Tally

VERSION = ("event_type_version", "version")


class Migration(migrations.Migration):
    dependencies = [("events", "0002_triggers")]

    operations = [
        migrations.CreateModel(
            name="EventType",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("name", webhookhub.db.fields.ExactTextField(max_length=100, unique=True, verbose_name="name")),
                ("description", models.TextField(blank=True, default="", verbose_name="description")),
                (
                    "group",
                    webhookhub.db.fields.ExactTextField(
                        blank=True, db_column="group_name", default="", max_length=100, verbose_name="group"
                    ),
                ),
                ("sample", models.TextField(blank=True, default="", verbose_name="sample payload")),
                ("json_schema", models.TextField(blank=True, default="", verbose_name="JSON Schema")),
                ("label_pointers", models.TextField(blank=True, default="", verbose_name="label pointers")),
                (
                    "strict",
                    models.BooleanField(
                        default=False, help_text="Refuse payloads that break the schema.", verbose_name="strict"
                    ),
                ),
                ("deprecated_at", models.DateTimeField(blank=True, null=True, verbose_name="deprecated at")),
                (
                    "deprecation_note",
                    webhookhub.db.fields.ExactTextField(
                        blank=True, default="", max_length=500, verbose_name="deprecation note"
                    ),
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
                "verbose_name": "event type",
                "verbose_name_plural": "event types",
                "db_table": "event_types",
            },
        ),
        migrations.CreateModel(
            name="EventTypeVersion",
            fields=[
                ("id", models.PositiveSmallIntegerField(primary_key=True, serialize=False)),
                ("version", models.BigIntegerField(db_default=0)),
            ],
            options={
                "db_table": "event_type_version",
                "default_permissions": (),
            },
        ),
        CreateTriggers(
            [
                Tally("trg_event_type_version_insert", "event_types", "INSERT", *VERSION),
                Tally("trg_event_type_version_update", "event_types", "UPDATE", *VERSION),
                Tally("trg_event_type_version_delete", "event_types", "DELETE", *VERSION),
            ]
        ),
    ]
