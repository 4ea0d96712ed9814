"""--once does one batch and exits; wrong option values are refused with a message."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command

from events.intake import publish
from events.models import RoutingInbox
from events.routing import Router
from jobs.models import Job
from sagas.dispatch import dispatch
from sagas.models import Saga
from tests.factories import JobFactory, SubscriptionFactory
from tools.demo.endpoint import HttpsEndpoint
from webhookhub.db import clock

from .support import Processes

ONCE = ("--once", "--batch-size", "3")


def test_once_does_one_batch_and_exits(processes: Processes, endpoint: HttpsEndpoint):
    for number in range(5):
        SubscriptionFactory(event_type=f"order.{number}", callback_url=endpoint.url(f"/{number}"))
        publish(f"order.{number}", {"number": number})

    assert processes.start("run_router", *ONCE).wait() == 0
    assert (RoutingInbox.objects.count(), Saga.objects.count()) == (2, 3)
    Router().route(10)

    assert processes.start("run_orchestrator", *ONCE).wait() == 0
    assert Saga.objects.filter(status="InProgress").count() == Job.objects.count() == 3
    dispatch(10)

    assert processes.start("run_worker", *ONCE).wait() == 0
    assert len(endpoint.received) == Job.objects.filter(status="Completed").count() == 3
    assert Job.objects.filter(status="Pending").count() == 2

    assert processes.start("run_orchestrator", "--once", "--batch-size", "2").wait() == 0
    assert Saga.objects.filter(status="Completed").count() == 2


def test_once_the_cleaner_resets_one_batch_of_leases(processes: Processes):
    for _ in range(5):
        JobFactory(status="Leased", lease_until=clock.now() - timedelta(seconds=1), lease_token="gone")

    assert processes.start("run_cleaner", *ONCE).wait() == 0

    assert sorted(Job.objects.values_list("status", flat=True)) == ["Leased"] * 2 + ["Pending"] * 3


BAD = {
    ("--batch-size", "0"): "must be a whole number from 1 to 2000, not '0'",
    ("--batch-size", "2001"): "must be a whole number from 1 to 2000, not '2001'",
    ("--interval", "0"): "'0' is not a number of seconds above 0, up to 3600",
    ("--interval", "nan"): "'nan' is not a number of seconds above 0, up to 3600",
}


@pytest.mark.parametrize("options", BAD)
def test_an_option_out_of_bounds_is_refused(options: tuple[str, str]):
    with pytest.raises(CommandError, match=re.escape(BAD[options])):
        call_command("run_router", *options)
