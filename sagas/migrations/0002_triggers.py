"""The state machine of a saga: how it is created, how it changes, and that it is never deleted; and requests.

The transitions are those of sagas.transitions; a change of that table needs a migration that creates the trigger again.
"""

from django.db import migrations

from sagas import conditions
from sagas.models import KINDS, SEND_AGAIN
from sagas.transitions import COMPLETED, DEAD_LETTERED, IN_PROGRESS, LEGAL, PENDING, PENDING_RETRY
from webhookhub.db import vendors
from webhookhub.db.triggers import (
    LOCK,
    Case,
    Check,
    CreateTriggers,
    NotBlank,
    RealTimes,
    Refusal,
    Required,
    Rule,
    schedule_checks,
)

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
    "SELECT 1 FROM dead_letter_requeues requeue WHERE requeue.dead_letter_id = "  # noqa: S608
    f"(SELECT id FROM dead_letters WHERE saga_id = previous.id) {LOCK}"
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
    locks=True,
)
FAILED = Rule(
    "failed",
    "A saga is retried or DeadLettered only by the Failed job of its attempt: UPDATE refused",
    unless_exists=conditions.FAILED_JOB,
    locks=True,
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
ABANDONED = Rule(
    "abandoned",
    "A waiting saga is DeadLettered only by a request, without a job for its next attempt: UPDATE refused",
    when=f"NOT ({conditions.ABANDONED_SAGA})",
    locks=True,
)
# What each legal transition needs; the most frequent first.
NEEDS = {
    (PENDING, IN_PROGRESS): [STARTED],
    (IN_PROGRESS, COMPLETED): [SUCCEEDED],
    (IN_PROGRESS, PENDING_RETRY): [FAILED],
    (PENDING_RETRY, IN_PROGRESS): [STARTED],
    (IN_PROGRESS, DEAD_LETTERED): [LIMIT, FAILED, DEAD_LETTER],
    (PENDING, DEAD_LETTERED): [ABANDONED, DEAD_LETTER],
    (PENDING_RETRY, DEAD_LETTERED): [ABANDONED, DEAD_LETTER],
}
assert NEEDS.keys() == LEGAL.keys()
TRANSITIONS = [
    Case(f"OLD.status = '{before}' AND NEW.status = '{after}'", rules) for (before, after), rules in NEEDS.items()
]


def retry_below_limit(connection, status, attempt_count, max_retry_limit):
    return f"{status} <> '{PENDING_RETRY}' OR {attempt_count} < {max_retry_limit}"


def limit_positive(connection, max_retry_limit):
    return f"{max_retry_limit} >= 1"


CREATED = [
    Required([*STATE, *IDENTITY[1:]]),
    RealTimes(["next_attempt_at", "created_at"]),
    Rule(
        "created",
        "A saga is created Pending and without attempts: INSERT refused",
        when=f"NEW.status <> '{PENDING}' OR NEW.attempt_count <> 0 OR NEW.abandoned_by_id IS NOT NULL",
    ),
    Rule(
        "event",
        "A saga delivers a stored event: INSERT refused",
        when="NEW.generation = 0",
        unless_exists="SELECT 1 FROM events WHERE events.id = NEW.event_id",
        locks=True,
    ),
    Rule(
        "generation",
        "A saga is the first generation or a redelivery of an ended one: INSERT refused",
        when="NEW.generation <> 0",
        unless_exists=f"{PREVIOUS} AND ({ENDED})",
        locks=True,
    ),
    Check("chk_saga_limit_positive", ["max_retry_limit"], limit_positive),
    *schedule_checks("saga"),
]
CHANGED = [
    Required(STATE),
    RealTimes(["next_attempt_at"], changed=True),
    Rule(
        "terminal",
        "A Completed or DeadLettered saga is final: UPDATE refused",
        when="OLD.status IN ('Completed', 'DeadLettered')",
        protects=["final_error_code", "retry_delays"],
        protects_values=[*STATE, *IDENTITY, "abandoned_by_id"],
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
        "abandoned by",
        "A saga is abandoned once, by an open request that covers it: UPDATE refused",
        protects_values=["abandoned_by_id"],
        unless_exists=conditions.ABANDON_REQUEST,
        locks=True,
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

REQUESTS = "delivery_requests"
REQUEST_TEXTS = ["uid", "conditions", "requested_by", "reason", "request_token"]
REQUEST_VALUES = ["id", "kind", "saga_id", "max_saga_id", "requested_at"]
PROGRESS = ["due_at", "applied_at", "batches", "scanned_to", "left_from", "changed"]
COUNTERS = ["batches", "scanned_to", "changed"]
TARGET = (
    "SELECT 1 FROM webhook_delivery_sagas saga WHERE saga.id = NEW.saga_id AND saga.id = NEW.max_saga_id "  # noqa: S608
    f"AND (NEW.kind <> '{SEND_AGAIN}' OR saga.status IN ('{COMPLETED}', '{DEAD_LETTERED}'))"
)
REQUESTED = [
    Required([*REQUEST_TEXTS, "kind", "max_saga_id", "requested_at", *COUNTERS]),
    RealTimes(["requested_at", "due_at"]),
    Rule(
        "open",
        "A request is created without any progress: INSERT refused",
        when="NEW.due_at IS NULL OR NEW.applied_at IS NOT NULL OR NEW.batches <> 0 OR NEW.scanned_to <> 0 "
        "OR NEW.left_from IS NOT NULL OR NEW.changed <> 0",
    ),
    NotBlank(
        ["requested_by", "reason", "request_token"],
        "A request has the name of its author, a reason and a token: INSERT refused",
    ),
    Rule(
        "kind",
        "A request is to send now, abandon or send again, the last for one delivery: INSERT refused",
        when=f"NEW.kind NOT IN ({vendors.quoted(KINDS)}) OR NEW.kind = '{SEND_AGAIN}' AND NEW.saga_id IS NULL",
    ),
    Rule(
        "target",
        "A request is for an existing delivery, and to send it again for an ended one: INSERT refused",
        when="NEW.saga_id IS NOT NULL",
        unless_exists=TARGET,
        locks=True,
    ),
    Rule(
        "conditions",
        "The conditions of a request are a JSON object: INSERT refused",
        when="NOT JSON_VALID(NEW.conditions) OR UPPER(JSON_TYPE(NEW.conditions)) <> 'OBJECT'",
    ),
    Check("chk_request_uid", ["uid"], vendors.is_uid_sql),
    Check("chk_request_conditions", ["conditions"], vendors.is_json_sql),
]
APPLIED = [
    Required(COUNTERS),
    Rule(
        "identity",
        "A request keeps its author, reason and target: UPDATE refused",
        protects=REQUEST_TEXTS,
        protects_values=REQUEST_VALUES,
    ),
    Rule(
        "batches",
        "A request counts its batches one by one: UPDATE refused",
        unless=["NEW.batches = OLD.batches + 1"],
        protects_values=["batches"],
    ),
    Rule(
        "applied",
        "A request that was applied is final: UPDATE refused",
        when="OLD.due_at IS NULL",
        protects_values=PROGRESS,
    ),
]
NEVER = [Rule("deleted", "A request is never deleted: DELETE refused")]


class Migration(migrations.Migration):
    dependencies = [("sagas", "0001_initial"), ("jobs", "0001_initial"), ("deadletters", "0001_initial")]

    operations = [
        CreateTriggers(
            [
                Refusal("trg_saga_created", TABLE, "INSERT", CREATED),
                Refusal("trg_saga_changed", TABLE, "UPDATE", CHANGED),
                Refusal("trg_saga_no_delete", TABLE, "DELETE", DELETED),
                Refusal("trg_request_created", REQUESTS, "INSERT", REQUESTED),
                Refusal("trg_request_changed", REQUESTS, "UPDATE", APPLIED),
                Refusal("trg_request_no_delete", REQUESTS, "DELETE", NEVER),
            ]
        )
    ]
