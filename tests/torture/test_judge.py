"""The judge must find what it is there to find: each lie is planted in evidence that is otherwise without fault."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from .evidence import Event, Evidence, Job, Receipt, Saga
from .fleet import Ending
from .judge import CLAIMS, judge
from .logs import Reset, tracebacks
from .plan import CONCURRENCY, LOOPS
from .sampler import changes

NOW = 1000.0


def honest() -> Evidence:
    """One event, delivered at the second attempt to one subscriber and buried after one at another."""
    worker = {"say": "killed", "at": NOW, "kind": "worker", "slot": "worker-1", "pid": 7}
    evidence = Evidence(
        asked={("p", "1"): ("order", {"n": 1}), ("p", "2"): ("order", {"n": 2})},
        acknowledged={("p", "1")},
        rolled_back={("p", "2")},
        events={5: Event(5, "uid", "order", ("p", "1"), {"n": 1})},
        subscriptions={1: ("order", "/a"), 2: ("order", "/b"), 3: ("other", "/a")},
        sagas=[Saga(1, 5, 1, 0, "Completed", 2, 3), Saga(2, 5, 2, 0, "DeadLettered", 1, 1)],
        jobs=[
            Job(1, 1, 1, "Failed", 500, "http_500", 0, 1),
            Job(2, 2, 1, "Failed", None, "connection_lost", 0, 1),
            Job(3, 1, 2, "Completed", 200, None, 1, 1),
        ],
        letters=[2],
        receipts=[
            Receipt("uid", "/a", 1, "body", "500"),
            Receipt("uid", "/b", 1, "body", "drop"),
            Receipt("uid", "/a", 2, "body", "200"),
            Receipt("uid", "/a", 2, "body", "200"),
        ],
        faults=[worker, {"say": "database killed", "at": NOW + 50}, {"say": "database back", "at": NOW + 55}],
        endings=[Ending("worker-1", "worker", 7, -9, "log", asked=True), Ending("p", "producer", 8, 0, "log", False)],
    )
    evidence.said.resets.add(Reset(3, 7, NOW + 3))
    return evidence


def refuted(evidence: Evidence) -> set[str]:
    return {verdict.claim for verdict in judge(evidence) if verdict.found}


def lose_the_event(evidence: Evidence) -> None:
    evidence.events.clear()


def store_it_twice(evidence: Evidence) -> None:
    evidence.events[6] = replace(evidence.events[5], id=6)


def change_its_payload(evidence: Evidence) -> None:
    evidence.events[5] = replace(evidence.events[5], payload={"n": 9})


def store_what_was_rolled_back(evidence: Evidence) -> None:
    evidence.events[6] = Event(6, "other", "unwanted", ("p", "2"), {"n": 2})


def store_what_nobody_asked_for(evidence: Evidence) -> None:
    evidence.events[6] = Event(6, "other", "unwanted", ("q", "1"), {})


def pass_over_a_subscription(evidence: Evidence) -> None:
    del evidence.sagas[1], evidence.jobs[1], evidence.letters[0]
    evidence.receipts = [receipt for receipt in evidence.receipts if receipt.path == "/a"]


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


def bury_the_living(evidence: Evidence) -> None:
    evidence.letters.append(1)


def give_up_too_early(evidence: Evidence) -> None:
    evidence.sagas[1] = replace(evidence.sagas[1], max_retry_limit=2)


def count_an_attempt_twice(evidence: Evidence) -> None:
    evidence.sagas[0] = replace(evidence.sagas[0], attempt_count=3)


def leave_a_result_unsettled(evidence: Evidence) -> None:
    evidence.jobs[0] = replace(evidence.jobs[0], settled=0)


def complete_without_success(evidence: Evidence) -> None:
    evidence.jobs[2] = replace(evidence.jobs[2], status="Failed", response_status=None)


def complete_without_sending(evidence: Evidence) -> None:
    del evidence.receipts[2:]
    evidence.jobs[2] = replace(evidence.jobs[2], response_status=None)


def report_another_answer(evidence: Evidence) -> None:
    evidence.jobs[0] = replace(evidence.jobs[0], response_status=503)


def send_other_bytes(evidence: Evidence) -> None:
    evidence.receipts[3] = replace(evidence.receipts[3], body="other")


def send_what_is_not_stored(evidence: Evidence) -> None:
    evidence.receipts.append(Receipt("phantom", "/a", 1, "body", "500"))


def send_an_attempt_too_many(evidence: Evidence) -> None:
    evidence.receipts.append(Receipt("uid", "/a", 3, "body", "200"))


def send_once_more(evidence: Evidence) -> None:
    evidence.receipts.append(evidence.receipts[3])


def reset_the_lease_of_the_unharmed(evidence: Evidence) -> None:
    evidence.said.resets.add(Reset(3, 77, NOW + 3))


def reset_more_than_can_be(evidence: Evidence) -> None:
    most = CONCURRENCY * (1 + LOOPS["worker"])
    evidence.jobs[0] = replace(evidence.jobs[0], lease_resets=most)


def change_a_final_row(evidence: Evidence) -> None:
    evidence.changed += changes("saga", {1: "a"}, {1: "b"})


def fail_the_audit(evidence: Evidence) -> None:
    evidence.audit = "one-saga: 1 violation"


def show_a_traceback(evidence: Evidence) -> None:
    evidence.said.tracebacks += tracebacks(["ok", "Traceback (most recent call last):", "  …", "AttributeError: x"])


def fail_in_the_log(evidence: Evidence) -> None:
    evidence.said.tracebacks += tracebacks(['{"event": "process_failed", "exception": "AttributeError"}'])


def end_unasked(evidence: Evidence) -> None:
    evidence.endings.append(Ending("router-1", "router", 9, 1, "log", asked=False))


def never_converge(evidence: Evidence) -> None:
    evidence.unfinished.append("not converged")


LIES: dict[Callable[[Evidence], None], str] = {
    lose_the_event: "Every acknowledged event",
    store_it_twice: "Every acknowledged event",
    change_its_payload: "Every acknowledged event",
    store_what_was_rolled_back: "Nothing is stored",
    store_what_nobody_asked_for: "Nothing is stored",
    pass_over_a_subscription: "Every event has exactly one saga",
    route_twice: "Every event has exactly one saga",
    leave_it_in_the_inbox: "Every event has exactly one saga",
    leave_a_saga_open: "Every saga ended once",
    take_the_dead_letter_away: "Every saga ended once",
    write_two_dead_letters: "Every saga ended once",
    bury_the_living: "Every saga ended once",
    give_up_too_early: "Every saga ended once",
    never_converge: "Every saga ended once",
    count_an_attempt_twice: "attempt_count",
    leave_a_result_unsettled: "attempt_count",
    complete_without_success: "attempt_count",
    complete_without_sending: "Every Completed saga",
    report_another_answer: "Every Completed saga",
    send_other_bytes: "Every attempt of an event",
    send_what_is_not_stored: "Every attempt of an event",
    send_an_attempt_too_many: "Every attempt of an event",
    send_once_more: "No attempt was received more often",
    reset_the_lease_of_the_unharmed: "No lease was reset",
    reset_more_than_can_be: "No lease was reset",
    change_a_final_row: "No final row",
    fail_the_audit: "The audit",
    show_a_traceback: "No traceback",
    fail_in_the_log: "No traceback",
    end_unasked: "No traceback",
}


def test_the_honest_run_is_believed():
    assert refuted(honest()) == set()


@pytest.mark.parametrize("lie", LIES, ids=lambda lie: lie.__name__)
def test_the_lie_is_found(lie: Callable[[Evidence], None]):
    evidence = honest()

    lie(evidence)

    assert any(claim.startswith(LIES[lie]) for claim in refuted(evidence)), refuted(evidence)


def test_every_claim_has_a_lie():
    told = set(LIES.values())

    assert [claim.sentence for claim in CLAIMS if not any(claim.sentence.startswith(start) for start in told)] == []


def test_a_lease_that_ran_out_while_the_database_was_away_is_explained():
    evidence = honest()

    evidence.said.resets.add(Reset(3, 77, NOW + 52))

    assert refuted(evidence) == set()
