"""Any sequence of the hub's steps, with crashes, late commits and workers that wake up late, agrees with a small model.

Always the same examples, so that a red run can be repeated. MACHINE_SEED asks for others (`random`, or a number),
MACHINE_EXAMPLES and MACHINE_STEPS for more and longer ones:

    MACHINE_SEED=random MACHINE_EXAMPLES=20000 python -m pytest tests/conformance/machine
"""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Iterator

import pytest
from django.db import connection
from django.db.backends.signals import connection_created
from hypothesis import HealthCheck, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from sagas import policy
from tests.conformance.world import TYPE, url
from tests.factories import SubscriptionFactory
from webhookhub.db import retry

from . import model
from .machine import EXPECTED, LIMITS, HubMachine
from .product import Clock, Producer

pytestmark = pytest.mark.every_engine

# A server takes four times as long for an example. `make test-all` plays more of them.
EXAMPLES = int(os.environ.get("MACHINE_EXAMPLES") or ("25" if os.environ.get("TEST_DATABASE_URL") else "40"))
STEPS = int(os.environ.get("MACHINE_STEPS", "50"))
SEED = os.environ.get("MACHINE_SEED", "1")


@pytest.fixture
def machine(committed, hub_settings, monkeypatch) -> Iterator[type[HubMachine]]:
    hub_settings(
        base_delay=model.BASE_DELAY,
        max_delay=model.MAX_DELAY,
        retry_after_cap=model.RETRY_AFTER_CAP,
        postpone=model.POSTPONE,
        lease=model.LEASE,
    )
    monkeypatch.setattr(policy, "SPREAD", 0)  # tested in tests/sagas/test_policy.py
    # One step at a time: a conflict is not to be waited out, it is a finding. And no machine loses its power here.
    monkeypatch.setattr(retry, "ATTEMPTS", 1)
    options = connection.settings_dict["OPTIONS"]
    init = options["init_command"].replace("synchronous=FULL", "synchronous=OFF")
    monkeypatch.setitem(options, "init_command", init.replace("lock_wait_timeout = 10", "lock_wait_timeout = 1"))
    connection.close()
    monkeypatch.setattr(logging.getLogger("webhookhub"), "level", logging.ERROR)
    HubMachine.clock, HubMachine.reached = Clock(), set()
    HubMachine.subscription_ids = [
        SubscriptionFactory.create(event_type=TYPE, callback_url=url(f"{limit}"), max_retry_limit=limit).id
        for limit in LIMITS
    ]
    connection_created.connect(HubMachine.clock.set)
    HubMachine.clock.set(connection)
    HubMachine.producers = [Producer(), Producer()]
    yield HubMachine
    for producer in HubMachine.producers:
        producer.close()
    connection_created.disconnect(HubMachine.clock.set)
    connection.close()


@pytest.mark.requirement("R1-1a", "R1-4.1a", "R1-5.1a", "R1-5.2a", "R1-5.3a", "R1-6.2a", "R1-7.2c", "R1-8.1c")
@pytest.mark.requirement("R1-8.1e", "R1-8.1g")
@pytest.mark.requirement("R2-2.4e", "R2-3.1e")
@pytest.mark.requirement("R3-3.4c", "R3-3.4f", "R3-6g")
@pytest.mark.requirement("R4-2.2b", "R4-4.3a")
@pytest.mark.timeout(3600)
def test_after_any_sequence_of_steps_the_tables_equal_the_model(machine):
    number = random.randrange(2**32) if SEED == "random" else int(SEED)
    print(f"MACHINE_SEED={number} MACHINE_EXAMPLES={EXAMPLES} MACHINE_STEPS={STEPS}")  # noqa: T201  # shown when it fails

    run_state_machine_as_test(
        seed(number)(machine),
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
        ),
    )
    if EXAMPLES * STEPS >= 25_000:
        assert machine.reached >= EXPECTED
