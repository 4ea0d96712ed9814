"""Tracked events land in the inbox; facts and used definitions are immutable; a saga that has ended stays as it is."""

from django.db import migrations

from webhookhub.db.triggers import Copy, CreateTriggers, Refusal, Rule

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
DEFINITION = ["id", "name", "version", "fingerprint", "document", "first_used_at"]
CHANGED = [
    Rule(
        "terminal",
        "A saga that has ended stays as it is: UPDATE refused",
        when="OLD.status IN ('COMPLETED', 'COMPENSATED', 'FAILED')",
        protects=END,
    ),
    Rule("identity", "A saga keeps its type, definition and correlation: UPDATE refused", protects=IDENTITY),
]


def immutable(prefix, table, noun, columns):
    return [
        Refusal(
            f"trg_{prefix}_no_update",
            table,
            "UPDATE",
            [Rule("immutable", f"{noun} is immutable: UPDATE refused", protects=columns)],
        ),
        Refusal(f"trg_{prefix}_no_delete", table, "DELETE", [Rule("deleted", f"{noun} is immutable: DELETE refused")]),
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
                *immutable("fact", "saga_facts", "A fact", FACT),
                Refusal("trg_instance_changed", "saga_instances", "UPDATE", CHANGED),
                Refusal(
                    "trg_instance_no_delete",
                    "saga_instances",
                    "DELETE",
                    [Rule("deleted", "A saga is never deleted: DELETE refused")],
                ),
                *immutable("definition", "workflow_definitions", "A used definition", DEFINITION),
            ]
        )
    ]
