"""The logs of the loops: JSON lines with the specified fields, and plain text on a terminal."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys

import pytest
from django.conf import settings

from events.intake import publish
from jobs.models import Job
from sagas.models import Saga
from tests.factories import JobFactory, SubscriptionFactory
from tools.demo.endpoint import HttpsEndpoint
from webhookhub.db import clock

from . import traffic
from .support import Processes, until

STAGE = {"correlation_id", "delivery_status"}
JOB = STAGE | {"saga_id", "job_id", "error_code", "lease_expiration", "worker_id"}
FIELDS = {
    "event_routed": STAGE | {"saga_id", "event_uid"},
    "event_unmatched": STAGE | {"event_uid"},
    "saga_dispatched": STAGE | {"saga_id", "job_id"},
    "job_leased": JOB,
    "job_reported": JOB,
    "job_lease_reset": JOB,
    "saga_completed": JOB,
    "saga_retry_scheduled": JOB | {"next_attempt_at"},
    "saga_dead_lettered": JOB,
    "process_started": {"process"},
    "process_stopped": {"process"},
}


@pytest.mark.requirement("R2-5.3a", "R2-5.3b", "R2-5.3c", "R2-5.3d", "R2-5.3e")
@pytest.mark.requirement("R4-9.1b", "R4-9.1c", "R4-9.1d")
def test_every_line_is_json_with_the_specified_fields(processes: Processes, endpoint: HttpsEndpoint):
    traffic.subscribe(endpoint)
    traffic.publish(30)
    publish("order.unwanted", {})
    JobFactory(
        saga__event__event_type="order.late",
        saga__subscription=SubscriptionFactory(callback_url=endpoint.url("/late"), event_type="order.late"),
        status="Leased",
        lease_until=clock.now(),
        lease_token="gone",
    )
    loops = processes.start_loops()

    until(lambda: Saga.objects.filter(status__in=["Completed", "DeadLettered"]).count() == 58, "every delivery ends")
    until(lambda: not Job.objects.filter(settled_at__isnull=True).exists(), "every result is settled")
    assert [running.stop() for running in loops.values()] == [0] * 4

    lines = [json.loads(line) for running in loops.values() for line in running.errors.splitlines()]
    assert {line["event"] for line in lines} - {"database_conflict"} == set(FIELDS)
    for line in lines:
        assert FIELDS.get(line["event"], set()) | {"level", "timestamp"} <= set(line)
        assert line.get("saga_id") or "saga_id" not in line
        assert line.get("correlation_id") or "correlation_id" not in line
    [reset] = loops["cleaner"].facts("job_lease_reset")
    assert reset["job_id"] == Job.objects.get(lease_resets=1).id
    assert [running.output for running in loops.values()] == [""] * 4


def test_on_a_terminal_the_log_is_text(processes: Processes):
    terminal, end = pty.openpty()
    try:
        command = [sys.executable, str(settings.BASE_DIR / "manage.py"), "run_router", "--once"]
        subprocess.run(command, env=processes.environment, stdin=end, stdout=end, stderr=end, check=True, timeout=90)
        text = os.read(terminal, 65536).decode()
    finally:
        os.close(end)
        os.close(terminal)

    first, last = text.splitlines()
    assert "process_started" in first
    assert "process_stopped" in last
    for line in (first, last):
        assert "router@" in line
        assert not line.startswith("{")


def test_a_higher_level_omits_less_severe_lines(processes: Processes):
    router = processes.start("run_router", "--once", WEBHOOKHUB_LOG_LEVEL="WARNING")

    assert router.wait() == 0
    assert router.errors == ""
