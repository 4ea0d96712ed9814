"""The output and the exit codes of manage.py audit."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection

from jobs.models import Job
from sagas.models import Saga
from tests.factories import JobFactory
from tests.processes.support import Processes, database_url
from webhookhub.db import clock, vendors
from webhookhub.integrity.checks import ALL
from webhookhub.models import Process

from .population import populate


def audited(*arguments: str) -> tuple[int, str]:
    """The exit code and the output, within the test's own process."""
    out = StringIO()
    try:
        call_command("audit", *arguments, stdout=out)
    except SystemExit as error:
        return int(str(error.code)), out.getvalue()
    return 0, out.getvalue()


def leased_by_nobody(count: int) -> list[Job]:
    return [JobFactory.create(status="Leased", lease_until=clock.now()) for _ in range(count)]


@pytest.mark.django_db
def test_valid_data_prints_a_table_and_exits_0():
    populate()
    code, output = audited()

    assert code == 0
    header, *lines = output.splitlines()
    assert header.split() == ["check", "rows", "found", "seconds"]
    assert [line.split()[0] for line in lines[: len(ALL)]] == [check.name for check in ALL]
    assert lines[-1].startswith(f"0 violations, 0 warnings, {len(ALL)} checks, ")
    rows = {line.split()[0]: line.split()[1] for line in lines[: len(ALL)]}
    assert int(rows["one-saga"]) == Saga.objects.count()
    assert int(rows["one-job"]) == Job.objects.count()


def test_a_violation_is_named_and_exits_1(processes: Processes):
    jobs = leased_by_nobody(3)

    found = processes.start("audit", "--limit", "2", "--only", "leased-jobs", "--only", "in-progress")

    assert found.wait() == 1
    assert found.errors == ""
    lines = found.output.splitlines()
    assert [line.split()[0] for line in lines[1:3]] == ["in-progress", "leased-jobs"]
    assert lines[2].endswith("VIOLATED")
    assert lines[4:] == [
        "leased-jobs: A Leased job has a token, a worker and an expiry.",
        *(
            f"  webhook_delivery_jobs {job.id}: Leased for saga {job.saga_id}, without a token, a worker or an expiry"
            for job in jobs[:2]
        ),
        "  and 1 more",
        "",
        lines[-1],
    ]
    assert lines[-1].startswith("3 violations, 0 warnings, 2 checks, ")


@pytest.mark.django_db
def test_a_warning_does_not_fail():
    Process.objects.create(
        name="gone", kind="worker", host="h", pid=1, heartbeat_at=clock.now() - timedelta(seconds=301)
    )
    code, output = audited()

    assert code == 0
    assert "hub_processes gone: silent since " in output
    assert "0 violations, 1 warnings" in output


@pytest.mark.django_db
def test_json_output_is_one_document():
    [job] = leased_by_nobody(1)
    code, output = audited("--json")

    assert code == 1
    document: dict[str, Any] = json.loads(output)
    assert set(document) == {"healthy", "violations", "warnings", "seconds", "checks"}
    assert (document["healthy"], document["violations"], document["warnings"]) == (False, 1, 0)
    assert [check["name"] for check in document["checks"]] == [check.name for check in ALL]
    for check in document["checks"]:
        assert set(check) == {"name", "invariant", "level", "rows", "found", "seconds", "first"}
        assert check["level"] in ("violation", "warning")
    [faulty] = [check for check in document["checks"] if check["found"]]
    assert faulty["name"] == "leased-jobs"
    assert faulty["first"] == [
        {
            "table": "webhook_delivery_jobs",
            "key": job.id,
            "what": f"Leased for saga {job.saga_id}, without a token, a worker or an expiry",
        }
    ]


def test_the_checks_are_listed_with_their_invariants():
    code, output = audited("--list")  # a test that may not use the database: a connection would be refused

    assert code == 0
    for check, line in zip(ALL, output.splitlines(), strict=True):
        assert line.split()[0] == check.name
        assert check.invariant in line
        assert line.endswith("(warning)") == check.is_warning


BAD: dict[tuple[str, ...], str] = {
    ("--only", "everything"): "invalid choice: 'everything'",
    ("--batch-size", "0"): "must be a whole number from 1 to 1000000, not '0'",
    ("--limit", "-1"): "must be a whole number from 0 to 100000, not '-1'",
    ("--grace", "soon"): "must be a whole number from 0 to 86400, not 'soon'",
}


@pytest.mark.parametrize("options", BAD, ids=" ".join)
def test_an_invalid_option_is_refused_with_its_range(options: tuple[str, ...]):
    with pytest.raises(CommandError, match=re.escape(BAD[options])):
        audited(*options)


def test_an_unknown_option_exits_2(processes: Processes):
    refused = processes.start("audit", "--faster")

    assert refused.wait() == 2
    assert "unrecognized arguments: --faster" in refused.errors.splitlines()[-1]


def test_an_unmigrated_or_unreachable_database_has_its_own_exit_code(processes: Processes, tmp_path: Path):
    nowhere = "sqlite:////nowhere/hub.sqlite3"
    if vendors.is_server(connection):
        nowhere = database_url().replace(f":{connection.settings_dict['PORT']}/", ":1/")
    unmigrated = processes.start("audit", DATABASE_URL=f"sqlite:///{tmp_path / 'empty.sqlite3'}")
    absent = processes.start("audit", DATABASE_URL=nowhere)

    assert unmigrated.wait() == 78
    [line] = unmigrated.errors.splitlines()
    assert line.endswith("(run manage.py upgrade).")
    assert absent.wait() == 69
    [line] = absent.errors.splitlines()
    assert line.startswith("CommandError: The database cannot be reached: ")
