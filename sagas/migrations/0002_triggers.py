"""The state machine of a saga: how it is created, how it changes, and that it is never deleted.

The transitions are those of sagas.transitions; a change of that table needs a migration that creates the trigger again.
"""

from django.db import migrations

from sagas.transitions import DEAD_LETTERED, IN_PROGRESS, LEGAL, PENDING
from webhookhub.db.triggers import CreateTriggers, Refusal, Rule

TABLE = "webhook_delivery_sagas"
IDENTITY = ["id", "event_id", "subscription_id", "generation", "max_retry_limit", "base_delay", "created_at"]
STATE = ["status", "attempt_count", "next_attempt_at", "updated_at"]

TRANSITIONS = [f"OLD.status = '{before}' AND NEW.status = '{after}'" for before, after in LEGAL]
RESULTS = f"(OLD.status = '{IN_PROGRESS}' AND NEW.status <> '{IN_PROGRESS}')"
PREVIOUS = (
    "SELECT 1 FROM webhook_delivery_sagas previous WHERE previous.event_id = NEW.event_id "
    "AND previous.subscription_id = NEW.subscription_id AND previous.generation = NEW.generation - 1 "
    "AND previous.status IN ('Completed', 'DeadLettered')"
)


CREATED = [
    Rule(
        "created",
        "A saga is created Pending and without attempts: INSERT refused",
        when=f"NEW.status <> '{PENDING}' OR NEW.attempt_count <> 0",
    ),
    Rule(
        "generation",
        "A saga is the first generation or comes after an ended generation: INSERT refused",
        when="NEW.generation <> 0",
        unless_exists=PREVIOUS,
    ),
]
CHANGED = [
    Rule(
        "terminal",
        "A Completed or DeadLettered saga is final: UPDATE refused",
        when="OLD.status IN ('Completed', 'DeadLettered')",
        protects=["final_error_code", "retry_delays"],
        protects_values=[*STATE, *IDENTITY],
    ),
    Rule(
        "transition",
        "A saga changes its status only by a legal transition: UPDATE refused",
        when="OLD.status <> NEW.status",
        unless=TRANSITIONS,
    ),
    Rule(
        "attempts",
        "A saga counts each result once, and nothing else: UPDATE refused",
        when=f"NEW.attempt_count <> OLD.attempt_count + {RESULTS}",
    ),
    Rule(
        "identity",
        "A saga keeps its event, subscription, generation and policy: UPDATE refused",
        protects=["retry_delays"],
        protects_values=IDENTITY,
    ),
    Rule(
        "dead letter",
        "A saga is DeadLettered only with its dead letter: UPDATE refused",
        when=f"NEW.status = '{DEAD_LETTERED}' AND OLD.status <> '{DEAD_LETTERED}'",
        unless_exists="SELECT 1 FROM dead_letters WHERE saga_id = NEW.id",
    ),
]
DELETED = [Rule("deleted", "A saga is never deleted: DELETE refused")]


class Migration(migrations.Migration):
    dependencies = [("sagas", "0001_initial"), ("deadletters", "0001_initial")]

    operations = [
        CreateTriggers(
            [
                Refusal("trg_saga_created", TABLE, "INSERT", CREATED),
                Refusal("trg_saga_changed", TABLE, "UPDATE", CHANGED),
                Refusal("trg_saga_no_delete", TABLE, "DELETE", DELETED),
            ]
        )
    ]
