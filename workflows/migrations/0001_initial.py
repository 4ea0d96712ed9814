import django.db.models.deletion
from django.db import migrations, models

import webhookhub.db.clock
import webhookhub.db.fields
import webhookhub.ids


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("events", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="TrackedType",
            fields=[
                ("event_type", webhookhub.db.fields.ExactTextField(max_length=100, primary_key=True, serialize=False)),
                ("tracked_since", models.DateTimeField(db_default=webhookhub.db.clock.UtcNow())),
                ("caught_up", models.BooleanField(default=False)),
            ],
            options={
                "db_table": "workflow_event_types",
            },
        ),
        migrations.CreateModel(
            name="WorkflowInbox",
            fields=[
                ("event_id", models.BigIntegerField(primary_key=True, serialize=False)),
                ("lease_until", models.DateTimeField(blank=True, null=True)),
            ],
            options={
                "db_table": "workflow_inbox",
            },
        ),
        migrations.CreateModel(
            name="WorkflowTouched",
            fields=[
                ("fact_id", models.BigIntegerField(primary_key=True, serialize=False)),
                ("instance_id", models.BigIntegerField()),
            ],
            options={
                "db_table": "workflow_touched",
            },
        ),
        migrations.CreateModel(
            name="Instance",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("saga_id", models.UUIDField(default=webhookhub.ids.new_uid, editable=False, unique=True)),
                ("saga_type", webhookhub.db.fields.ExactTextField(max_length=30)),
                ("definition_version", models.PositiveSmallIntegerField()),
                ("correlation_key", webhookhub.db.fields.ExactTextField(max_length=200)),
                ("aggregate_id", webhookhub.db.fields.ExactTextField(blank=True, max_length=200, null=True)),
                ("current_step", webhookhub.db.fields.ExactTextField(blank=True, default="", max_length=28)),
                (
                    "status",
                    webhookhub.db.fields.WordField(
                        default="IN_PROGRESS",
                        words=["IN_PROGRESS", "COMPLETED", "COMPENSATING", "COMPENSATED", "FAILED"],
                    ),
                ),
                ("started_at", models.DateTimeField(db_default=webhookhub.db.clock.UtcNow())),
                ("completed_at", models.DateTimeField(blank=True, null=True)),
                ("error_message", webhookhub.db.fields.ExactTextField(blank=True, default="", max_length=500)),
                ("compensation_started_at", models.DateTimeField(blank=True, null=True)),
                ("deadline", models.DateTimeField(blank=True, null=True)),
                ("steps", models.TextField(default="{}")),
                ("anomaly", webhookhub.db.fields.ExactTextField(blank=True, default="", max_length=500)),
                ("needs_operator", models.BooleanField(default=False)),
                ("by_hand", models.BooleanField(default=False)),
                ("version", models.PositiveIntegerField(default=0)),
                ("updated_at", models.DateTimeField(db_default=webhookhub.db.clock.UtcNow())),
            ],
            options={
                "verbose_name": "workflow",
                "verbose_name_plural": "workflows",
                "db_table": "saga_instances",
                "permissions": [
                    ("retry_step", "Can retry the delivery of a step of a workflow"),
                    ("mark_compensated", "Can mark a workflow's step as compensated"),
                    ("close_workflow", "Can close a workflow"),
                ],
                "indexes": [
                    models.Index(fields=["status", "deadline"], name="idx_instance_due"),
                    models.Index(fields=["aggregate_id"], name="idx_instance_aggregate"),
                    models.Index(fields=["status", "id"], name="idx_instance_status"),
                    models.Index(fields=["saga_type", "status", "id"], name="idx_instance_type"),
                    models.Index(fields=["saga_type", "current_step", "status", "id"], name="idx_instance_step"),
                    models.Index(fields=["needs_operator", "id"], name="idx_instance_operator"),
                    models.Index(fields=["started_at"], name="idx_instance_started"),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("saga_type", "correlation_key"), name="uniq_instance_correlation")
                ],
            },
        ),
        migrations.CreateModel(
            name="UsedDefinition",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("name", webhookhub.db.fields.ExactTextField(max_length=30)),
                ("version", models.PositiveSmallIntegerField()),
                ("fingerprint", webhookhub.db.fields.ExactTextField(max_length=64)),
                ("document", models.TextField()),
                ("first_used_at", models.DateTimeField(db_default=webhookhub.db.clock.UtcNow())),
            ],
            options={
                "db_table": "workflow_definitions",
                "constraints": [models.UniqueConstraint(fields=("name", "version"), name="uniq_definition_version")],
            },
        ),
        migrations.CreateModel(
            name="Fact",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("step", webhookhub.db.fields.ExactTextField(blank=True, default="", max_length=28)),
                (
                    "role",
                    webhookhub.db.fields.WordField(
                        words=[
                            "started",
                            "done",
                            "failed",
                            "compensated",
                            "compensation_failed",
                            "completed",
                            "closed",
                            "retried",
                            "failing",
                            "ended",
                            "emitted",
                        ]
                    ),
                ),
                ("origin", webhookhub.db.fields.WordField(words=["event", "verb", "operator", "hub"])),
                ("idempotency_key", webhookhub.db.fields.ExactTextField(blank=True, max_length=200, null=True)),
                ("decision_no", models.PositiveSmallIntegerField(blank=True, null=True)),
                ("actor", webhookhub.db.fields.ExactTextField(blank=True, default="", max_length=150)),
                ("reason", webhookhub.db.fields.ExactTextField(blank=True, default="", max_length=500)),
                ("detail", models.TextField(blank=True, default="")),
                ("aggregate_id", webhookhub.db.fields.ExactTextField(blank=True, max_length=200, null=True)),
                ("occurred_at", models.DateTimeField()),
                ("recorded_at", models.DateTimeField(db_default=webhookhub.db.clock.UtcNow())),
                (
                    "event",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="events.event",
                    ),
                ),
                (
                    "instance",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="facts",
                        to="workflows.instance",
                    ),
                ),
            ],
            options={
                "verbose_name": "workflow fact",
                "db_table": "saga_facts",
                "indexes": [models.Index(fields=["event"], name="idx_fact_event")],
                "constraints": [
                    models.UniqueConstraint(fields=("instance", "event", "step", "role"), name="uniq_fact_event"),
                    models.UniqueConstraint(fields=("instance", "idempotency_key"), name="uniq_fact_key"),
                    models.UniqueConstraint(fields=("instance", "decision_no"), name="uniq_fact_decision"),
                ],
            },
        ),
    ]
