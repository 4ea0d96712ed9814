"""Loops killed with KILL repeatedly: nothing is lost and nothing is done twice."""

from __future__ import annotations

import random
from datetime import timedelta

import pytest
from django.db import transaction

from events.models import RoutingInbox
from jobs.models import Job
from sagas.models import Saga
from sagas.transitions import TERMINAL
from tests.factories import EventFactory, JobFactory, SagaFactory, SubscriptionFactory
from tools.demo.endpoint import HttpsEndpoint
from webhookhub.db import clock

from . import traffic
from .support import LOOPS, Processes, Running, until

# On a server, test_torture.py kills them.
pytestmark = [pytest.mark.every_engine, pytest.mark.sqlite_only]

KILLS = 2
EVENTS_PER_KILL = 40
SMALL = ("--batch-size", "4", "--interval", "0.02")
SLOW_LEASE = {"WEBHOOKHUB_LEASE": "60"}

LEFT_BEHIND = {
    "router": lambda: RoutingInbox.objects.count(),
    "orchestrator": lambda: Saga.objects.exclude(status__in=TERMINAL).count(),
    "worker": lambda: Job.objects.filter(status="Leased").count(),
}


def kill_at_a_random_moment(victim: Running, most_lines: int) -> None:
    """Kills it after some work, counted in log lines."""
    lines = random.randint(2, most_lines)
    until(lambda: victim.lines >= lines, f"{lines} lines in the log:\n{victim.errors}")
    victim.kill()


@pytest.mark.requirement("R2-2.2a")
@pytest.mark.requirement("R3-3.3a")
@pytest.mark.requirement("R4-6.1b")
@pytest.mark.parametrize("victim", ["router", "orchestrator", "worker"])
def test_a_repeatedly_killed_loop_neither_loses_nor_repeats(victim: str, processes: Processes, endpoint: HttpsEndpoint):
    # Only a dead worker's attempts need a short lease; otherwise no lease may expire.
    lease = {} if victim == "worker" else SLOW_LEASE
    traffic.subscribe(endpoint)
    loops = processes.start_loops(*SMALL, **lease)
    killed, left_behind = [], 0

    for _ in range(KILLS):
        traffic.publish(EVENTS_PER_KILL)
        kill_at_a_random_moment(loops[victim], 40)
        left_behind += LEFT_BEHIND[victim]()
        killed.append(loops[victim].pid)
        loops[victim] = processes.start(f"run_{victim}", *SMALL, **lease)
    until(traffic.all_ended, "every delivery ends")

    assert left_behind, "no kill came in the middle of the work"
    traffic.check_each_ended_once(endpoint)
    resets = loops["cleaner"].facts("job_lease_reset")
    assert len(resets) == sum(Job.objects.values_list("lease_resets", flat=True))
    if victim == "worker":
        assert {int(reset["worker_id"].split(":")[1]) for reset in resets} <= set(killed)
    else:
        assert resets == []
        assert len(endpoint.received) == Job.objects.count()


@pytest.mark.requirement("R4-1.2a")
def test_all_loops_killed_at_once_continue_after_a_restart(processes: Processes, endpoint: HttpsEndpoint):
    traffic.subscribe(endpoint)
    for _ in range(2):
        loops = processes.start_loops(*SMALL)
        traffic.publish(EVENTS_PER_KILL)
        kill_at_a_random_moment(loops["worker"], 30)
        for running in loops.values():
            running.kill()
        assert not traffic.all_ended()
    processes.start_loops(*SMALL)

    until(traffic.all_ended, "every delivery ends")
    traffic.check_each_ended_once(endpoint)


def test_a_repeatedly_killed_cleaner_resets_each_expired_lease_once(processes: Processes, endpoint: HttpsEndpoint):
    subscription = SubscriptionFactory(callback_url=endpoint.url())
    expired = clock.now() - timedelta(seconds=1)
    with transaction.atomic():
        for _ in range(200):
            saga = SagaFactory(event=EventFactory(), subscription=subscription, status="InProgress")
            JobFactory(saga=saga, status="Leased", lease_until=expired, lease_token="gone", worker_id="gone")

    interrupted = 0
    while Job.objects.filter(status="Leased").exists():
        cleaner = processes.start("run_cleaner", *SMALL)
        if interrupted < KILLS:
            kill_at_a_random_moment(cleaner, 30)
            interrupted += Job.objects.filter(status="Leased").exists()
        else:
            until(lambda: not Job.objects.filter(status="Leased").exists(), "every lease is reset")

    assert interrupted
    assert set(Job.objects.values_list("status", "lease_resets")) == {("Pending", 1)}
    for kind in set(LOOPS) - {"cleaner"}:
        processes.start(f"run_{kind}", **SLOW_LEASE)
    until(lambda: Saga.objects.filter(status="Completed", attempt_count=1).count() == 200, "every delivery ends")
    assert len(endpoint.received) == len({request.event_uid for request in endpoint.received}) == 200
