"""Every claim detects its violations: each is planted in the observations of a correct run."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from standardwebhooks import Webhook

from tools.torture import observations
from tools.torture.claims import CLAIMS, check_claims, requests
from tools.torture.claims.responses import STEADY
from tools.torture.claims.workflows import (
    COMPLETED,
    HUB,
    SAGA_COMPENSATION_REQUESTED,
    SAGA_COMPLETED,
    SAGA_TIMED_OUT,
)
from tools.torture.config import CONCURRENCY, LOOPS, REFUSED_LIMIT, RETRY_LIMIT
from tools.torture.logs import Reset, tracebacks
from tools.torture.observations import Event, Job, Observations, Receipt, Saga, Workflow, body_of
from tools.torture.prepare import WORKFLOW, WORKFLOW_STEPS, key_of
from tools.torture.processes import Exit
from tools.torture.row_watcher import differences

NOW = 1_700_000_000.0
FLAKY, BROKEN = "/flaky", "/broken"


BODY = body_of("order", datetime(2026, 1, 2, 3, 4, 5, 678, UTC).replace(tzinfo=None), '{"n": 1}')


def receipt(path: str, attempt: int, response: str, at: float = NOW) -> Receipt:
    """Signed by the library that receivers use."""
    uid, sent = "uid", datetime.fromtimestamp(int(at), UTC)
    signed = Webhook(base64.b64encode(key_of(path)).decode()).sign(uid, sent, BODY.decode())
    return Receipt(uid, path, attempt, hashlib.sha256(BODY).hexdigest(), response, at, str(int(at)), signed)


def correct_run() -> Observations:
    """One event: delivered at the second attempt, at the first, and dead-lettered, to three subscriptions."""
    killed = {"type": "killed", "at": NOW, "kind": "worker", "slot": "worker-1", "pid": 7}
    observed = Observations(
        sent={("p", str(n)): ("order", {"n": n}) for n in range(1, 5)},
        acknowledged={("p", "1")},
        rolled_back={("p", "2")},
        transactions=[{("p", "3"), ("p", "4")}],
        events={5: Event(5, "uid", "order", ("p", "1"), {"n": 1}, BODY)},
        subscriptions={1: ("order", FLAKY), 2: ("order", BROKEN), 3: ("other", FLAKY), 4: ("order", STEADY)},
        sagas=[
            Saga(1, 5, 1, 0, "Completed", 2, RETRY_LIMIT),
            Saga(2, 5, 2, 0, "DeadLettered", 3, REFUSED_LIMIT),
            Saga(3, 5, 4, 0, "Completed", 1, RETRY_LIMIT),
        ],
        jobs=[
            Job(1, 1, 1, "Failed", 500, "http_500", 0, 1),
            Job(2, 2, 1, "Failed", None, "connection_lost", 0, 1),
            Job(3, 1, 2, "Completed", 200, None, 1, 1),
            Job(4, 2, 2, "Failed", 500, "http_500", 0, 1),
            Job(5, 2, 3, "Failed", 500, "http_500", 0, 1),
            Job(6, 3, 1, "Completed", 201, None, 0, 1),
        ],
        dead_letters=[2],
        receipts=[
            receipt(FLAKY, 1, "500"),
            receipt(BROKEN, 1, "drop"),
            receipt(FLAKY, 2, "200"),
            receipt(FLAKY, 2, "200", NOW + 6),
            receipt(BROKEN, 2, "500"),
            receipt(BROKEN, 3, "500"),
            receipt(STEADY, 1, "201"),
        ],
        faults=[killed, {"type": "database killed", "at": NOW + 50}, {"type": "database restored", "at": NOW + 55}],
        exits=[Exit("worker-1", "worker", 7, -9, "log", expected=True), Exit("p", "producer", 8, 0, "log", False)],
    )
    observed.logs.resets.add(Reset(3, 7, NOW + 3, NOW + 4))
    observed.workflows = [Workflow("w", WORKFLOW, "run", COMPLETED)]
    for id, step in enumerate(WORKFLOW_STEPS, 100):
        observed.sent["w", step] = step, {}
        observed.events[id] = Event(id, step, step, ("w", step), {}, correlation="run")
    observed.events[200] = Event(200, "own", SAGA_COMPLETED, (HUB, f"w/{SAGA_COMPLETED}/"), {}, correlation="run")
    return observed


def refuted(observed: Observations) -> set[str]:
    return {verdict.claim for verdict in check_claims(observed) if verdict.violations}


def lose_an_event(observed: Observations) -> None:
    del observed.events[5]


def store_an_event_twice(observed: Observations) -> None:
    observed.events[6] = replace(observed.events[5], id=6)


def change_a_payload(observed: Observations) -> None:
    observed.events[5] = replace(observed.events[5], payload={"n": 9})


def store_a_rolled_back_event(observed: Observations) -> None:
    observed.events[6] = Event(6, "other", "unwanted", ("p", "2"), {"n": 2})


def store_an_event_never_sent(observed: Observations) -> None:
    observed.events[6] = Event(6, "other", "unwanted", ("q", "1"), {})


def store_an_intended_rollback(observed: Observations) -> None:
    """Its producer is killed before it records the rollback."""
    read_intent(observed, "rolled_back")
    observed.events[6] = Event(6, "other", "unwanted", ("q", "1"), {})


def store_half_of_a_transaction(observed: Observations) -> None:
    observed.events[6] = Event(6, "other", "order", ("p", "3"), {"n": 3})


def store_half_of_a_batch(observed: Observations) -> None:
    read_intent(observed, "many")
    observed.events[6] = Event(6, "other", "unwanted", ("q", "1"), {})


def store_an_unacknowledged_event_twice(observed: Observations) -> None:
    observed.acknowledged.clear()
    store_an_event_twice(observed)


def change_an_unacknowledged_payload(observed: Observations) -> None:
    observed.acknowledged.clear()
    change_a_payload(observed)


def read_intent(observed: Observations, method: str) -> None:
    sent: list[dict[str, object]] = [{"id": id, "type": "unwanted", "payload": {}} for id in ("1", "2")]
    observations._read_producer(observed, [{"type": "intent", "source": "q", "method": method, "events": sent}])


def skip_a_subscription(observed: Observations) -> None:
    del observed.sagas[1], observed.dead_letters[0]
    observed.jobs = [job for job in observed.jobs if job.saga_id != 2]
    observed.receipts = [receipt for receipt in observed.receipts if receipt.path != BROKEN]


def route_twice(observed: Observations) -> None:
    observed.sagas.append(replace(observed.sagas[0], id=9))
    observed.jobs += [replace(job, saga_id=9) for job in observed.jobs if job.saga_id == 1]


def leave_an_event_in_the_inbox(observed: Observations) -> None:
    observed.inbox.append(5)


def leave_a_delivery_open(observed: Observations) -> None:
    observed.sagas[1] = replace(observed.sagas[1], status="InProgress")


def remove_the_dead_letter(observed: Observations) -> None:
    observed.dead_letters.clear()


def write_two_dead_letters(observed: Observations) -> None:
    observed.dead_letters.append(2)


def dead_letter_a_completed_delivery(observed: Observations) -> None:
    observed.dead_letters.append(1)


def give_up_too_early(observed: Observations) -> None:
    observed.sagas[1] = replace(observed.sagas[1], attempt_count=2)
    del observed.jobs[4], observed.receipts[5]


def lower_the_limit(observed: Observations) -> None:
    """And obey the lower one."""
    give_up_too_early(observed)
    observed.sagas[1] = replace(observed.sagas[1], max_retry_limit=2)


def count_an_attempt_twice(observed: Observations) -> None:
    observed.sagas[0] = replace(observed.sagas[0], attempt_count=3)


def leave_a_result_unsettled(observed: Observations) -> None:
    observed.jobs[0] = replace(observed.jobs[0], settled=0)


def complete_without_success(observed: Observations) -> None:
    observed.jobs[2] = replace(observed.jobs[2], status="Failed", response_status=None)


def complete_without_sending(observed: Observations) -> None:
    del observed.receipts[2:4]
    observed.jobs[2] = replace(observed.jobs[2], response_status=None)


def report_another_status(observed: Observations) -> None:
    observed.jobs[0] = replace(observed.jobs[0], response_status=503)


def complete_with_an_error(observed: Observations) -> None:
    observed.jobs[2] = replace(observed.jobs[2], error_code="timeout")


def complete_without_a_status(observed: Observations) -> None:
    observed.jobs[2] = replace(observed.jobs[2], response_status=None)


def complete_an_incomplete_response(observed: Observations) -> None:
    observed.receipts[6] = replace(observed.receipts[6], response="drip")
    observed.jobs[5] = replace(observed.jobs[5], response_status=200)


def fail_with_a_success(observed: Observations) -> None:
    observed.receipts[0] = replace(observed.receipts[0], response="200")
    observed.jobs[0] = replace(observed.jobs[0], response_status=200, error_code="http_500")


def fail_without_an_error(observed: Observations) -> None:
    observed.jobs[0] = replace(observed.jobs[0], response_status=None, error_code=None)


def fail_with_a_response_that_was_not_sent(observed: Observations) -> None:
    observed.receipts[0] = replace(observed.receipts[0], response="200")


def fail_to_connect_to_a_running_endpoint(observed: Observations) -> None:
    observed.jobs[1] = replace(observed.jobs[1], error_code="connect_error")
    del observed.receipts[1]


def lose_a_connection_with_a_response(observed: Observations) -> None:
    observed.receipts[1] = replace(observed.receipts[1], response="200")


def time_out_immediately(observed: Observations) -> None:
    observed.jobs[1] = replace(observed.jobs[1], error_code="timeout", duration=0.1)


def time_out_too_often(observed: Observations) -> None:
    """Each took the full time, but there are too many."""
    observed.jobs[1] = replace(observed.jobs[1], error_code="timeout", duration=2.0)
    for id in range(10, 20):
        observed.sagas.append(replace(observed.sagas[1], id=id))
        observed.jobs.append(replace(observed.jobs[1], saga_id=id))


def expire_leases_that_were_not_reset(observed: Observations) -> None:
    observed.jobs[1] = replace(observed.jobs[1], error_code="lease_expired", lease_resets=1)


def complete_no_delivery(observed: Observations) -> None:
    """A hub that reports a time-out for every response, consistently."""
    observed.sagas[2] = Saga(3, 5, 4, 0, "DeadLettered", RETRY_LIMIT, RETRY_LIMIT)
    observed.dead_letters.append(3)
    slow = Job(6, 3, 1, "Failed", None, "timeout", 0, 1, duration=2.0)
    observed.jobs[5:] = [replace(slow, attempt_no=number) for number in range(1, RETRY_LIMIT + 1)]
    observed.receipts += [receipt(STEADY, number, "200") for number in range(2, RETRY_LIMIT + 1)]


def send_another_body(observed: Observations) -> None:
    """The same bytes each time, signed, but not those of the event."""
    other = BODY.replace(b"order", b"Order")
    for index, receipt in enumerate(observed.receipts):
        signed = requests.signature(receipt, other)
        observed.receipts[index] = replace(receipt, body=hashlib.sha256(other).hexdigest(), signature=signed)


def sign_with_another_secret(observed: Observations) -> None:
    observed.receipts[0] = replace(observed.receipts[0], signature=observed.receipts[1].signature)


def send_without_a_signature(observed: Observations) -> None:
    observed.receipts[0] = replace(observed.receipts[0], signature="", timestamp="")


def sign_with_an_old_timestamp(observed: Observations) -> None:
    observed.receipts[0] = replace(receipt(FLAKY, 1, "500", NOW - 86400), at=NOW)


def send_a_different_body_once(observed: Observations) -> None:
    observed.receipts[3] = replace(observed.receipts[3], body="other")


def send_an_unknown_event(observed: Observations) -> None:
    observed.receipts.append(replace(observed.receipts[0], uid="phantom"))


def send_one_attempt_too_many(observed: Observations) -> None:
    observed.receipts.append(receipt(FLAKY, 3, "200"))


def send_attempt_zero(observed: Observations) -> None:
    observed.receipts.append(receipt(FLAKY, 0, "500"))


def repeat_a_dropped_request_at_once(observed: Observations) -> None:
    observed.receipts.append(receipt(BROKEN, 1, "drop"))


def repeat_a_dropped_request_much_later(observed: Observations) -> None:
    observed.receipts.append(receipt(BROKEN, 1, "drop", NOW + 30))


def repeat_a_request(observed: Observations) -> None:
    observed.receipts.append(observed.receipts[3])


def reset_a_lease_without_a_fault(observed: Observations) -> None:
    observed.logs.resets.add(Reset(3, 77, NOW + 3, NOW + 4))


def reset_a_lease_before_the_fault(observed: Observations) -> None:
    observed.logs.resets.add(Reset(3, 7, NOW - 5, NOW - 4))


def reset_a_lease_long_after_the_fault(observed: Observations) -> None:
    observed.faults[0]["type"] = "disconnected"
    observed.logs.resets = {Reset(3, 7, NOW + 12, NOW + 13)}


def reset_a_lease_that_has_not_expired(observed: Observations) -> None:
    observed.logs.resets = {Reset(3, 7, NOW + 3, NOW + 2)}


def reset_too_many_leases(observed: Observations) -> None:
    allowed = CONCURRENCY * (1 + LOOPS["worker"])  # one more exists already
    observed.jobs[0] = replace(observed.jobs[0], lease_resets=allowed)


def change_a_final_row(observed: Observations) -> None:
    observed.changed += differences("saga", {1: "a"}, {1: "b"})


def track_nothing(observed: Observations) -> None:
    observed.workflows.clear()
    del observed.events[200]


def track_twice(observed: Observations) -> None:
    observed.workflows.append(Workflow("v", WORKFLOW, "run", "IN_PROGRESS"))


def track_a_workflow_never_started(observed: Observations) -> None:
    observed.workflows.append(Workflow("v", WORKFLOW, "walk", "IN_PROGRESS"))


def stop_tracking(observed: Observations) -> None:
    observed.workflows[0] = replace(observed.workflows[0], status="IN_PROGRESS")
    del observed.events[200]


def complete_a_workflow_without_an_event(observed: Observations) -> None:
    del observed.events[200]


def publish_the_end_of_an_unknown_workflow(observed: Observations) -> None:
    observed.events[201] = replace(observed.events[200], id=201, key=(HUB, f"v/{SAGA_COMPLETED}/"))


def publish_the_end_twice(observed: Observations) -> None:
    observed.events[201] = replace(observed.events[200], id=201)


def time_out_a_workflow(observed: Observations, *, timed_out_after: float) -> None:
    """Its only step is stored; some seconds later the hub publishes a time-out."""
    started = datetime(2026, 1, 1, tzinfo=UTC).replace(tzinfo=None)  # as the driver returns it
    observed.workflows.append(Workflow("v", WORKFLOW, "walk", "COMPENSATING"))
    step = WORKFLOW_STEPS[0]
    observed.sent["v", step] = step, {}
    observed.events[300] = Event(300, step, step, ("v", step), {}, correlation="walk", created_at=started)
    at = started + timedelta(seconds=timed_out_after)
    for id, key in enumerate((f"{SAGA_TIMED_OUT}/email", f"{SAGA_COMPENSATION_REQUESTED}/customer"), 301):
        observed.events[id] = Event(id, key, key, (HUB, f"v/{key}"), {}, correlation="walk", created_at=at)


def time_out_too_early(observed: Observations) -> None:
    time_out_a_workflow(observed, timed_out_after=599)


def complete_without_the_last_step(observed: Observations) -> None:
    for id in (101, 102, 103):
        del observed.events[id]


def publish_no_time_out(observed: Observations) -> None:
    time_out_a_workflow(observed, timed_out_after=700)
    del observed.events[301], observed.events[302]
    observed.workflows[-1] = replace(observed.workflows[-1], status="IN_PROGRESS")
    later = observed.events[300].created_at + timedelta(seconds=700)
    observed.events[5] = replace(observed.events[5], created_at=later)


def compensate_nothing_after_a_time_out(observed: Observations) -> None:
    time_out_a_workflow(observed, timed_out_after=600)
    del observed.events[302]


def time_out_after_the_last_step(observed: Observations, *, compensated: bool) -> None:
    """The last step is stored, which implies the one before it."""
    time_out_a_workflow(observed, timed_out_after=600)
    step, at = WORKFLOW_STEPS[-1], observed.events[302].created_at
    observed.sent["v", step] = step, {}
    observed.events[310] = Event(310, step, step, ("v", step), {}, correlation="walk", created_at=at)
    if compensated:
        key = f"{SAGA_COMPENSATION_REQUESTED}/loyalty"
        observed.events[311] = Event(311, key, key, (HUB, f"v/{key}"), {}, correlation="walk", created_at=at)


def do_not_compensate_an_implied_step(observed: Observations) -> None:
    time_out_after_the_last_step(observed, compensated=False)


def reset_leases_without_log_entries(observed: Observations) -> None:
    observed.faults = [fault for fault in observed.faults if "database" not in fault["type"]]
    observed.jobs[0] = replace(observed.jobs[0], lease_resets=3)


def time_out_although_the_step_is_stored(observed: Observations) -> None:
    time_out_a_workflow(observed, timed_out_after=600)
    step = WORKFLOW_STEPS[1]
    observed.sent["v", step] = step, {}
    observed.events[310] = Event(310, step, step, ("v", step), {}, correlation="walk")


def fail_the_replay(observed: Observations) -> None:
    observed.replay = "1 differences"


def fail_the_audit(observed: Observations) -> None:
    observed.audit = "one-saga: 1 violation"


def log_a_traceback(observed: Observations) -> None:
    observed.logs.tracebacks += tracebacks(["ok", "Traceback (most recent call last):", "  …", "AttributeError: x"])


def log_a_failure(observed: Observations) -> None:
    observed.logs.tracebacks += tracebacks(['{"event": "process_failed", "exception": "AttributeError"}'])


def fail_in_the_endpoint(observed: Observations) -> None:
    observed.logs.tracebacks += tracebacks(["Exception in thread 9:", "Traceback (most recent call last):"])


def exit_unexpectedly(observed: Observations) -> None:
    observed.exits.append(Exit("router-1", "router", 9, 1, "log", expected=False))


def never_converge(observed: Observations) -> None:
    observed.unfinished.append("not converged")


VIOLATIONS: dict[Callable[[Observations], None], str] = {
    lose_an_event: "Every acknowledged event",
    store_an_event_twice: "Every acknowledged event",
    change_a_payload: "Every acknowledged event",
    store_an_unacknowledged_event_twice: "Every acknowledged event",
    change_an_unacknowledged_payload: "Every acknowledged event",
    store_a_rolled_back_event: "Nothing is stored",
    store_an_intended_rollback: "Nothing is stored",
    store_half_of_a_transaction: "A transaction",
    store_half_of_a_batch: "A transaction",
    store_an_event_never_sent: "Nothing is stored",
    skip_a_subscription: "Every event has exactly one delivery",
    route_twice: "Every event has exactly one delivery",
    leave_an_event_in_the_inbox: "Every event has exactly one delivery",
    leave_a_delivery_open: "Every delivery ended once",
    remove_the_dead_letter: "Every delivery ended once",
    write_two_dead_letters: "Every delivery ended once",
    dead_letter_a_completed_delivery: "Every delivery ended once",
    give_up_too_early: "Every delivery ended once",
    lower_the_limit: "Every delivery ended once",
    never_converge: "Every delivery ended once",
    count_an_attempt_twice: "attempt_count",
    leave_a_result_unsettled: "attempt_count",
    complete_without_success: "attempt_count",
    complete_without_sending: "Every Completed delivery",
    report_another_status: "Every Completed delivery",
    complete_with_an_error: "Every Completed delivery",
    complete_without_a_status: "Every Completed delivery",
    complete_an_incomplete_response: "Every Completed delivery",
    fail_with_a_success: "Every failed attempt",
    fail_without_an_error: "Every failed attempt",
    fail_with_a_response_that_was_not_sent: "Every failed attempt",
    fail_to_connect_to_a_running_endpoint: "Every failed attempt",
    lose_a_connection_with_a_response: "Every failed attempt",
    time_out_immediately: "Every failed attempt",
    time_out_too_often: "Every failed attempt",
    expire_leases_that_were_not_reset: "Every failed attempt",
    complete_no_delivery: "Every delivery to /steady",
    send_another_body: "Every request",
    sign_with_another_secret: "Every request",
    send_without_a_signature: "Every request",
    sign_with_an_old_timestamp: "Every request",
    send_a_different_body_once: "Every attempt of an event",
    send_an_unknown_event: "Every attempt of an event",
    send_one_attempt_too_many: "Every attempt of an event",
    send_attempt_zero: "Every attempt of an event",
    repeat_a_dropped_request_at_once: "No attempt was received more often",
    repeat_a_dropped_request_much_later: "No attempt was received more often",
    repeat_a_request: "No attempt was received more often",
    reset_a_lease_without_a_fault: "No lease was reset",
    reset_a_lease_before_the_fault: "No lease was reset",
    reset_a_lease_long_after_the_fault: "No lease was reset",
    reset_a_lease_that_has_not_expired: "No lease was reset",
    reset_too_many_leases: "No lease was reset",
    change_a_final_row: "No final row",
    track_nothing: "Every workflow",
    track_twice: "Every workflow",
    track_a_workflow_never_started: "Every workflow",
    stop_tracking: "Every workflow",
    complete_a_workflow_without_an_event: "Every workflow",
    publish_the_end_of_an_unknown_workflow: "Every workflow",
    publish_the_end_twice: "Every workflow",
    complete_without_the_last_step: "Every workflow",
    publish_no_time_out: "Every workflow",
    compensate_nothing_after_a_time_out: "Every workflow",
    do_not_compensate_an_implied_step: "Every workflow",
    reset_leases_without_log_entries: "No lease was reset",
    time_out_too_early: "Every workflow",
    time_out_although_the_step_is_stored: "Every workflow",
    fail_the_replay: "The replay",
    fail_the_audit: "The integrity check",
    log_a_traceback: "No traceback",
    log_a_failure: "No traceback",
    fail_in_the_endpoint: "No traceback",
    exit_unexpectedly: "No traceback",
}


def test_a_correct_run_passes():
    assert refuted(correct_run()) == set()


@pytest.mark.parametrize("plant", VIOLATIONS, ids=lambda plant: plant.__name__)
def test_each_violation_is_found(plant: Callable[[Observations], None]):
    observed = correct_run()

    plant(observed)

    assert any(claim.startswith(VIOLATIONS[plant]) for claim in refuted(observed)), refuted(observed)


def test_every_claim_has_a_violation():
    claims = set(VIOLATIONS.values())

    assert [claim.text for claim in CLAIMS if not any(claim.text.startswith(start) for start in claims)] == []


def test_a_workflow_may_time_out_if_a_step_is_missing():
    observed = correct_run()

    time_out_a_workflow(observed, timed_out_after=600)

    assert refuted(observed) == set()


def test_implied_steps_are_compensated_after_a_time_out():
    observed = correct_run()

    time_out_after_the_last_step(observed, compensated=True)

    assert refuted(observed) == set()


def test_a_lease_may_expire_while_the_database_is_down():
    observed = correct_run()

    observed.logs.resets.add(Reset(3, 77, NOW + 52, NOW + 57))

    assert refuted(observed) == set()


def test_a_stopped_worker_may_time_out_on_a_response():
    observed = correct_run()
    observed.receipts[1] = replace(observed.receipts[1], response="200")
    observed.jobs[1] = replace(observed.jobs[1], error_code="timeout", pid=9, finished_at=NOW + 8, duration=1.0)
    assert refuted(observed)

    observed.faults += [{"type": type, "kind": "worker", "pid": 9, "at": NOW + at} for type, at in STOP]

    assert refuted(observed) == set()


STOP = (("stopped", 0.5), ("resumed", 7.5))
