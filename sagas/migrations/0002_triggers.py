"""The state machine of a saga: how it is created, how it changes, and that it is never deleted.

The transitions are those of sagas.transitions; a change of that table needs a migration that creates the trigger again.
"""

from django.db import migrations

from sagas import conditions
from sagas.transitions import COMPLETED, DEAD_LETTERED, IN_PROGRESS, PENDING, PENDING_RETRY
from webhookhub.db.triggers import Case, Check, CreateTriggers, Refusal, Rule

TABLE = "webhook_delivery_sagas"
IDENTITY = ["id", "event_id", "subscription_id", "generation", "max_retry_limit", "base_delay", "created_at"]
STATE = ["status", "attempt_count", "next_attempt_at", "updated_at"]

RESULTS = f"(OLD.status = '{IN_PROGRESS}' AND NEW.status <> '{IN_PROGRESS}')"
PREVIOUS = (
    "SELECT 1 FROM webhook_delivery_sagas previous WHERE previous.event_id = NEW.event_id "
    "AND previous.subscription_id = NEW.subscription_id AND previous.generation = NEW.generation - 1"
)
# A trigger creates the next generation of a dead letter, when it is requeued.
REQUEUED = (
    "SELECT 1 FROM dead_letter_requeues requeue WHERE requeue.dead_letter_id = "
    "(SELECT id FROM dead_letters WHERE saga_id = previous.id)"
)
ENDED = f"previous.status = '{COMPLETED}' OR previous.status = '{DEAD_LETTERED}' AND EXISTS ({REQUEUED})"

STARTED = Rule(
    "started",
    "A saga is InProgress only with the job of its next attempt: UPDATE refused",
    unless_exists=conditions.NEXT_JOB,
)
SUCCEEDED = Rule(
    "succeeded",
    "A saga is Completed only by the Completed job of its attempt: UPDATE refused",
    unless_exists=conditions.SUCCEEDED_JOB,
)
FAILED = Rule(
    "failed",
    "A saga is retried or DeadLettered only by the Failed job of its attempt: UPDATE refused",
    unless_exists=conditions.FAILED_JOB,
)
LIMIT = Rule(
    "limit",
    "A saga is DeadLettered only after its last attempt: UPDATE refused",
    when=f"NOT ({conditions.LIMIT_REACHED})",
)
DEAD_LETTER = Rule(
    "dead letter",
    "A saga is DeadLettered only with its dead letter: UPDATE refused",
    unless_exists=conditions.DEAD_LETTER,
)
# What each legal transition needs; the most frequent first.
NEEDS = {
    (PENDING, IN_PROGRESS): [STARTED],
    (IN_PROGRESS, COMPLETED): [SUCCEEDED],
    (IN_PROGRESS, PENDING_RETRY): [FAILED],
    (PENDING_RETRY, IN_PROGRESS): [STARTED],
    (IN_PROGRESS, DEAD_LETTERED): [LIMIT, FAILED, DEAD_LETTER],
}
TRANSITIONS = [
    Case(f"OLD.status = '{before}' AND NEW.status = '{after}'", rules) for (before, after), rules in NEEDS.items()
]


def retry_below_limit(connection, status, attempt_count, max_retry_limit):
    return f"{status} <> '{PENDING_RETRY}' OR {attempt_count} < {max_retry_limit}"


def limit_positive(connection, max_retry_limit):
    return f"{max_retry_limit} >= 1"


CREATED = [
    Rule(
        "created",
        "A saga is created Pending and without attempts: INSERT refused",
        when=f"NEW.status <> '{PENDING}' OR NEW.attempt_count <> 0",
    ),
    Rule(
        "generation",
        "A saga is the first generation or a redelivery of an ended one: INSERT refused",
        when="NEW.generation <> 0",
        unless_exists=f"{PREVIOUS} AND ({ENDED})",
    ),
    Check("chk_saga_limit_positive", ["max_retry_limit"], limit_positive),
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
        "transition",
        "A saga changes its status only by a legal transition: UPDATE refused",
        when="OLD.status <> NEW.status",
        cases=TRANSITIONS,
    ),
    Check("chk_saga_retry_below_limit", ["status", "attempt_count", "max_retry_limit"], retry_below_limit),
]
DELETED = [Rule("deleted", "A saga is never deleted: DELETE refused")]


class Migration(migrations.Migration):
    dependencies = [("sagas", "0001_initial"), ("jobs", "0001_initial"), ("deadletters", "0001_initial")]

    operations = [
        CreateTriggers(
            [
                Refusal("trg_saga_created", TABLE, "INSERT", CREATED),
                Refusal("trg_saga_changed", TABLE, "UPDATE", CHANGED),
                Refusal("trg_saga_no_delete", TABLE, "DELETE", DELETED),
            ]
        )
    ]
