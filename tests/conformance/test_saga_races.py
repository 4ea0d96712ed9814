"""However many orchestrators run, a saga gets each attempt once and applies each result once."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest

from deadletters.models import DeadLetter
from jobs.models import Job
from sagas.dispatch import dispatch
from sagas.models import Saga
from sagas.parking import park
from subscriptions.models import Subscription
from tests.support import guards

from . import world
from .rivals import Rival, after, together
from .world import BATCH

pytestmark = pytest.mark.every_engine

INSERT_JOBS = "INSERT INTO webhook_delivery_jobs"
UPDATE_SAGAS = "UPDATE webhook_delivery_sagas"
INSERT_LETTERS = "INSERT INTO dead_letters"


@pytest.fixture(autouse=True)
def _patient(committed, hub_settings):
    """Nothing is due again until a test says so."""
    hub_settings(base_delay=timedelta(hours=1), postpone=timedelta(hours=1))


def routed(*names: str, events: int = 1, max_retry_limit: int = 2) -> None:
    world.subscribe(*names, max_retry_limit=max_retry_limit)
    world.publish_some(*(f"e{n}" for n in range(events)))
    world.route()


def sagas() -> Counter[tuple[str, int]]:
    return Counter(Saga.objects.values_list("status", "attempt_count"))


def jobs() -> Counter[tuple[int, str]]:
    return Counter(Job.objects.values_list("attempt_no", "status"))


@pytest.mark.requirement("R1-7.1a")
def test_two_orchestrators_dispatching_one_saga_create_one_job():
    routed("ok")
    with Rival(lambda: dispatch(BATCH), before=INSERT_JOBS) as slow:
        slow.reached()  # both have read the saga as due
        dispatch(BATCH)
        slow.result()

    assert (sagas(), jobs()) == ({("InProgress", 0): 1}, {(1, "Pending"): 1})


@pytest.mark.requirement("R1-7.2a")
@pytest.mark.requirement("R2-2.1k")
@pytest.mark.requirement("R4-1.2b")
def test_concurrent_orchestrators_create_one_job_per_saga():
    routed("ok", "retry", "dead", events=40)

    together(*[lambda: dispatch(BATCH)] * 4)

    assert (sagas(), jobs()) == ({("InProgress", 0): 120}, {(1, "Pending"): 120})


@pytest.mark.requirement("R1-3h")
@pytest.mark.requirement("R4-2.2a")
@pytest.mark.parametrize("stop", [INSERT_JOBS, UPDATE_SAGAS])
def test_an_orchestrator_that_resumes_attempts_later_changes_nothing(stop):
    routed("retry")
    with Rival(lambda: dispatch(BATCH), before=stop) as slow:
        slow.reached()
        dispatch(BATCH)
        world.deliver()
        world.settle()
        world.let_time_pass()
        dispatch(BATCH)
        before = sagas(), jobs()
        assert before == ({("InProgress", 1): 1}, {(1, "Failed"): 1, (2, "Pending"): 1})
        slow.result()

    assert (sagas(), jobs()) == before


@pytest.mark.parametrize("attempts", [0, 1])
def test_an_orchestrator_that_resumes_before_the_next_retry_does_not_start_it_without_a_job(attempts):
    routed("retry", max_retry_limit=5)
    for _ in range(attempts):
        one_attempt()
    world.let_time_pass()
    with Rival(lambda: dispatch(BATCH), before=UPDATE_SAGAS) as slow:
        slow.reached()
        one_attempt()
        slow.result()

    # Were it in progress now, it would be so for ever: no job would ever report.
    assert sagas() == {("PendingRetry", attempts + 1): 1}
    world.run_to_end()
    assert sagas() == {("DeadLettered", 5): 1}


def one_attempt() -> None:
    world.let_time_pass()
    dispatch(BATCH)
    world.deliver()
    world.settle()


@pytest.mark.requirement("R1-5.4a", "R1-7.3a")
@pytest.mark.parametrize(("name", "end"), [("ok", "Completed"), ("dead", "DeadLettered")])
def test_an_orchestrator_that_resumes_after_the_end_changes_nothing(name, end):
    routed(name)
    with Rival(lambda: dispatch(BATCH), before=INSERT_JOBS) as slow:
        slow.reached()
        world.run_to_end()
        slow.result()

    assert sagas() == {(end, 1): 1}
    assert Job.objects.count() == 1


def test_a_saga_follows_a_job_created_before_its_subscription_was_disabled():
    routed("ok")
    with Rival(lambda: dispatch(BATCH), before=UPDATE_SAGAS) as slow:
        slow.reached()
        Subscription.objects.update(active=False)
        dispatch(BATCH)
        assert sagas() == {("InProgress", 0): 1}
        slow.result()

    assert jobs() == {(1, "Pending"): 1}


def test_a_saga_parked_under_an_orchestrator_gets_no_job_until_it_is_admitted():
    routed("ok")
    with Rival(lambda: dispatch(BATCH), before=INSERT_JOBS) as slow:
        slow.reached()
        Subscription.objects.update(active=False)
        dispatch(BATCH)
        assert (sagas(), jobs()) == ({("Pending", 0): 1}, {})
        slow.result()
        assert (sagas(), jobs()) == ({("Pending", 0): 1}, {})

    world.run_to_end()
    assert (sagas(), jobs()) == ({("Completed", 1): 1}, {(1, "Completed"): 1})


@pytest.mark.parametrize("end", ["InProgress", "Completed"])
def test_a_late_parking_does_not_change_a_saga_that_has_advanced(end):
    routed("ok")
    Subscription.objects.update(active=False)
    with Rival(lambda: dispatch(BATCH), before=UPDATE_SAGAS) as slow:
        slow.reached()  # it has found the subscription off, and no job
        Subscription.objects.update(active=True)
        if end == "Completed":
            world.run_to_end()
        else:
            dispatch(BATCH)
        gone_on = Saga.objects.values().get()
        assert gone_on["status"] == end
        slow.result()

    assert Saga.objects.values().get() == gone_on


def finished(*names: str, events: int = 1, max_retry_limit: int = 2) -> None:
    routed(*names, events=events, max_retry_limit=max_retry_limit)
    dispatch(BATCH)
    world.deliver()


@pytest.mark.requirement("R1-2.3b", "R1-6.4b")
def test_a_settled_result_applied_again_changes_nothing():
    finished("ok", "retry", "dead")
    assert world.settle() == 3
    settled = list(Job.objects.order_by("id").values())
    ended = list(Saga.objects.order_by("id").values())

    assert world.settle() == 0

    assert list(Job.objects.order_by("id").values()) == settled
    assert list(Saga.objects.order_by("id").values()) == ended
    assert DeadLetter.objects.count() == 1


@pytest.mark.requirement("R1-2.3b", "R1-10.2a")
@pytest.mark.requirement("R2-3.1i")
def test_a_result_whose_settling_was_not_marked_is_applied_once_and_marked():
    finished("ok", "retry", "dead")
    with Rival(world.settle, after="UPDATE webhook_delivery_sagas") as slow:
        slow.reached()  # the sagas have applied the results, or some of them; no job is marked
        world.settle()
        slow.result()

    assert sagas() == {("Completed", 1): 1, ("PendingRetry", 1): 1, ("DeadLettered", 1): 1}
    assert DeadLetter.objects.count() == 1
    assert not Job.objects.filter(settled_at__isnull=True).exists()


@pytest.mark.requirement("R1-2.3b", "R1-4.1a", "R1-6.4a")
@pytest.mark.requirement("R4-3.2c")
def test_concurrent_settlers_apply_each_result_once():
    finished("ok", "retry", "dead", events=40)

    together(*[world.settle] * 4)

    assert sagas() == {("Completed", 1): 40, ("PendingRetry", 1): 40, ("DeadLettered", 1): 40}
    assert DeadLetter.objects.count() == 40
    assert not Job.objects.filter(settled_at__isnull=True).exists()


@pytest.mark.requirement("R1-3h")
def test_a_settler_that_resumes_during_the_next_attempt_does_not_end_it():
    finished("retry", max_retry_limit=5)  # far from the limit, of which the table itself would remind it
    with Rival(world.settle, before="UPDATE") as slow:
        slow.reached()
        world.settle()
        world.let_time_pass()
        dispatch(BATCH)
        slow.result()

    assert (sagas(), jobs()) == ({("InProgress", 1): 1}, {(1, "Failed"): 1, (2, "Pending"): 1})


@pytest.mark.requirement("R1-5.5a")
@pytest.mark.parametrize("name", ["ok", "dead"])
def test_a_settler_that_resumes_after_the_end_changes_nothing(name):
    finished(name)
    with Rival(world.settle, before="UPDATE") as slow:
        slow.reached()
        world.settle()
        ended = Saga.objects.values().get()
        slow.result()

    assert Saga.objects.values().get() == ended
    assert DeadLetter.objects.count() == (name == "dead")


@pytest.mark.requirement("R1-5.5a")
def test_a_settler_that_comes_late_with_its_dead_letters_inserts_none_twice():
    finished("dead", events=3)
    with Rival(world.settle, before=INSERT_LETTERS) as slow:
        slow.reached()  # both have decided to dead-letter
        world.settle()
        ended = list(Saga.objects.order_by("id").values())
        slow.result()

    assert list(Saga.objects.order_by("id").values()) == ended
    assert sagas() == {("DeadLettered", 1): 3}
    assert DeadLetter.objects.count() == 3


@pytest.mark.requirement("R1-5.5a")
@pytest.mark.parametrize("stop", ["before", "after"])
def test_two_settlers_with_the_same_dead_letters_both_end(stop):
    finished("dead", events=3)
    with Rival(world.settle, **{stop: INSERT_LETTERS}) as slow:
        together(after(slow, world.settle), slow.result)

    assert sagas() == {("DeadLettered", 1): 3}
    assert DeadLetter.objects.count() == 3
    assert not Job.objects.filter(settled_at__isnull=True).exists()


def test_a_saga_that_has_moved_on_gets_no_dead_letter_and_the_rest_of_the_batch_does():
    finished("dead", events=3)
    moved = Saga.objects.order_by("id")[1]
    with guards.switched_off(), Rival(world.settle, before=INSERT_LETTERS) as slow:
        slow.reached()
        # By hand: the database refuses it, and no orchestrator decides otherwise.
        Saga.objects.filter(id=moved.id).update(status="Completed", attempt_count=1)
        slow.result()

    assert sagas() == {("DeadLettered", 1): 2, ("Completed", 1): 1}
    assert DeadLetter.objects.count() == 2
    assert not DeadLetter.objects.filter(saga_id=moved.id).exists()


@pytest.mark.requirement("R4-2.2a", "R4-2.2b")
@pytest.mark.parametrize("parked", [False, True])
def test_a_saga_follows_a_result_that_precedes_it(parked: bool):
    routed("ok")
    with Rival(lambda: dispatch(BATCH), before=UPDATE_SAGAS) as slow:
        slow.reached()
        world.deliver()
        if parked:  # by an orchestrator that has looked for the job before it was inserted
            assert park(list(Saga.objects.values_list("id", flat=True)), "Pending") == 1
            Subscription.objects.update(active=False)
        assert (sagas(), jobs()) == ({("Pending", 0): 1}, {(1, "Completed"): 1})
        assert world.settle() == 1
        assert sagas() == {("Completed", 1): 1}
        slow.result()

    assert sagas() == {("Completed", 1): 1}
    assert world.settle() == 0
