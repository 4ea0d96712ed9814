"""What must be right before anything starts."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.core.checks import CheckMessage, Tags, run_checks
from django.core.management import call_command
from django.core.management.base import SystemCheckError
from django.db import connection


def ids(messages: list[CheckMessage]) -> set[str | None]:
    return {message.id for message in messages if (message.id or "").startswith("webhookhub.")}


def test_the_settings_of_the_tests_and_the_defaults_pass():
    assert ids(run_checks()) == set()


@pytest.mark.parametrize(("lease", "passes"), [(40, False), (40.001, True)])
def test_a_lease_must_outlast_a_request_and_its_margin(hub_settings, lease: float, passes: bool):
    hub_settings(
        lease=timedelta(seconds=lease), request_timeout=timedelta(seconds=30), lease_margin=timedelta(seconds=10)
    )

    found = [message for message in run_checks() if message.id == "webhookhub.E001"]

    assert bool(found) is not passes
    for message in found:
        assert "does not outlast a request" in message.msg
        assert message.hint == "Raise WEBHOOKHUB_LEASE or lower WEBHOOKHUB_REQUEST_TIMEOUT."


@pytest.mark.parametrize(("connect", "passes"), [(30, True), (30.001, False)])
def test_a_connection_must_not_be_allowed_longer_than_its_request(hub_settings, connect: float, passes: bool):
    hub_settings(connect_timeout=timedelta(seconds=connect), request_timeout=timedelta(seconds=30))

    found = [message for message in run_checks() if message.id == "webhookhub.E002"]

    assert bool(found) is not passes
    for message in found:
        assert message.hint == "Lower WEBHOOKHUB_CONNECT_TIMEOUT or raise WEBHOOKHUB_REQUEST_TIMEOUT."


@pytest.mark.parametrize(("version", "passes"), [("8.3.9", False), ("8.4.0", True), ("8.23.0-DEV", True)])
def test_libcurl_must_bound_what_a_receiver_sends(monkeypatch, version: str, passes: bool):
    monkeypatch.setattr("pycurl.version_info", lambda: (0, version))

    found = [message for message in run_checks() if message.id == "webhookhub.E003"]

    assert bool(found) is not passes


@pytest.mark.parametrize(("limit", "passes"), [(199, False), (200, True), (-1, True)])
def test_there_must_be_files_for_all_requests(monkeypatch, hub_settings, limit: int, passes: bool):
    monkeypatch.setattr("resource.getrlimit", lambda which: (64, limit))
    hub_settings(worker_concurrency=100)

    found = [message for message in run_checks() if message.id == "webhookhub.E004"]

    assert bool(found) is not passes


def test_a_failed_check_stops_a_command(hub_settings):
    hub_settings(lease=timedelta(seconds=1))

    with pytest.raises(SystemCheckError, match=r"webhookhub\.E001"):
        call_command("check")


@pytest.mark.django_db
def test_a_fit_database_passes():
    assert ids(run_checks(tags=[Tags.database], databases=["default"])) == set()


@pytest.mark.mysql_family
def test_an_unfit_database_is_an_error_with_its_own_id(committed):
    with connection.cursor() as cursor:
        cursor.execute("SET time_zone = '+02:00', sql_mode = ''")
    try:
        assert ids(run_checks(tags=[Tags.database], databases=["default"])) == {"webhookhub.E012", "webhookhub.E013"}
        assert ids(run_checks(tags=[Tags.database], databases=[])) == set()
    finally:
        connection.close()
