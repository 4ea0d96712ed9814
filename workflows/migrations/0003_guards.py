"""Rows that another program writes by SQL are those of a run: created open, with facts that the tracker can fold."""

from django.db import migrations

from webhookhub.db import vendors
from webhookhub.db.triggers import (
    CreateTriggers,
    RealTimes,
    Refusal,
    ReplaceTriggers,
    Required,
    Rule,
    earlier,
    made_by,
)
from workflows.state import DECIDED, EMITTED, EVENT, HUB, IN_PROGRESS, OBSERVED, OPERATOR, VERB

before = earlier("workflows", "0002_triggers")
COUNTED = ["status", "steps", "version"]
# (origin, what such a fact has). The console's role may write neither event_id nor decision_no.
ORIGINS = [
    f"NEW.origin = '{EVENT}' AND NEW.event_id IS NOT NULL AND NEW.decision_no IS NULL "
    f"AND NEW.role IN ({vendors.quoted(OBSERVED)})",
    f"NEW.origin IN ('{VERB}', '{OPERATOR}') AND NEW.idempotency_key IS NOT NULL AND NEW.event_id IS NULL "
    f"AND NEW.decision_no IS NULL AND NEW.role IN ({vendors.quoted(OBSERVED)})",
    f"NEW.origin = '{HUB}' AND NEW.role = '{EMITTED}' AND NEW.event_id IS NOT NULL AND NEW.decision_no IS NULL",
    f"NEW.origin = '{HUB}' AND NEW.role IN ({vendors.quoted(DECIDED)}) AND NEW.decision_no > 0 "
    "AND JSON_VALID(NEW.detail)",
]
RUN = [
    Required(["saga_id", "saga_type", "definition_version", "correlation_key", *COUNTED]),
    Rule(
        "created",
        "A run is created open, without steps and deadline: INSERT refused",
        when=f"NEW.status <> '{IN_PROGRESS}' OR NEW.version <> 0 OR NEW.steps <> '{{}}' OR NEW.deadline IS NOT NULL",
    ),
]
CHANGED = [
    Required(COUNTED),
    *before.CHANGED,
    Rule(
        "version",
        "A run counts its writes one by one: UPDATE refused",
        unless=["NEW.version = OLD.version + 1"],
        protects_values=["version"],
    ),
]
FACT = [
    Required(["instance_id", "role", "origin", "occurred_at", "recorded_at"]),
    RealTimes(["occurred_at"]),
    Rule("origin", "A fact comes from an event, a person or the hub: INSERT refused", unless=ORIGINS),
]
DEFINITION = [
    Required(["name", "version", "fingerprint", "document", "first_used_at"]),
    RealTimes(["first_used_at"]),
    Rule("document", "A definition is stored as JSON: INSERT refused", when="NOT JSON_VALID(NEW.document)"),
]
TRACKED = [Required(["event_type", "tracked_since", "caught_up"]), RealTimes(["tracked_since"])]


class Migration(migrations.Migration):
    dependencies = [("workflows", "0002_triggers")]

    operations = [
        ReplaceTriggers(
            [Refusal("trg_instance_changed", "saga_instances", "UPDATE", CHANGED)],
            [trigger for trigger in made_by(before.Migration) if trigger.name == "trg_instance_changed"],
        ),
        CreateTriggers(
            [
                Refusal("trg_instance_created", "saga_instances", "INSERT", RUN),
                Refusal("trg_fact_created", "saga_facts", "INSERT", FACT),
                Refusal("trg_definition_created", "workflow_definitions", "INSERT", DEFINITION),
                Refusal("trg_tracked_created", "workflow_event_types", "INSERT", TRACKED),
            ]
        ),
    ]
