"""A job is created for the next attempt of its saga; it changes by the transitions of jobs.states; a finished job
changes only by being marked as settled, once; no job is deleted."""

from django.db import migrations

from jobs.states import COMPLETED, FAILED, FINISHED, LEGAL
from webhookhub.db.triggers import ATTEMPT_TOO_LATE, Case, CreateTriggers, RealTimes, Refusal, Required, Rule
from webhookhub.egress.error_codes import ABANDONED

TABLE = "webhook_delivery_jobs"
IDENTITY = ["id", "saga_id", "attempt_no", "attempt_at"]
RESULT = ["status", "lease_until", "response_status", "lease_resets", "retry_after", "duration_ms", "finished_at"]
OTHERS = ["worker_id", "lease_token", "lease_resets", "response_snippet"]
RESULT_TEXTS = ["error_code", "worker_id", "lease_token", "response_snippet"]
NEXT_ATTEMPT = (
    "SELECT 1 FROM webhook_delivery_sagas saga WHERE saga.id = NEW.saga_id "
    "AND saga.status NOT IN ('Completed', 'DeadLettered') AND saga.attempt_count + 1 = NEW.attempt_no "
    "AND saga.abandoned_by_id IS NULL"
)
PREVIOUS_ATTEMPT = (
    "SELECT 1 FROM webhook_delivery_jobs previous WHERE previous.saga_id = NEW.saga_id "
    "AND previous.attempt_no = NEW.attempt_no - 1 AND previous.attempt_at < NEW.attempt_at"
)
APPLIED = (
    "SELECT 1 FROM webhook_delivery_sagas saga WHERE saga.id = NEW.saga_id AND saga.attempt_count >= NEW.attempt_no"
)
# Only a request abandons.
HAS_RESULT = {
    COMPLETED: "NEW.finished_at IS NOT NULL AND NEW.error_code IS NULL",
    FAILED: f"NEW.finished_at IS NOT NULL AND NEW.error_code IS NOT NULL AND NEW.error_code <> '{ABANDONED}'",
}
RESULTS = {
    status: Rule(
        "result",
        "A result has its time, and an error code only if it failed: UPDATE refused",
        when=f"NOT ({condition})",
    )
    for status, condition in HAS_RESULT.items()
}
TRANSITIONS = [
    Case(f"OLD.status = '{before}' AND NEW.status = '{after}'", [RESULTS[after]] if after in FINISHED else [])
    for before, after in LEGAL
]

NOT_CREATED = "A job is created Pending, as the next attempt of a saga that has not ended: INSERT refused"
CREATED = [
    Required(["saga_id", "attempt_no", "status", "attempt_at", *OTHERS]),
    # The times of a saga's attempts grow: there is always room for the next one.
    RealTimes(["attempt_at"], before=ATTEMPT_TOO_LATE, seconds="attempt_no"),
    Rule(
        "created",
        NOT_CREATED,
        when="NEW.status <> 'Pending' OR NEW.settled_at IS NOT NULL OR NEW.lease_resets <> 0",
    ),
    Rule("next", NOT_CREATED, unless_exists=NEXT_ATTEMPT, locks=True),
    Rule(
        "later",
        "An attempt is due later than the one before: INSERT refused",
        when="NEW.attempt_no > 1",
        unless_exists=PREVIOUS_ATTEMPT,
    ),
]
CHANGED = [
    Required(["status", *OTHERS]),
    Rule(
        "finished",
        "A Completed or Failed job is final, only settled_at may be set: UPDATE refused",
        when="OLD.status IN ('Completed', 'Failed')",
        protects=RESULT_TEXTS,
        protects_values=[*IDENTITY, *RESULT],
    ),
    Rule(
        "settled",
        "A job is settled once, when it is finished: UPDATE refused",
        when="OLD.settled_at IS NOT NULL OR NEW.status NOT IN ('Completed', 'Failed')",
        protects_values=["settled_at"],
    ),
    Rule(
        "applied",
        "A job is settled when its saga has applied the result: UPDATE refused",
        protects_values=["settled_at"],
        unless_exists=APPLIED,
        locks=True,
    ),
    Rule("identity", "A job keeps its saga and attempt: UPDATE refused", protects_values=IDENTITY),
    RealTimes(["finished_at"], changed=True, before=ATTEMPT_TOO_LATE),
    Rule(
        "lease",
        "A Leased job has the time when its lease expires: UPDATE refused",
        when="NEW.status = 'Leased' AND NEW.lease_until IS NULL",
    ),
    Rule(
        "resets",
        "A reset of a lease is counted once, and the job is not ready before the lease ends: UPDATE refused",
        when="NEW.lease_resets <> OLD.lease_resets",
        unless=[
            "OLD.status = 'Leased' AND NEW.status = 'Pending' AND NEW.lease_resets = OLD.lease_resets + 1 "
            "AND NEW.lease_until >= OLD.lease_until"
        ],
    ),
    Rule(
        "transition",
        "A job changes its status only by a legal transition: UPDATE refused",
        when="OLD.status <> NEW.status",
        cases=TRANSITIONS,
    ),
]
DELETED = [Rule("deleted", "A job is never deleted: DELETE refused")]


class Migration(migrations.Migration):
    dependencies = [("jobs", "0001_initial")]

    operations = [
        CreateTriggers(
            [
                Refusal("trg_job_created", TABLE, "INSERT", CREATED),
                Refusal("trg_job_changed", TABLE, "UPDATE", CHANGED),
                Refusal("trg_job_no_delete", TABLE, "DELETE", DELETED),
            ]
        )
    ]
