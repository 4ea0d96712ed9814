"""What must be stored before a saga may change its status, as SQL conditions for triggers and guarded statements."""

from __future__ import annotations

from jobs.states import COMPLETED as SUCCEEDED
from jobs.states import FAILED
from webhookhub.db.triggers import LOCK
from webhookhub.egress.error_codes import ABANDONED

from .transitions import DEAD_LETTERED, IN_PROGRESS, WAITING

# The saga's job of one attempt, by the unique key on both; `job` is the row.
_JOB = "SELECT 1 FROM webhook_delivery_jobs job WHERE job.saga_id = {saga}.id AND job.attempt_no = {attempt}"

# For an update of a saga: NEW.
NEXT_JOB = _JOB.format(saga="NEW", attempt="NEW.attempt_count + 1")
COUNTED_JOB = _JOB.format(saga="NEW", attempt="NEW.attempt_count")
SUCCEEDED_JOB = f"{COUNTED_JOB} AND job.status = '{SUCCEEDED}'"
FAILED_JOB = f"{COUNTED_JOB} AND job.status = '{FAILED}'"
LIMIT_REACHED = "NEW.attempt_count = NEW.max_retry_limit"
DEAD_LETTER = "SELECT 1 FROM dead_letters WHERE saga_id = NEW.id"
# By a request, and nothing can follow: a job of the next attempt would still end the saga.
ABANDONED_SAGA = (
    f"NEW.abandoned_by_id IS NOT NULL AND NEW.final_error_code = '{ABANDONED}' AND NOT EXISTS ({NEXT_JOB} {LOCK})"
)
# The open request by which a saga is marked, once.
ABANDON_REQUEST = (
    "SELECT 1 FROM delivery_requests request WHERE request.id = NEW.abandoned_by_id AND OLD.abandoned_by_id IS NULL "
    "AND request.kind = 'abandon' AND request.due_at IS NOT NULL "
    "AND NEW.id <= request.max_saga_id AND COALESCE(request.saga_id, NEW.id) = NEW.id"
)

# For a new saga: its event has its customer, and so has its subscription, unless it is for all customers.
SAME_CUSTOMER = (
    "SELECT 1 FROM events e, subscriptions u WHERE e.id = NEW.event_id AND u.id = NEW.subscription_id "
    "AND e.customer_key = NEW.customer_key AND u.customer_key IN ('', NEW.customer_key)"
)

# Of its subscription. A routed saga has its endpoint, and a later generation that of the one before. Sagas from before
# endpoints have none.
SAME_ENDPOINT = (
    "SELECT 1 FROM subscriptions u WHERE u.id = NEW.subscription_id AND u.customer_key IN ('', NEW.customer_key) "
    "AND (u.endpoint_id = NEW.endpoint_id OR NEW.endpoint_id IS NULL OR NEW.generation <> 0)"
)
PREVIOUS_ENDPOINT = "(previous.endpoint_id = NEW.endpoint_id OR NEW.endpoint_id IS NULL)"

# For a dead letter of `saga`. A repeated insert finds the saga DeadLettered and ends at the unique key.
LAST_ATTEMPT_FAILED = (
    f"saga.status = '{IN_PROGRESS}' AND saga.attempt_count + 1 = saga.max_retry_limit "
    f"AND EXISTS ({_JOB.format(saga='saga', attempt='saga.attempt_count + 1')} AND job.status = '{FAILED}' {LOCK}) "
    f"AND {{letter}}.final_error_code <> '{ABANDONED}'"
)
WAITING_WORDS = ", ".join(f"'{status}'" for status in WAITING)
WAITS_ABANDONED = (
    f"saga.status IN ({WAITING_WORDS}) AND saga.abandoned_by_id IS NOT NULL "
    f"AND NOT EXISTS ({_JOB.format(saga='saga', attempt='saga.attempt_count + 1')} {LOCK}) "
    f"AND {{letter}}.final_error_code = '{ABANDONED}'"
)
HAS_ENDED = f"saga.status = '{DEAD_LETTERED}'"
MAY_HAVE_DEAD_LETTER = (LAST_ATTEMPT_FAILED, WAITS_ABANDONED, HAS_ENDED)


def ending_saga(letter: str) -> str:
    """A query for the saga of a dead letter, if it may have one; `letter` is the SQL name of the new row.

    A dead letter relies on the result, or on its absence: a trigger locks the job.
    """
    accepted = " OR ".join(f"({condition.format(letter=letter)})" for condition in MAY_HAVE_DEAD_LETTER)
    return (
        f"SELECT 1 FROM webhook_delivery_sagas saga WHERE saga.id = {letter}.saga_id "  # noqa: S608
        f"AND saga.event_id = {letter}.event_id AND saga.subscription_id = {letter}.subscription_id "
        f"AND ({accepted})"
    )
