"""SIGKILL before and after every statement of every loop: nothing is lost or duplicated."""

from __future__ import annotations

import json

from tests.processes import traffic
from tests.processes.support import LOOPS, Processes, until
from tools.demo.endpoint import HttpsEndpoint

MIN_KILLS = 5  # each step has at least so many statements


def test_nothing_is_lost_when_a_step_is_killed_at_any_statement(processes: Processes, endpoint: HttpsEndpoint):
    traffic.subscribe(endpoint)

    killed_steps = processes.execute(
        ["-m", "tests.nightly.torture.killed_steps", *LOOPS],
        DJANGO_SETTINGS_MODULE="webhookhub.settings",
        WEBHOOKHUB_MAX_LEASE_RESETS="1000",
        WEBHOOKHUB_LOG_LEVEL="WARNING",  # at INFO there are further statements for the log
    )
    assert killed_steps.wait(240) == 0
    kills = json.loads(killed_steps.output)
    assert all(kills[kind] >= MIN_KILLS for kind in LOOPS), kills

    processes.start_loops(WEBHOOKHUB_MAX_LEASE_RESETS="1000")
    until(traffic.all_ended, "every delivery ends")
    traffic.check_each_ended_once(endpoint)
