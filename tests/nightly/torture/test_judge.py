"""The judge must find what it is there to find: each fault is planted in evidence that is otherwise without fault."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from standardwebhooks import Webhook

from tools.torture import evidence as evidence_of_a_run
from tools.torture import wire
from tools.torture.evidence import Event, Evidence, Job, Receipt, Saga, Workflow, body_of
from tools.torture.fleet import Ending
from tools.torture.judge import CLAIMS, judge
from tools.torture.logs import Reset, tracebacks
from tools.torture.outcomes import STEADY
from tools.torture.plan import CONCURRENCY, LOOPS, REFUSED_LIMIT, RETRY_LIMIT
from tools.torture.sampler import changes
from tools.torture.stage import WORKFLOW, WORKFLOW_STEPS, key_of
from tools.torture.tracking import DONE, HUB, SAGA_COMPENSATION_REQUESTED, SAGA_COMPLETED, SAGA_TIMED_OUT

NOW = 1_700_000_000.0
FLAKY, BROKEN = "/flaky", "/broken"


BODY = body_of("order", datetime(2026, 1, 2, 3, 4, 5, 678, UTC).replace(tzinfo=None), '{"n": 1}')


def receipt(path: str, attempt: int, answer: str, at: float = NOW) -> Receipt:
    """Made by the package that receivers use."""
    uid, sent = "uid", datetime.fromtimestamp(int(at), UTC)
    signed = Webhook(base64.b64encode(key_of(path)).decode()).sign(uid, sent, BODY.decode())
    return Receipt(uid, path, attempt, hashlib.sha256(BODY).hexdigest(), answer, at, str(int(at)), signed)


def correct_run() -> Evidence:
    """One event: delivered at the second attempt to one subscriber, at the first to another, and buried at a third."""
    worker = {"say": "killed", "at": NOW, "kind": "worker", "slot": "worker-1", "pid": 7}
    evidence = Evidence(
        asked={("p", str(n)): ("order", {"n": n}) for n in range(1, 5)},
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
        letters=[2],
        receipts=[
            receipt(FLAKY, 1, "500"),
            receipt(BROKEN, 1, "drop"),
            receipt(FLAKY, 2, "200"),
            receipt(FLAKY, 2, "200", NOW + 6),
            receipt(BROKEN, 2, "500"),
            receipt(BROKEN, 3, "500"),
            receipt(STEADY, 1, "201"),
        ],
        faults=[worker, {"say": "database killed", "at": NOW + 50}, {"say": "database back", "at": NOW + 55}],
        endings=[Ending("worker-1", "worker", 7, -9, "log", asked=True), Ending("p", "producer", 8, 0, "log", False)],
    )
    evidence.said.resets.add(Reset(3, 7, NOW + 3, NOW + 4))
    evidence.workflows = [Workflow("w", WORKFLOW, "run", DONE)]
    for id, step in enumerate(WORKFLOW_STEPS, 100):
        evidence.asked["w", step] = step, {}
        evidence.events[id] = Event(id, step, step, ("w", step), {}, correlation="run")
    evidence.events[200] = Event(200, "said", SAGA_COMPLETED, (HUB, f"w/{SAGA_COMPLETED}/"), {}, correlation="run")
    return evidence


def refuted(evidence: Evidence) -> set[str]:
    return {verdict.claim for verdict in judge(evidence) if verdict.found}


def lose_the_event(evidence: Evidence) -> None:
    del evidence.events[5]


def store_it_twice(evidence: Evidence) -> None:
    evidence.events[6] = replace(evidence.events[5], id=6)


def change_its_payload(evidence: Evidence) -> None:
    evidence.events[5] = replace(evidence.events[5], payload={"n": 9})


def store_what_was_rolled_back(evidence: Evidence) -> None:
    evidence.events[6] = Event(6, "other", "unwanted", ("p", "2"), {"n": 2})


def store_an_event_never_sent(evidence: Evidence) -> None:
    evidence.events[6] = Event(6, "other", "unwanted", ("q", "1"), {})


def store_what_was_to_be_rolled_back(evidence: Evidence) -> None:
    """Its producer is killed before it can say so."""
    hear(evidence, "rolled_back")
    evidence.events[6] = Event(6, "other", "unwanted", ("q", "1"), {})


def store_half_of_a_transaction(evidence: Evidence) -> None:
    evidence.events[6] = Event(6, "other", "order", ("p", "3"), {"n": 3})


def store_half_of_a_batch(evidence: Evidence) -> None:
    hear(evidence, "many")
    evidence.events[6] = Event(6, "other", "unwanted", ("q", "1"), {})


def store_twice_what_is_not_acknowledged(evidence: Evidence) -> None:
    evidence.acknowledged.clear()
    store_it_twice(evidence)


def change_what_is_not_acknowledged(evidence: Evidence) -> None:
    evidence.acknowledged.clear()
    change_its_payload(evidence)


def hear(evidence: Evidence, way: str) -> None:
    asked: list[dict[str, object]] = [{"id": id, "type": "unwanted", "payload": {}} for id in ("1", "2")]
    evidence_of_a_run._hear_producer(evidence, [{"say": "intent", "source": "q", "way": way, "events": asked}])


def pass_over_a_subscription(evidence: Evidence) -> None:
    del evidence.sagas[1], evidence.letters[0]
    evidence.jobs = [job for job in evidence.jobs if job.saga_id != 2]
    evidence.receipts = [receipt for receipt in evidence.receipts if receipt.path != BROKEN]


def route_twice(evidence: Evidence) -> None:
    evidence.sagas.append(replace(evidence.sagas[0], id=9))
    evidence.jobs += [replace(job, saga_id=9) for job in evidence.jobs if job.saga_id == 1]


def leave_it_in_the_inbox(evidence: Evidence) -> None:
    evidence.inbox.append(5)


def leave_a_saga_open(evidence: Evidence) -> None:
    evidence.sagas[1] = replace(evidence.sagas[1], status="InProgress")


def take_the_dead_letter_away(evidence: Evidence) -> None:
    evidence.letters.clear()


def write_two_dead_letters(evidence: Evidence) -> None:
    evidence.letters.append(2)


def dead_letter_a_completed_delivery(evidence: Evidence) -> None:
    evidence.letters.append(1)


def give_up_too_early(evidence: Evidence) -> None:
    evidence.sagas[1] = replace(evidence.sagas[1], attempt_count=2)
    del evidence.jobs[4], evidence.receipts[5]


def lower_the_limit(evidence: Evidence) -> None:
    """And keep to the lower one."""
    give_up_too_early(evidence)
    evidence.sagas[1] = replace(evidence.sagas[1], max_retry_limit=2)


def count_an_attempt_twice(evidence: Evidence) -> None:
    evidence.sagas[0] = replace(evidence.sagas[0], attempt_count=3)


def leave_a_result_unsettled(evidence: Evidence) -> None:
    evidence.jobs[0] = replace(evidence.jobs[0], settled=0)


def complete_without_success(evidence: Evidence) -> None:
    evidence.jobs[2] = replace(evidence.jobs[2], status="Failed", response_status=None)


def complete_without_sending(evidence: Evidence) -> None:
    del evidence.receipts[2:4]
    evidence.jobs[2] = replace(evidence.jobs[2], response_status=None)


def report_another_answer(evidence: Evidence) -> None:
    evidence.jobs[0] = replace(evidence.jobs[0], response_status=503)


def complete_with_an_error(evidence: Evidence) -> None:
    evidence.jobs[2] = replace(evidence.jobs[2], error_code="timeout")


def complete_without_a_status(evidence: Evidence) -> None:
    evidence.jobs[2] = replace(evidence.jobs[2], response_status=None)


def complete_what_only_dripped(evidence: Evidence) -> None:
    evidence.receipts[6] = replace(evidence.receipts[6], answer="drip")
    evidence.jobs[5] = replace(evidence.jobs[5], response_status=200)


def fail_with_a_success(evidence: Evidence) -> None:
    evidence.receipts[0] = replace(evidence.receipts[0], answer="200")
    evidence.jobs[0] = replace(evidence.jobs[0], response_status=200, error_code="http_500")


def fail_without_an_error(evidence: Evidence) -> None:
    evidence.jobs[0] = replace(evidence.jobs[0], response_status=None, error_code=None)


def fail_with_an_answer_that_was_not_given(evidence: Evidence) -> None:
    evidence.receipts[0] = replace(evidence.receipts[0], answer="200")


def fail_for_a_receiver_that_was_never_away(evidence: Evidence) -> None:
    evidence.jobs[1] = replace(evidence.jobs[1], error_code="connect_error")
    del evidence.receipts[1]


def lose_a_connection_that_was_answered(evidence: Evidence) -> None:
    evidence.receipts[1] = replace(evidence.receipts[1], answer="200")


def time_out_at_once(evidence: Evidence) -> None:
    evidence.jobs[1] = replace(evidence.jobs[1], error_code="timeout", duration=0.1)


def time_out_all_the_time(evidence: Evidence) -> None:
    """Each of them took its time, and there are too many."""
    evidence.jobs[1] = replace(evidence.jobs[1], error_code="timeout", duration=2.0)
    for id in range(10, 20):
        evidence.sagas.append(replace(evidence.sagas[1], id=id))
        evidence.jobs.append(replace(evidence.jobs[1], saga_id=id))


def give_up_leases_that_were_not_reset(evidence: Evidence) -> None:
    evidence.jobs[1] = replace(evidence.jobs[1], error_code="lease_expired", lease_resets=1)


def complete_nothing(evidence: Evidence) -> None:
    """A hub that times out wherever it is answered, and is consistent in it."""
    evidence.sagas[2] = Saga(3, 5, 4, 0, "DeadLettered", RETRY_LIMIT, RETRY_LIMIT)
    evidence.letters.append(3)
    slow = Job(6, 3, 1, "Failed", None, "timeout", 0, 1, duration=2.0)
    evidence.jobs[5:] = [replace(slow, attempt_no=number) for number in range(1, RETRY_LIMIT + 1)]
    evidence.receipts += [receipt(STEADY, number, "200") for number in range(2, RETRY_LIMIT + 1)]


def send_other_bytes_each_time(evidence: Evidence) -> None:
    """The same each time, signed, and not those of the event."""
    other = BODY.replace(b"order", b"Order")
    for number, each in enumerate(evidence.receipts):
        signed = wire.signature(each, other)
        evidence.receipts[number] = replace(each, body=hashlib.sha256(other).hexdigest(), signature=signed)


def sign_with_another_secret(evidence: Evidence) -> None:
    evidence.receipts[0] = replace(evidence.receipts[0], signature=evidence.receipts[1].signature)


def send_without_a_signature(evidence: Evidence) -> None:
    evidence.receipts[0] = replace(evidence.receipts[0], signature="", timestamp="")


def sign_for_another_day(evidence: Evidence) -> None:
    evidence.receipts[0] = replace(receipt(FLAKY, 1, "500", NOW - 86400), at=NOW)


def send_other_bytes(evidence: Evidence) -> None:
    evidence.receipts[3] = replace(evidence.receipts[3], body="other")


def send_what_is_not_stored(evidence: Evidence) -> None:
    evidence.receipts.append(replace(evidence.receipts[0], uid="phantom"))


def send_an_attempt_too_many(evidence: Evidence) -> None:
    evidence.receipts.append(receipt(FLAKY, 3, "200"))


def send_attempt_zero(evidence: Evidence) -> None:
    evidence.receipts.append(receipt(FLAKY, 0, "500"))


def send_again_at_once_what_was_dropped(evidence: Evidence) -> None:
    evidence.receipts.append(receipt(BROKEN, 1, "drop"))


def send_what_was_dropped_much_later(evidence: Evidence) -> None:
    evidence.receipts.append(receipt(BROKEN, 1, "drop", NOW + 30))


def send_once_more(evidence: Evidence) -> None:
    evidence.receipts.append(evidence.receipts[3])


def reset_the_lease_of_the_unharmed(evidence: Evidence) -> None:
    evidence.said.resets.add(Reset(3, 77, NOW + 3, NOW + 4))


def reset_the_lease_of_one_that_was_harmed_later(evidence: Evidence) -> None:
    evidence.said.resets.add(Reset(3, 7, NOW - 5, NOW - 4))


def reset_the_lease_of_one_that_was_harmed_long_ago(evidence: Evidence) -> None:
    evidence.faults[0]["say"] = "cut"
    evidence.said.resets = {Reset(3, 7, NOW + 12, NOW + 13)}


def reset_a_lease_that_has_not_run_out(evidence: Evidence) -> None:
    evidence.said.resets = {Reset(3, 7, NOW + 3, NOW + 2)}


def reset_more_than_can_be(evidence: Evidence) -> None:
    most = CONCURRENCY * (1 + LOOPS["worker"])  # besides the one that there is
    evidence.jobs[0] = replace(evidence.jobs[0], lease_resets=most)


def change_a_final_row(evidence: Evidence) -> None:
    evidence.changed += changes("saga", {1: "a"}, {1: "b"})


def track_nothing(evidence: Evidence) -> None:
    evidence.workflows.clear()
    del evidence.events[200]


def track_twice(evidence: Evidence) -> None:
    evidence.workflows.append(Workflow("v", WORKFLOW, "run", "IN_PROGRESS"))


def track_a_workflow_never_started(evidence: Evidence) -> None:
    evidence.workflows.append(Workflow("v", WORKFLOW, "walk", "IN_PROGRESS"))


def stop_tracking_half_way(evidence: Evidence) -> None:
    evidence.workflows[0] = replace(evidence.workflows[0], status="IN_PROGRESS")
    del evidence.events[200]


def complete_a_workflow_in_silence(evidence: Evidence) -> None:
    del evidence.events[200]


def tell_of_a_workflow_that_is_not_there(evidence: Evidence) -> None:
    evidence.events[201] = replace(evidence.events[200], id=201, key=(HUB, f"v/{SAGA_COMPLETED}/"))


def say_twice_that_it_is_completed(evidence: Evidence) -> None:
    evidence.events[201] = replace(evidence.events[200], id=201)


def begin_a_workflow_without_mail(evidence: Evidence, *, said_after: float) -> None:
    """Its only step is stored; so many seconds later the hub says that it took too long."""
    began = datetime(2026, 1, 1, tzinfo=UTC).replace(tzinfo=None)  # as the driver gives it
    evidence.workflows.append(Workflow("v", WORKFLOW, "walk", "COMPENSATING"))
    step = WORKFLOW_STEPS[0]
    evidence.asked["v", step] = step, {}
    evidence.events[300] = Event(300, step, step, ("v", step), {}, correlation="walk", created_at=began)
    at = began + timedelta(seconds=said_after)
    for id, word in enumerate((f"{SAGA_TIMED_OUT}/email", f"{SAGA_COMPENSATION_REQUESTED}/customer"), 301):
        evidence.events[id] = Event(id, word, word, (HUB, f"v/{word}"), {}, correlation="walk", created_at=at)


def time_out_before_its_time(evidence: Evidence) -> None:
    begin_a_workflow_without_mail(evidence, said_after=599)


def complete_without_the_last_step(evidence: Evidence) -> None:
    for id in (101, 102, 103):
        del evidence.events[id]


def never_say_that_it_took_too_long(evidence: Evidence) -> None:
    begin_a_workflow_without_mail(evidence, said_after=700)
    del evidence.events[301], evidence.events[302]
    evidence.workflows[-1] = replace(evidence.workflows[-1], status="IN_PROGRESS")
    later = evidence.events[300].created_at + timedelta(seconds=700)
    evidence.events[5] = replace(evidence.events[5], created_at=later)


def never_undo_a_timed_out_workflow(evidence: Evidence) -> None:
    begin_a_workflow_without_mail(evidence, said_after=600)
    del evidence.events[302]


def go_on_to_the_gift(evidence: Evidence, *, undone: bool) -> None:
    """The last step is stored, so that the one before it, which nobody has told of, must have been done too."""
    begin_a_workflow_without_mail(evidence, said_after=600)
    step, at = WORKFLOW_STEPS[-1], evidence.events[302].created_at
    evidence.asked["v", step] = step, {}
    evidence.events[310] = Event(310, step, step, ("v", step), {}, correlation="walk", created_at=at)
    if undone:
        word = f"{SAGA_COMPENSATION_REQUESTED}/loyalty"
        evidence.events[311] = Event(311, word, word, (HUB, f"v/{word}"), {}, correlation="walk", created_at=at)


def never_undo_an_implied_step(evidence: Evidence) -> None:
    go_on_to_the_gift(evidence, undone=False)


def reset_in_silence(evidence: Evidence) -> None:
    evidence.faults = [fault for fault in evidence.faults if "database" not in fault["say"]]
    evidence.jobs[0] = replace(evidence.jobs[0], lease_resets=3)


def time_out_although_the_step_is_there(evidence: Evidence) -> None:
    begin_a_workflow_without_mail(evidence, said_after=600)
    step = WORKFLOW_STEPS[1]
    evidence.asked["v", step] = step, {}
    evidence.events[310] = Event(310, step, step, ("v", step), {}, correlation="walk")


def fail_the_replay(evidence: Evidence) -> None:
    evidence.replay = "1 differences"


def fail_the_audit(evidence: Evidence) -> None:
    evidence.audit = "one-saga: 1 violation"


def show_a_traceback(evidence: Evidence) -> None:
    evidence.said.tracebacks += tracebacks(["ok", "Traceback (most recent call last):", "  …", "AttributeError: x"])


def fail_in_the_log(evidence: Evidence) -> None:
    evidence.said.tracebacks += tracebacks(['{"event": "process_failed", "exception": "AttributeError"}'])


def fail_in_the_receiver(evidence: Evidence) -> None:
    evidence.said.tracebacks += tracebacks(["Exception in thread 9:", "Traceback (most recent call last):"])


def end_unasked(evidence: Evidence) -> None:
    evidence.endings.append(Ending("router-1", "router", 9, 1, "log", asked=False))


def never_converge(evidence: Evidence) -> None:
    evidence.unfinished.append("not converged")


FAULTS: dict[Callable[[Evidence], None], str] = {
    lose_the_event: "Every acknowledged event",
    store_it_twice: "Every acknowledged event",
    change_its_payload: "Every acknowledged event",
    store_twice_what_is_not_acknowledged: "Every acknowledged event",
    change_what_is_not_acknowledged: "Every acknowledged event",
    store_what_was_rolled_back: "Nothing is stored",
    store_what_was_to_be_rolled_back: "Nothing is stored",
    store_half_of_a_transaction: "A transaction",
    store_half_of_a_batch: "A transaction",
    store_an_event_never_sent: "Nothing is stored",
    pass_over_a_subscription: "Every event has exactly one delivery",
    route_twice: "Every event has exactly one delivery",
    leave_it_in_the_inbox: "Every event has exactly one delivery",
    leave_a_saga_open: "Every delivery ended once",
    take_the_dead_letter_away: "Every delivery ended once",
    write_two_dead_letters: "Every delivery ended once",
    dead_letter_a_completed_delivery: "Every delivery ended once",
    give_up_too_early: "Every delivery ended once",
    lower_the_limit: "Every delivery ended once",
    never_converge: "Every delivery ended once",
    count_an_attempt_twice: "attempt_count",
    leave_a_result_unsettled: "attempt_count",
    complete_without_success: "attempt_count",
    complete_without_sending: "Every Completed delivery",
    report_another_answer: "Every Completed delivery",
    complete_with_an_error: "Every Completed delivery",
    complete_without_a_status: "Every Completed delivery",
    complete_what_only_dripped: "Every Completed delivery",
    fail_with_a_success: "Every failed attempt",
    fail_without_an_error: "Every failed attempt",
    fail_with_an_answer_that_was_not_given: "Every failed attempt",
    fail_for_a_receiver_that_was_never_away: "Every failed attempt",
    lose_a_connection_that_was_answered: "Every failed attempt",
    time_out_at_once: "Every failed attempt",
    time_out_all_the_time: "Every failed attempt",
    give_up_leases_that_were_not_reset: "Every failed attempt",
    complete_nothing: "Every delivery to /steady",
    send_other_bytes_each_time: "Every request",
    sign_with_another_secret: "Every request",
    send_without_a_signature: "Every request",
    sign_for_another_day: "Every request",
    send_other_bytes: "Every attempt of an event",
    send_what_is_not_stored: "Every attempt of an event",
    send_an_attempt_too_many: "Every attempt of an event",
    send_attempt_zero: "Every attempt of an event",
    send_again_at_once_what_was_dropped: "No attempt was received more often",
    send_what_was_dropped_much_later: "No attempt was received more often",
    send_once_more: "No attempt was received more often",
    reset_the_lease_of_the_unharmed: "No lease was reset",
    reset_the_lease_of_one_that_was_harmed_later: "No lease was reset",
    reset_the_lease_of_one_that_was_harmed_long_ago: "No lease was reset",
    reset_a_lease_that_has_not_run_out: "No lease was reset",
    reset_more_than_can_be: "No lease was reset",
    change_a_final_row: "No final row",
    track_nothing: "Every workflow",
    track_twice: "Every workflow",
    track_a_workflow_never_started: "Every workflow",
    stop_tracking_half_way: "Every workflow",
    complete_a_workflow_in_silence: "Every workflow",
    tell_of_a_workflow_that_is_not_there: "Every workflow",
    say_twice_that_it_is_completed: "Every workflow",
    complete_without_the_last_step: "Every workflow",
    never_say_that_it_took_too_long: "Every workflow",
    never_undo_a_timed_out_workflow: "Every workflow",
    never_undo_an_implied_step: "Every workflow",
    reset_in_silence: "No lease was reset",
    time_out_before_its_time: "Every workflow",
    time_out_although_the_step_is_there: "Every workflow",
    fail_the_replay: "The replay",
    fail_the_audit: "The integrity check",
    show_a_traceback: "No traceback",
    fail_in_the_log: "No traceback",
    fail_in_the_receiver: "No traceback",
    end_unasked: "No traceback",
}


def test_a_correct_run_passes():
    assert refuted(correct_run()) == set()


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_each_fault_is_found(fault: Callable[[Evidence], None]):
    evidence = correct_run()

    fault(evidence)

    assert any(claim.startswith(FAULTS[fault]) for claim in refuted(evidence)), refuted(evidence)


def test_every_claim_has_a_fault():
    claims = set(FAULTS.values())

    assert [claim.sentence for claim in CLAIMS if not any(claim.sentence.startswith(start) for start in claims)] == []


def test_a_workflow_may_time_out_when_its_step_never_came():
    evidence = correct_run()

    begin_a_workflow_without_mail(evidence, said_after=600)

    assert refuted(evidence) == set()


def test_implied_steps_are_undone_when_a_workflow_times_out():
    evidence = correct_run()

    go_on_to_the_gift(evidence, undone=True)

    assert refuted(evidence) == set()


def test_a_lease_that_ran_out_while_the_database_was_away_is_explained():
    evidence = correct_run()

    evidence.said.resets.add(Reset(3, 77, NOW + 52, NOW + 57))

    assert refuted(evidence) == set()


def test_a_worker_that_was_stopped_may_time_out_on_an_answer():
    evidence = correct_run()
    evidence.receipts[1] = replace(evidence.receipts[1], answer="200")
    evidence.jobs[1] = replace(evidence.jobs[1], error_code="timeout", pid=9, finished_at=NOW + 8, duration=1.0)
    assert refuted(evidence)

    evidence.faults += [{"say": says, "kind": "worker", "pid": 9, "at": NOW + at} for says, at in STOP]

    assert refuted(evidence) == set()


STOP = (("stopped", 0.5), ("woken", 7.5))
