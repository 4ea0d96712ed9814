"""Tracked events land in the inbox; facts and used definitions are immutable; a saga that has ended stays as it is."""

from django.db import migrations

from webhookhub.db.triggers import Copy, CreateTriggers, Refusal

FACT = [
    "id",
    "instance_id",
    "event_id",
    "step",
    "role",
    "origin",
    "idempotency_key",
    "decision_no",
    "actor",
    "reason",
    "detail",
    "aggregate_id",
    "occurred_at",
    "recorded_at",
]
IDENTITY = ["id", "saga_id", "saga_type", "definition_version", "correlation_key"]
END = [
    "aggregate_id",
    "current_step",
    "status",
    "started_at",
    "completed_at",
    "error_message",
    "compensation_started_at",
    "deadline",
]


class Migration(migrations.Migration):
    dependencies = [("workflows", "0001_initial"), ("events", "0002_triggers")]

    operations = [
        CreateTriggers(
            [
                # One look by primary key in a small table: an event that nobody tracks costs no more than that.
                Copy(
                    "trg_event_workflow_inbox",
                    "events",
                    "workflow_inbox",
                    [("event_id", "id")],
                    when="EXISTS (SELECT 1 FROM workflow_event_types WHERE event_type = NEW.event_type)",
                ),
                Copy(
                    "trg_fact_touched",
                    "saga_facts",
                    "workflow_touched",
                    [("fact_id", "id"), ("instance_id", "instance_id")],
                    when="NEW.origin IN ('verb', 'operator')",
                ),
                Refusal(
                    "trg_fact_no_update", "saga_facts", "UPDATE", "A fact is immutable: UPDATE refused", protects=FACT
                ),
                Refusal("trg_fact_no_delete", "saga_facts", "DELETE", "A fact is immutable: DELETE refused"),
                Refusal(
                    "trg_instance_terminal",
                    "saga_instances",
                    "UPDATE",
                    "A saga that has ended stays as it is: UPDATE refused",
                    when="OLD.status IN ('COMPLETED', 'COMPENSATED', 'FAILED')",
                    protects=END,
                ),
                Refusal(
                    "trg_instance_identity",
                    "saga_instances",
                    "UPDATE",
                    "A saga keeps its type, definition and correlation: UPDATE refused",
                    protects=IDENTITY,
                ),
                Refusal(
                    "trg_instance_no_delete",
                    "saga_instances",
                    "DELETE",
                    "A saga is never deleted: DELETE refused",
                ),
                Refusal(
                    "trg_definition_no_update",
                    "workflow_definitions",
                    "UPDATE",
                    "A used definition is immutable: UPDATE refused",
                    protects=["id", "name", "version", "fingerprint", "document", "first_used_at"],
                ),
                Refusal(
                    "trg_definition_no_delete",
                    "workflow_definitions",
                    "DELETE",
                    "A used definition is immutable: DELETE refused",
                ),
            ]
        )
    ]
