"""One JSON object per line, whatever is logged."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from tests.support import rows
from webhookhub import logs
from webhookhub.logs import Log, log


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_every_fact_is_one_json_line_with_its_name_level_and_time(log_stream: io.StringIO):
    logging.getLogger().setLevel("DEBUG")

    for fact in Log:
        log(fact, saga_id=7, error_code=None)

    for fact, line in zip(Log, lines(log_stream), strict=True):
        assert (line["event"], line["saga_id"], line["error_code"]) == (fact.value[0], 7, None)
        assert line["level"] == logging.getLevelName(fact.level).lower()
        said_at = datetime.fromisoformat(str(line["timestamp"]))
        assert abs(datetime.now(UTC) - said_at) < timedelta(minutes=1)


def test_names_of_facts_are_unique():
    names = [fact.value[0] for fact in Log]

    assert len(names) == len(set(names))


@pytest.mark.parametrize("text", ["two\nlines\r\n", '"quoted"', "\x1b[31m", "é😀\u2028", "%s %d {}", "\0"])
def test_no_text_breaks_a_line(log_stream: io.StringIO, text: str):
    log(Log.PROCESS_FAILED, error=text)

    assert log_stream.getvalue().count("\n") == 1
    [line] = lines(log_stream)
    assert line["error"] == text


def test_values_that_json_does_not_have_are_written_as_text(log_stream: io.StringIO):
    log(Log.PROCESS_STARTED, moment=datetime(2024, 1, 2, tzinfo=UTC), kind=object)

    [line] = lines(log_stream)
    assert line["moment"] == "2024-01-02 00:00:00+00:00"


def test_an_error_has_its_traceback_on_the_same_line(log_stream: io.StringIO):
    try:
        raise RuntimeError("broken")
    except RuntimeError:
        log(Log.PROCESS_FAILED, exc_info=True)

    [line] = lines(log_stream)
    assert "RuntimeError: broken" in str(line["exception"])


def test_other_libraries_write_the_same_kind_of_line(log_stream: io.StringIO):
    logging.getLogger("django.request").warning("Not Found: %s", "/x")

    [line] = lines(log_stream)
    assert (line["event"], line["level"]) == ("Not Found: /x", "warning")


def test_the_level_decides_what_is_logged_and_queried(log_stream: io.StringIO):
    logging.getLogger().setLevel("WARNING")

    log(Log.EVENT_PUBLISHED)
    log(Log.SAGA_DEAD_LETTERED)

    assert [line["event"] for line in lines(log_stream)] == ["saga_dead_lettered"]
    assert not logs.enabled(Log.EVENT_PUBLISHED)
    assert logs.enabled(Log.SAGA_DEAD_LETTERED)


def test_the_text_format_has_the_same_content(log_stream: io.StringIO):
    logs.configure("INFO", "text")
    stream = io.StringIO()
    [handler] = logging.getLogger().handlers
    handler.setStream(stream)  # type: ignore[attr-defined]

    log(Log.SAGA_COMPLETED, saga_id=7)

    assert "saga_completed" in stream.getvalue()
    assert "saga_id=7" in stream.getvalue()


@pytest.mark.django_db
def test_a_url_with_an_unknown_parameter_logs_no_error(log_stream: io.StringIO):
    client = Client()
    client.force_login(User.objects.create_superuser("root"))

    for name in rows.ALL:
        for query in ("?nonsense=s3cret", "?_to_field=s3cret"):
            assert client.get(rows.listing(name, query)).status_code == 400, (name, query)

    assert not re.search("nonsense|s3cret", log_stream.getvalue())
    assert [line for line in lines(log_stream) if line["level"] in ("warning", "error")] == []


@pytest.mark.django_db
@pytest.mark.parametrize("query", ["?nonsense=s3cret", "?s3cret=1", "?status=s3cret", "?age=s3cret", "?before=s3cret"])
def test_a_list_of_workflows_that_cannot_be_shown_is_one_line_without_the_query(log_stream: io.StringIO, query: str):
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    address = reverse("admin:workflows_instance_changelist")

    assert client.get(address + query).status_code == 400

    [line] = lines(log_stream)
    assert (line["event"], line["level"]) == (f"Bad Request: {address}", "warning")
    assert "exception" not in line
    assert "s3cret" not in log_stream.getvalue()


@pytest.mark.django_db
def test_a_forbidden_page_is_one_line(log_stream: io.StringIO, member: Callable[[str], Client]):
    address = rows.listing("auditlog_entry")

    assert member("support").get(f"{address}?q=s3cret").status_code == 403

    [line] = lines(log_stream)
    assert (line["event"], line["level"]) == (f"Forbidden (Permission denied): {address}", "warning")
    assert "exception" not in line


@pytest.mark.django_db
def test_a_suspicious_request_is_one_line(log_stream: io.StringIO):
    assert Client().get("/admin/login/?token=s3cret", headers={"host": "elsewhere.example"}).status_code == 400
    assert Client().post("/admin/login/", {f"f{number}": "s3cret" for number in range(1100)}).status_code == 400

    found = lines(log_stream)
    assert found
    for line in found:
        assert "exception" not in line
    assert "s3cret" not in log_stream.getvalue()


@pytest.mark.django_db
def test_a_server_error_keeps_its_traceback(log_stream: io.StringIO, monkeypatch: pytest.MonkeyPatch):
    def fail(*args: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr("webhookhub.console.views.search.find", fail)
    client = Client(raise_request_exception=False)
    client.force_login(User.objects.create_superuser("root"))

    assert client.get(reverse("admin:search")).status_code == 500

    [line] = lines(log_stream)
    assert "RuntimeError: broken" in str(line["exception"])
