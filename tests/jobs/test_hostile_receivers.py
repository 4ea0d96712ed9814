"""What a misbehaving endpoint costs, seen from the queue: one failed attempt, all at the same time."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import pytest

from jobs.models import Job
from jobs.worker import Worker
from tests.factories import JobFactory
from tests.support.hostile import CASES, Misbehaviour
from tools.support.raw_endpoint import RawEndpoint
from webhookhub.egress.messages import SNIPPET_LENGTH

pytestmark = pytest.mark.django_db

DEADLINE = 2.0
CHOSEN = [
    case
    for case in CASES
    if case.name
    in {
        "10 GB announced",
        "100 MB in one header",
        "1xx without end",
        "a body of a byte every 5 s",
        "no headers ever",
        "a reset in the body",
        "a garbage status line",
        "a redirect to a metadata service",
        "a gzip bomb",
        "a body after 204",
    }
]


def test_each_costs_one_failed_attempt_and_none_delays_another(
    certificate_files: tuple[Path, Path], hub_settings: Callable[..., None]
):
    authority, server = certificate_files
    hub_settings(ca_bundle=str(authority), request_timeout=timedelta(seconds=DEADLINE))
    with ExitStack() as stack:
        jobs = {}
        for case in CHOSEN:
            behaviour = Misbehaviour(case.act)
            endpoint = stack.enter_context(RawEndpoint(server, behaviour))
            stack.callback(behaviour.closing.set)
            jobs[case.name] = JobFactory.create(saga__subscription__callback_url=endpoint.url).pk
        worker = Worker("w", concurrency=100)
        stack.callback(worker.close)

        began = time.monotonic()
        while Job.objects.filter(status__in=["Pending", "Leased"]).exists():
            worker.turn(100)
            assert time.monotonic() - began < DEADLINE + 60

    assert len(CHOSEN) == Job.objects.count() == 10
    for case in CHOSEN:
        job = Job.objects.get(pk=jobs[case.name])
        assert job.error_code in (case.code.split("|") if case.code else [None]), case.name
        assert job.status == ("Failed" if case.code else "Completed"), case.name
        assert job.duration_ms is not None
        assert job.duration_ms < (DEADLINE + 10) * 1000
        assert len(job.response_snippet) <= SNIPPET_LENGTH
        assert job.finished_at is not None
