"""kill -9 before and after every statement of every loop: nothing is lost and nothing is done twice."""

from __future__ import annotations

import json

from tests.processes import traffic
from tests.processes.support import LOOPS, Processes, until
from tools.demo.receiver import Receiver

FEWEST_POINTS = 5  # of any loop's turn: reading what is there, writing what becomes of it


def test_no_statement_is_the_wrong_one_to_be_killed_at(processes: Processes, receiver: Receiver):
    traffic.subscribe(receiver)

    mortal = processes.execute(
        ["-m", "tests.nightly.torture.mortal", *LOOPS],
        DJANGO_SETTINGS_MODULE="webhookhub.settings",
        WEBHOOKHUB_MAX_LEASE_RESETS="1000",
        WEBHOOKHUB_LOG_LEVEL="WARNING",  # the statements that only the log needs are left out
    )
    assert mortal.wait(240) == 0
    deaths = json.loads(mortal.output)
    assert all(deaths[kind] >= FEWEST_POINTS for kind in LOOPS), deaths

    processes.start_loops(WEBHOOKHUB_MAX_LEASE_RESETS="1000")
    until(traffic.all_ended, "every delivery ends")
    traffic.check_each_ended_once(receiver)
