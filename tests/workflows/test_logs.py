"""What is logged about runs: each transition once, failures and time-outs as warnings."""

from __future__ import annotations

import io
import json
from datetime import timedelta
from typing import Any

import pytest

from tests.workflows import shop
from tests.workflows.lives import ORDER
from tests.workflows.support import catch_up, expire, instance, told_before, tracked
from workflows import services
from workflows.state import DONE

pytestmark = pytest.mark.django_db
Line = dict[str, Any]


def lines(stream: io.StringIO) -> list[Line]:
    found = [json.loads(line) for line in stream.getvalue().splitlines()]
    return [line for line in found if line["event"].startswith("workflow_")]


def summary(stream: io.StringIO) -> list[tuple[str, str, str]]:
    return [(line["event"], line["level"], line.get("step", "")) for line in lines(stream)]


def warnings(stream: io.StringIO) -> list[tuple[str, str]]:
    return [(event, step) for event, level, step in summary(stream) if level == "warning"]


@pytest.mark.requirement("R5-3.5c")
def test_a_time_out_is_logged_once_as_a_warning(log_stream: io.StringIO):
    tracked()
    for step in ("order", "inventory"):
        told_before(ORDER, (step, DONE), "k-1", timedelta(minutes=11))
    catch_up()
    expire()
    expire()

    [line] = [line for line in lines(log_stream) if line["event"] == "workflow_timed_out"]
    assert (line["level"], line["step"], line["cause"]) == ("warning", "payment", "timed_out")
    assert (line["correlation_id"], line["saga_id"]) == ("k-1", str(instance("k-1").saga_id))
    assert (line["saga_type"], line["delivery_status"]) == ("order_submission", "COMPENSATING")


@pytest.mark.requirement("R5-3.5c")
def test_an_overdue_compensation_is_logged_as_a_time_out(log_stream: io.StringIO, monkeypatch: pytest.MonkeyPatch):
    run = shop.declined("k-1")
    monkeypatch.setattr("workflows.tracker._horizon", lambda: run.deadline)
    expire()

    assert warnings(log_stream) == [
        ("workflow_timed_out", ""),
        ("workflow_failed", "payment"),
        ("workflow_needs_operator", "payment"),
    ]


@pytest.mark.requirement("R5-3.5c")
def test_a_time_out_whose_compensation_ends_at_once_is_logged(log_stream: io.StringIO):
    tracked()
    told_before(ORDER, ("order", DONE), "k-1", timedelta(minutes=11))
    told_before(ORDER, ("order", "compensated"), "k-1", timedelta(minutes=10))
    catch_up()
    expire()

    assert instance("k-1").status == "COMPENSATED"
    assert ("workflow_timed_out", "warning", "inventory") in summary(log_stream)


def test_progress_and_success_are_information(log_stream: io.StringIO):
    shop.waiting_for_payment("k-1")
    shop.order("k-1", *shop.DONE[2:])
    catch_up()

    assert summary(log_stream) == [
        ("workflow_step_changed", "info", "order"),
        ("workflow_step_changed", "info", "inventory"),
        ("workflow_advanced", "info", "payment"),
        ("workflow_step_changed", "info", "payment"),
        ("workflow_step_changed", "info", "shipping"),
        ("workflow_step_changed", "info", "confirmation"),
        ("workflow_ended", "info", "confirmation"),
    ]
    assert {line["step_status"] for line in lines(log_stream) if "step_status" in line} == {"done"}


def test_a_failed_run_is_a_warning(log_stream: io.StringIO):
    shop.failed("k-1")

    assert warnings(log_stream) == [("workflow_failed", "payment"), ("workflow_needs_operator", "payment")]


def test_the_act_of_an_operator_is_logged_once(log_stream: io.StringIO):
    run = shop.failed("k-1")
    for _ in range(2):
        services.act(run, "closed", idempotency_key="a", actor="olga", reason="PrivateReason")

    [line] = [line for line in lines(log_stream) if line["event"] == "workflow_operator_acted"]
    assert (line["action"], line["requested_by"], line["delivery_status"]) == ("closed", "olga", "FAILED")
    assert "PrivateReason" not in log_stream.getvalue()


def test_every_line_about_a_run_has_its_ids(log_stream: io.StringIO):
    shop.failed("k-1")
    shop.completed("k-2")

    for line in lines(log_stream):
        assert {"correlation_id", "saga_id", "saga_type", "delivery_status"} <= line.keys()
