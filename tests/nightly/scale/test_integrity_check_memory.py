"""The memory of the audit does not depend on the number of deliveries."""

from __future__ import annotations

import re
from pathlib import Path

from django.db import connection

from jobs.models import Job
from sagas.models import Saga
from tests.conformance import world
from tests.factories import SubscriptionFactory
from tests.processes.support import Processes, until
from tests.support import guards
from webhookhub.db import vendors

MEGABYTE = 1024  # the kernel counts kilobytes


def test_memory_does_not_grow_with_the_number_of_deliveries(processes: Processes):
    """tools/bench/audit.py measures it with a million deliveries."""
    small = peak_memory(processes)
    make_sagas(20_000)
    large = peak_memory(processes, "--batch-size", "20000")

    assert large < small + 20 * MEGABYTE
    assert large < 200 * MEGABYTE


def peak_memory(processes: Processes, *arguments: str) -> int:
    """In kilobytes, from /proc: the value of wait4() includes the memory of the parent from before exec."""
    running = processes.start("audit", *arguments)
    status = Path(f"/proc/{running.pid}/status")
    peaks = [0]

    def has_ended() -> bool:
        if match := re.search(r"VmHWM:\s+(\d+)", status.read_text()):
            peaks.append(int(match[1]))
        return not running.is_alive

    until(has_ended, "the audit ends")
    assert running.wait() == 0, running.output
    return max(peaks)


def make_sagas(count: int) -> None:
    """Copies of one event and its delivery, made by the database."""
    SubscriptionFactory(callback_url=world.url("ok"))
    world.publish_some("a")
    world.route()
    world.run_to_end()
    event = "uid, event_type, source, correlation_id, payload, created_at"
    saga = (
        "subscription_id, generation, status, attempt_count, next_attempt_at, max_retry_limit, base_delay, "
        "created_at, updated_at"
    )
    job = (
        "attempt_no, status, attempt_at, response_status, worker_id, lease_token, lease_resets, response_snippet, "
        "finished_at, settled_at"
    )
    with guards.switched_off(), connection.cursor() as cursor:
        made = 1
        while made < count:
            uid = vendors.new_uid_sql(connection)
            cursor.execute(
                f"INSERT INTO events ({event}) SELECT {event.replace('uid', uid, 1)} FROM events LIMIT {count - made}"
            )
            made = min(2 * made, count)
        cursor.execute("DELETE FROM routing_inbox")
        cursor.execute(
            f"INSERT INTO webhook_delivery_sagas (event_id, {saga}) SELECT e.id, {saga} "
            "FROM (SELECT id FROM events) e CROSS JOIN (SELECT * FROM webhook_delivery_sagas) s "
            "WHERE e.id <> s.event_id"
        )
        cursor.execute(
            f"INSERT INTO webhook_delivery_jobs (saga_id, {job}) SELECT s.id, {job} "
            "FROM (SELECT id FROM webhook_delivery_sagas) s CROSS JOIN (SELECT * FROM webhook_delivery_jobs) j "
            "WHERE s.id <> j.saga_id"
        )
    assert Saga.objects.count() == Job.objects.count() == count
