"""The system checks of the machine, the libraries and the database."""

from __future__ import annotations

import pytest
from django.core.checks import CheckMessage, Tags, run_checks
from django.core.management import call_command
from django.core.management.base import SystemCheckError
from django.db import connection


def ids(messages: list[CheckMessage]) -> set[str | None]:
    return {message.id for message in messages if (message.id or "").startswith("webhookhub.")}


def test_the_environment_of_the_tests_passes():
    assert ids(run_checks()) == set()


@pytest.mark.parametrize(("version", "passes"), [("8.6.9", False), ("8.7.0", True), ("8.23.0-DEV", True)])
def test_libcurl_must_be_recent(monkeypatch, version: str, passes: bool):
    monkeypatch.setattr("pycurl.version_info", lambda: (0, version))

    errors = [message for message in run_checks() if message.id == "webhookhub.E003"]

    assert bool(errors) is not passes


@pytest.mark.parametrize(("limit", "passes"), [(199, False), (200, True), (-1, True)])
def test_the_limit_of_open_files_must_allow_all_requests(monkeypatch, hub_settings, limit: int, passes: bool):
    monkeypatch.setattr("resource.getrlimit", lambda which: (64, limit))
    hub_settings(worker_concurrency=100)

    errors = [message for message in run_checks() if message.id == "webhookhub.E004"]

    assert bool(errors) is not passes


def test_a_failed_check_stops_a_command(monkeypatch):
    monkeypatch.setattr("pycurl.version_info", lambda: (0, "8.3.9"))

    with pytest.raises(SystemCheckError, match=r"webhookhub\.E003"):
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


@pytest.mark.mysql_family
@pytest.mark.parametrize(
    ("increment", "offset", "expected"),
    [
        (1, 1, set()),
        (4, 3, {("webhookhub.I030", "Automatic ids are 4 apart, with the offset 3")}),
        (2, 3, {("webhookhub.W030", "The server ignores its auto_increment_offset 3")}),
    ],
)
def test_the_ids_of_a_cell_are_reported(committed, increment: int, offset: int, expected: set[tuple[str, str]]):
    with connection.cursor() as cursor:
        cursor.execute(f"SET auto_increment_increment = {increment}, auto_increment_offset = {offset}")
    try:
        messages = run_checks(tags=[Tags.database], databases=["default"])
    finally:
        connection.close()
    found = {(message.id, message.msg[: len(text)]) for message in messages for _, text in expected}
    assert ids(messages) == {id for id, _ in expected}
    assert found == expected


@pytest.mark.every_engine
def test_the_documented_check_of_an_installation_finds_nothing(transactional_db: None):
    """Each way of installation ends with it; Django's warnings would make it fail."""
    call_command("check", databases=["default"], fail_level="WARNING")
