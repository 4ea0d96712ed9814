"""The API of workflow runs: reading them, and facts of services and operators."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from api.application import api
from deadletters.models import DeadLetter, Requeue
from events.intake import publish
from sagas.models import Saga
from tests.webhookhub.integrity.support import audit
from tests.workflows import shop
from tests.workflows.support import catch_up, instance, tracked
from webhookhub.auditlog.models import Entry
from webhookhub.db import clock
from workflows.checks import used_definitions_are_unchanged
from workflows.facts import MAX_REPEATS
from workflows.models import Fact, Instance
from workflows.registry import SAMPLES, load

from .conftest import Program

pytestmark = pytest.mark.django_db


def dead_letter(saga: Saga) -> DeadLetter:
    return DeadLetter.objects.create(
        saga=saga,
        event=saga.event,
        subscription=saga.subscription,
        final_error_code=saga.final_error_code or "",
        failed_at=clock.now(),
        payload_snapshot=saga.event.payload,
    )


@pytest.mark.requirement("R5-1d", "R5-3.2a", "R5-3.2b", "R5-3.2c", "R5-3.2h", "R5-3.3a")
def test_get_returns_all_fields_of_a_run(hub_wide: Program):
    run = shop.declined("o-1")

    shown = hub_wide.get(f"/sagas/{run.saga_id}").json()

    assert (shown["id"], shown["saga_type"], shown["version"]) == (str(run.saga_id), "order_submission", 1)
    assert (shown["aggregate_id"], shown["correlation_key"]) == ("o-1", "o-1")
    assert (shown["status"], shown["current_step"]) == ("COMPENSATING", "inventory")
    assert shown["error_message"] == "the card was declined"
    assert shown["steps"]["payment"] == "failed"
    assert shown["steps"]["inventory"] == "compensating"
    assert shown["compensation_started_at"]
    assert shown["completed_at"] is None
    assert shown["anomaly"] is None


def test_a_used_definition_that_changed_is_a_503(hub_wide: Program, tmp_path: Path, hub_settings: Any):
    run = shop.waiting_for_payment("o-1")
    text = (SAMPLES / "order_submission_1.toml").read_text()
    (tmp_path / "mine.toml").write_text(text.replace("timeout_seconds = 300", "timeout_seconds = 301"))
    hub_settings(workflow_definitions=(tmp_path,))
    load.cache_clear()
    before = Fact.objects.count()
    start = {"saga_type": "order_submission", "correlation_id": "o-2", "idempotency_key": "k"}

    responses = [
        hub_wide.post("/sagas", start),
        hub_wide.post(f"/sagas/{run.saga_id}/step", {"step": "payment", "idempotency_key": "k"}),
        hub_wide.get(f"/sagas/{run.saga_id}/diagram"),
    ]

    [error] = used_definitions_are_unchanged(databases=["default"])
    for response in responses:
        assert (response.status_code, response["Content-Type"]) == (503, "application/problem+json")
        assert response.json()["detail"] == f"Workflows are unavailable: {error.msg}"
        assert "order_submission version 1 (mine.toml): version has runs and was changed since" in error.msg
        assert response["Retry-After"] == "5"
    assert (Instance.objects.count(), Fact.objects.count()) == (1, before)


@pytest.mark.requirement("R5-3.3b")
def test_an_unknown_run_is_a_404(hub_wide: Program):
    unknown = "00000000-0000-7000-8000-000000000000"

    for path in ("", "/timeline", "/diagram"):
        assert hub_wide.get(f"/sagas/{unknown}{path}").status_code == 404
    bodies = {"step": {"step": "payment"}, "complete": {}, "fail": {}, "compensated": {}}
    bodies |= {
        "compensation-failed": {"step": "payment"},
        "close": {"reason": "r"},
        "mark-compensated": {"reason": "r"},
    }
    for name, body in {**bodies, "retry": {"step": "payment", "reason": "r"}}.items():
        assert hub_wide.post(f"/sagas/{unknown}/{name}", {"idempotency_key": "k", **body}).status_code == 404


@pytest.mark.requirement("R5-3.3c")
def test_runs_of_an_aggregate_are_paged_newest_first(hub_wide: Program):
    for number in range(3):
        shop.order(f"c-{number}", "order.submitted")
    tracked()
    run = shop.completed("o-1")
    Instance.objects.filter(correlation_key__startswith="c-").update(aggregate_id="order/7 ü")

    first = hub_wide.get("/sagas/aggregate/order/7 ü", all=True, limit=2).json()
    rest = hub_wide.get("/sagas/aggregate/order/7 ü", all=True, limit=2, cursor=first["next"]).json()

    assert [item["correlation_key"] for item in first["items"] + rest["items"]] == ["c-2", "c-1", "c-0"]
    assert rest["next"] is None
    assert [item["id"] for item in hub_wide.get("/sagas/aggregate/o-1", all=True).json()["items"]] == [str(run.saga_id)]


@pytest.mark.requirement("R5-3.3c")
def test_an_aggregate_is_its_newest_run(hub_wide: Program):
    run = shop.completed("o-1")
    assert hub_wide.get("/sagas/aggregate/o-1").json() == hub_wide.get(f"/sagas/{run.saga_id}").json()

    publish("order.cancelled", {"order_id": "o-1"}, source="shop", correlation_id="c-1")
    catch_up()
    assert hub_wide.get("/sagas/aggregate/o-1").json()["saga_type"] == "order_cancellation"


@pytest.mark.requirement("R5-3.3c")
@pytest.mark.parametrize("parameters", [{}, {"all": True}, {"all": False}])
def test_an_aggregate_without_a_run_is_a_404(hub_wide: Program, parameters: dict[str, Any]):
    shop.completed("o-1")

    response = hub_wide.get("/sagas/aggregate/o-2", **parameters)

    assert (response.status_code, response.json()["detail"]) == (404, "There is no such run.")


@pytest.mark.requirement("R5-3.3d")
def test_failed_runs_are_paged_newest_first(hub_wide: Program):
    shop.completed("o-0")
    for number in range(1, 4):
        shop.failed(f"o-{number}")

    first = hub_wide.get("/sagas/failed", limit=2).json()
    rest = hub_wide.get("/sagas/failed", limit=2, cursor=first["next"]).json()

    assert [item["aggregate_id"] for item in first["items"] + rest["items"]] == ["o-3", "o-2", "o-1"]
    assert {item["status"] for item in first["items"]} == {"FAILED"}
    assert all(item["needs_operator"] for item in first["items"])
    assert rest["next"] is None


NARROWED: list[tuple[dict[str, str], list[str]]] = [
    ({}, ["c-5", "o-4", "o-3", "o-2", "o-1"]),
    ({"saga_type": "order_submission"}, ["o-4", "o-3", "o-2", "o-1"]),
    ({"saga_type": "customer_registration"}, ["c-5"]),
    ({"status": "COMPLETED"}, ["o-1"]),
    ({"saga_type": "order_submission", "status": "IN_PROGRESS"}, ["o-2"]),
    ({"saga_type": "order_submission", "step": "payment"}, ["o-4", "o-2"]),
    ({"saga_type": "order_submission", "step": "inventory", "status": "COMPENSATING"}, ["o-3"]),
    ({"needs_operator": "true"}, ["o-4"]),
    ({"needs_operator": "true", "status": "COMPLETED"}, []),
    ({"since": "2000-01-01T00:00:00Z"}, ["c-5", "o-4", "o-3", "o-2", "o-1"]),
    ({"until": "2000-01-01T00:00:00Z"}, []),
    ({"since": "9000-01-01T00:00:00Z"}, []),
]


def test_list_filters(hub_wide: Program):
    shop.completed("o-1")
    shop.waiting_for_payment("o-2")
    shop.declined("o-3")
    shop.failed("o-4")
    tracked()
    publish("customer.registered", {"customer_id": "c-5"}, correlation_id="c-5")
    catch_up()

    for filters, expected in NARROWED:
        found: list[str] = []
        cursor = None
        while True:
            page = hub_wide.get("/sagas", limit=2, **filters, **({"cursor": cursor} if cursor else {})).json()
            found += [item["aggregate_id"] for item in page["items"]]
            cursor = page["next"]
            if cursor is None:
                break
        assert found == expected, filters


@pytest.mark.parametrize(
    ("path", "parameters", "field"),
    [
        ("/sagas", {"step": "payment"}, "step"),
        ("/sagas", {"saga_type": "nonsense", "step": "payment"}, "saga_type"),
        ("/sagas", {"saga_type": "order_submission", "step": "nonsense"}, "step"),
        ("/sagas", {"status": "completed"}, "status"),
        ("/sagas", {"colour": "red"}, "colour"),
        ("/sagas", {"cursor": "x"}, "cursor"),
        ("/sagas/failed", {"status": "FAILED"}, "status"),
        ("/sagas/stuck", {"quiet_seconds": -1}, "quiet_seconds"),
        ("/sagas/aggregate/x", {"limit": 0}, "limit"),
        ("/sagas/aggregate/x", {"limit": 2}, "limit"),
        ("/sagas/aggregate/x", {"cursor": "x"}, "cursor"),
        ("/sagas/aggregate/x", {"all": True, "cursor": "x"}, "cursor"),
        ("/sagas/aggregate/x", {"all": "some"}, "all"),
        ("/sagas/abc", {}, "saga_id"),
    ],
)
def test_an_invalid_filter_names_the_field(hub_wide: Program, path: str, parameters: dict[str, Any], field: str):
    response = hub_wide.get(path, **parameters)

    assert response.status_code == 422
    assert [error["field"] for error in response.json()["errors"]] == [field]


def test_an_unknown_type_or_step_is_a_422_with_the_known_ones(hub_wide: Program):
    [no_type] = hub_wide.get("/sagas", saga_type="order_submision").json()["errors"]
    [no_step] = hub_wide.get("/sagas", saga_type="order_cancellation", step="payment").json()["errors"]

    types = "customer_registration, order_cancellation, order_submission"
    assert no_type["message"] == f"'order_submision' is not a workflow; the workflows are {types}"
    steps = "order, refund, inventory, notification"
    assert no_step["message"] == f"'payment' is not a step of order_cancellation; the steps are {steps}"


def test_runs_of_a_retired_workflow_can_be_filtered(hub_wide: Program, tmp_path: Path, hub_settings: Any):
    shop.waiting_for_payment("o-1")
    hub_settings(workflow_definitions=(tmp_path,))
    load.cache_clear()

    for filters in ({}, {"step": "payment"}):
        [found] = hub_wide.get("/sagas", saga_type="order_submission", **filters).json()["items"]
        assert found["aggregate_id"] == "o-1"
    assert hub_wide.get("/sagas", saga_type="customer_registration").status_code == 422, "it never had any"


@pytest.mark.parametrize("fault", ["timeout_seconds = 301", "timeout_seconds = oops"], ids=["changed", "unreadable"])
def test_runs_are_listed_despite_an_invalid_definition(
    hub_wide: Program, tmp_path: Path, hub_settings: Any, fault: str
):
    shop.waiting_for_payment("o-1")
    text = (SAMPLES / "order_submission_1.toml").read_text()
    (tmp_path / "mine.toml").write_text(text.replace("timeout_seconds = 300", fault))
    hub_settings(workflow_definitions=(tmp_path,))
    load.cache_clear()

    [found] = hub_wide.get("/sagas", saga_type="order_submission", step="payment").json()["items"]

    assert found["aggregate_id"] == "o-1"


def test_a_stuck_run_shows_its_blockers(hub_wide: Program):
    shop.completed("o-0")
    shop.waiting_for_payment("o-1")
    shop.waiting_for_payment("o-2")
    stuck = shop.delivery("o-2", "inventory.reserved", "PendingRetry", "http_503")
    shop.delivery("o-1", "inventory.reserved", "Completed", attempts=1)

    assert hub_wide.get("/sagas/stuck", quiet_seconds=3600).json()["items"] == []
    one, two = hub_wide.get("/sagas/stuck", quiet_seconds=0).json()["items"]

    assert (one["aggregate_id"], two["aggregate_id"]) == ("o-1", "o-2"), "the one that times out first comes first"
    assert [item["summary"] for item in one["waits_for"]] == ["waits for payment"]
    [obstacle] = two["waits_for"]
    assert (
        obstacle["summary"]
        == "stuck at payment: inventory.reserved → payment service, PendingRetry, 5 attempts, http_503"
    )
    [delivery] = obstacle["deliveries"]
    assert (delivery["id"], delivery["error_code"], delivery["attempt_count"]) == (stuck.pk, "http_503", 5)


def test_stuck_runs_are_paged(hub_wide: Program):
    for number in range(3):
        shop.waiting_for_payment(f"o-{number}")
    shop.declined("o-3")

    found, cursor = [], None
    while True:
        asked = {"quiet_seconds": 0, "limit": 1, **({"cursor": cursor} if cursor else {})}
        page = hub_wide.get("/sagas/stuck", **asked).json()
        found += [item["aggregate_id"] for item in page["items"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert sorted(found) == ["o-0", "o-1", "o-2", "o-3"]
    assert len(found) == 4


@pytest.mark.requirement("R5-1d")
def test_the_timeline_has_facts_events_and_deliveries(hub_wide: Program):
    run = shop.declined("o-1")
    dead = shop.delivery("o-1", "payment.failed", "DeadLettered", "timeout")

    items = hub_wide.get(f"/sagas/{run.saga_id}/timeline").json()["items"]

    rows = [(item["step"], item["role"], item["origin"], item["event_type"]) for item in items]
    assert rows[:4] == [
        ("order", "done", "event", "order.submitted"),
        ("inventory", "done", "event", "inventory.reserved"),
        ("payment", "failed", "event", "payment.failed"),
        ("payment", "failing", "hub", None),
    ]
    assert ("inventory", "emitted", "hub", "saga.compensation_requested") in rows
    failure = items[2]
    assert failure["detail"] == "the card was declined"
    assert [(item["id"], item["error_code"]) for item in failure["deliveries"]] == [(dead.pk, "timeout")]


def test_a_long_timeline_is_paged(hub_wide: Program):
    run = shop.declined("o-1")
    whole = hub_wide.get(f"/sagas/{run.saga_id}/timeline").json()
    assert (len(whole["items"]), whole["next"]) == (Fact.objects.filter(instance=run).count(), None)
    times = [item["occurred_at"] for item in whole["items"]]
    assert len(set(times)) < len(times), "some happened at the same time"

    for limit in (1, 2, len(times)):
        page = hub_wide.get(f"/sagas/{run.saga_id}/timeline", limit=limit).json()
        items = page["items"]
        while page["next"] is not None:
            page = hub_wide.get(f"/sagas/{run.saga_id}/timeline", limit=limit, cursor=page["next"]).json()
            assert 1 <= len(page["items"]) <= limit
            items += page["items"]
        assert items == whole["items"]


def test_a_cursor_of_another_timeline_is_refused(hub_wide: Program):
    run, other = shop.declined("o-1"), shop.declined("o-2")
    cursor = hub_wide.get(f"/sagas/{run.saga_id}/timeline", limit=1).json()["next"]

    for name, value in {"cursor": cursor, "limit": 201, "after": 1}.items():
        response = hub_wide.get(f"/sagas/{other.saga_id}/timeline", **{name: value})
        assert response.status_code == 422
        assert response.json()["errors"][0]["field"] == name


@pytest.mark.requirement("R5-9b")
def test_the_diagram_shows_the_state_of_each_step(hub_wide: Program):
    run = shop.declined("o-1")

    response = hub_wide._client.get(
        f"/api/v1/sagas/{run.saga_id}/diagram", headers={"Authorization": f"Bearer {hub_wide.text}"}
    )

    assert response["Content-Type"] == "image/svg+xml"
    drawing = ElementTree.fromstring(response.content)
    text = response.content.decode()
    assert drawing.tag.endswith("svg")
    assert "Process payment: failed" in text
    assert "Reserve inventory: compensating" in text
    assert "<script" not in text


def verb(program: Program, run: Instance, name: str, key: str, **body: Any) -> Any:
    return program.post(f"/sagas/{run.saga_id}/{name}", {"idempotency_key": key, **body})


@pytest.mark.requirement("R5-3.2e", "R5-3.2j")
def test_a_run_can_be_reported_from_start_to_end(hub_wide: Program):
    tracked()
    started = hub_wide.post(
        "/sagas",
        {
            "saga_type": "order_submission",
            "correlation_id": "o-1",
            "aggregate_id": "order 1",
            "idempotency_key": "start",
        },
    )
    assert started.status_code == 201
    catch_up()
    run = instance("o-1")
    assert started.json()["saga"] == str(run.saga_id)
    for step in ("order", "inventory", "payment", "shipping", "confirmation"):
        assert verb(hub_wide, run, "step", step, step=step).status_code == 201
    catch_up()

    shown = hub_wide.get(f"/sagas/{run.saga_id}").json()
    assert (shown["status"], shown["aggregate_id"]) == ("COMPLETED", "order 1")
    facts = hub_wide.get(f"/sagas/{run.saga_id}/timeline").json()["items"]
    assert {item["actor"] for item in facts if item["origin"] == "verb"} == {"API key everything"}


def test_a_repetition_is_one_fact_and_other_content_is_a_conflict(hub_wide: Program):
    run = shop.waiting_for_payment("o-1")

    first = verb(hub_wide, run, "step", "k-1", step="payment")
    again = verb(hub_wide, run, "step", "k-1", step="payment")
    other = verb(hub_wide, run, "step", "k-1", step="shipping")

    assert (first.status_code, again.status_code, other.status_code) == (201, 200, 409)
    assert again.json() == {**first.json(), "created": False}
    assert other.json()["errors"][0]["field"] == "idempotency_key"
    assert Fact.objects.filter(instance=run, origin="verb").count() == 1


@pytest.mark.parametrize(
    ("name", "body"),
    [("step", {"step": "payment"}), ("close", {"reason": "r"}), ("retry", {"step": "payment", "reason": "r"})],
)
def test_a_non_ascii_header_is_refused_with_the_field_to_use(hub_wide: Program, name: str, body: dict[str, str]):
    run = shop.waiting_for_payment("o-1")

    refused = hub_wide.post(f"/sagas/{run.saga_id}/{name}", body, Idempotency_Key="schlüssel")

    assert refused.status_code == 422
    [error] = refused.json()["errors"]
    assert error["field"] == "Idempotency-Key"
    assert error["message"].endswith("use idempotency_key for others")
    assert verb(hub_wide, run, "step", "schlüssel", step="payment").status_code == 201


def test_repeats_under_new_keys_are_limited(hub_wide: Program):
    run = shop.waiting_for_payment("o-1")
    for number in range(MAX_REPEATS):
        assert verb(hub_wide, run, "step", f"k-{number}", step="payment").status_code == 201

    response = verb(hub_wide, run, "step", "one more", step="payment")

    assert response.status_code == 409
    why = "is new, and 'done' of step payment was reported under 20 other keys; use one of these"
    assert response.json()["detail"] == f"idempotency_key {why}."
    assert response.json()["errors"] == [{"field": "idempotency_key", "message": why}]
    assert Fact.objects.filter(instance=run, origin="verb").count() == MAX_REPEATS
    assert verb(hub_wide, run, "step", "k-7", step="payment").status_code == 200
    assert verb(hub_wide, run, "step", "k-7", step="shipping").status_code == 409
    assert verb(hub_wide, run, "step", "another step", step="shipping").status_code == 201
    assert verb(hub_wide, run, "fail", "another thing", step="payment").status_code == 201


def test_repeated_starts_under_new_keys_are_limited(hub_wide: Program):
    tracked()
    start = {"saga_type": "order_submission", "correlation_id": "o-1"}

    responses = [hub_wide.post("/sagas", {**start, "idempotency_key": f"k-{n}"}) for n in range(MAX_REPEATS + 1)]

    assert [response.status_code for response in responses] == [201] * MAX_REPEATS + [409]
    assert "'started' of the run was reported under 20 other keys" in responses[-1].json()["detail"]
    assert Instance.objects.count() == 1


@pytest.mark.parametrize(
    ("name", "first", "other"),
    [
        ("fail", {"step": "payment", "error": "no money"}, {"step": "payment", "error": "no stock"}),
        ("fail", {"error": "no money"}, {}),
        ("compensation-failed", {"step": "order", "error": "a"}, {"step": "order", "error": "b"}),
        ("compensated", {"step": "order"}, {}),
        ("close", {"reason": "the customer called"}, {"reason": "the customer wrote"}),
        ("mark-compensated", {"step": "order", "reason": "by hand"}, {"step": "order", "reason": "by mail"}),
    ],
    ids=str,
)
def test_other_content_under_the_same_key_is_a_conflict(
    hub_wide: Program, name: str, first: dict[str, Any], other: dict[str, Any]
):
    run = shop.declined("o-1") if name == "mark-compensated" else shop.waiting_for_payment("o-1")

    responses = [verb(hub_wide, run, name, "k", **body).status_code for body in (first, other, first)]

    assert responses == [201, 409, 200]


def test_a_start_with_another_aggregate_under_the_same_key_is_a_conflict(hub_wide: Program):
    tracked()
    start = {"saga_type": "order_submission", "correlation_id": "o-1", "aggregate_id": "a", "idempotency_key": "k"}

    responses = [hub_wide.post("/sagas", {**start, "aggregate_id": item}).status_code for item in ("a", "b", "a")]

    assert responses == [201, 409, 200]


def test_another_delivery_under_the_same_key_is_a_conflict(hub_wide: Program):
    run = shop.waiting_for_payment("o-1")
    one = shop.delivery("o-1", "inventory.reserved", "Completed", attempts=1)
    other = shop.delivery("o-1", "order.submitted", "Completed", attempts=1)
    asked = {"step": "payment", "reason": "they lost it"}

    responses = [
        verb(hub_wide, run, "retry", "k", **asked, **named).status_code
        for named in ({"delivery": one.pk}, {"delivery": other.pk}, {}, {"delivery": one.pk})
    ]

    assert responses == [201, 409, 409, 200]
    assert Saga.objects.filter(generation=1).count() == 1


def test_the_idempotency_key_is_required_and_may_be_a_header(hub_wide: Program):
    run = shop.waiting_for_payment("o-1")
    path = f"/sagas/{run.saga_id}/complete"

    assert hub_wide.post(path, None, Idempotency_Key="k-1").status_code == 201
    assert hub_wide.post(path, {"idempotency_key": "k-1"}).status_code == 200
    assert hub_wide.post(path, {"idempotency_key": "k-1"}, Idempotency_Key="k-2").status_code == 422
    missing = hub_wide.post(path)
    assert missing.status_code == 422
    assert missing.json()["errors"] == [
        {"field": "idempotency_key", "message": "is missing; give it here or in the header Idempotency-Key"}
    ]
    catch_up()
    assert instance("o-1").status == "COMPLETED"


@pytest.mark.requirement("R5-3.2j")
def test_a_reported_failure_is_compensated(hub_wide: Program):
    run = shop.waiting_for_payment("o-1")

    assert verb(hub_wide, run, "fail", "f", step="payment", error="the bank is closed").status_code == 201
    catch_up()
    assert instance("o-1").status == "COMPENSATING"
    assert instance("o-1").error_message == "the bank is closed"
    assert verb(hub_wide, run, "compensated", "c1", step="inventory").status_code == 201
    assert verb(hub_wide, run, "compensated", "c2", step="order").status_code == 201
    catch_up()

    assert instance("o-1").status == "COMPENSATED"


@pytest.mark.parametrize(
    ("name", "body"), [("compensated", {}), ("mark-compensated", {"reason": "by hand"})], ids=["service", "operator"]
)
def test_a_run_that_has_not_failed_cannot_be_compensated(hub_wide: Program, name: str, body: dict[str, Any]):
    for run, status in ((shop.waiting_for_payment("o-1"), "IN_PROGRESS"), (shop.completed("o-2"), "COMPLETED")):
        before = Fact.objects.count()

        refused = verb(hub_wide, run, name, "all", **body)

        assert refused.status_code == 409
        assert f"the run is {status}, and only a run that is COMPENSATING" in refused.json()["detail"]
        assert "report the failure first" in refused.json()["detail"]
        assert [error["field"] for error in refused.json()["errors"]] == ["step"]
        assert Fact.objects.count() == before
    run = instance("o-1")
    assert not Entry.objects.filter(action="workflow.mark_compensated").exists()

    # A fact counts before a tracker has folded it.
    verb(hub_wide, run, "fail", "f", step="payment")
    responses = [verb(hub_wide, run, name, "all", **body).status_code for _ in range(2)]

    assert responses == [201, 200]
    catch_up()
    assert instance("o-1").status == "COMPENSATED"


def test_a_service_but_not_an_operator_may_report_a_step_as_undone_before_the_failure(hub_wide: Program):
    for run in (shop.waiting_for_payment("o-1"), shop.completed("o-2")):
        before = Fact.objects.count()
        refused = verb(hub_wide, run, "mark-compensated", "m", step="inventory", reason="by hand")
        assert refused.status_code == 409
        assert "and only a run that is COMPENSATING" in refused.json()["detail"]
        assert Fact.objects.count() == before
    assert verb(hub_wide, instance("o-1"), "compensated", "s", step="inventory").status_code == 201

    for event_type in ("payment.processed", "shipping.arranged", "order.confirmed"):
        publish(event_type, {}, correlation_id="o-1")
    catch_up()
    assert (instance("o-1").status, instance("o-1").current_step) == ("IN_PROGRESS", "inventory")


def test_a_step_without_compensation_cannot_be_marked(hub_wide: Program):
    run = shop.declined("o-1")
    for name, body in (("mark-compensated", {"reason": "by hand"}), ("compensated", {}), ("compensation-failed", {})):
        refused = verb(hub_wide, run, name, f"k-{name}", step="confirmation", **body)
        assert refused.status_code == 422
        assert [error["field"] for error in refused.json()["errors"]] == ["step"]
        assert "'confirmation' cannot be undone" in refused.json()["detail"]


def test_a_reported_failure_of_compensation_needs_an_operator(hub_wide: Program):
    run = shop.declined("o-1")
    verb(hub_wide, run, "compensation-failed", "x", step="inventory", error="the shelf is gone")
    catch_up()
    assert (instance("o-1").status, instance("o-1").needs_operator) == ("FAILED", True)

    for step in ("inventory", "order"):
        marked = verb(hub_wide, run, "mark-compensated", f"m-{step}", step=step, reason="put back by hand")
        assert marked.status_code == 201
    catch_up()

    found = instance("o-1")
    assert (found.status, found.needs_operator, found.by_hand) == ("FAILED", False, True)
    fact = Fact.objects.get(instance=run, idempotency_key="m-order")
    assert (fact.actor, fact.reason, fact.origin) == ("API key everything", "put back by hand", "operator")


def test_an_operator_closes_a_run(hub_wide: Program):
    run = shop.waiting_for_payment("o-1")

    assert verb(hub_wide, run, "close", "k", reason="the customer called").status_code == 201
    assert verb(hub_wide, run, "close", "k", reason="the customer called").status_code == 200
    catch_up()

    assert (instance("o-1").status, instance("o-1").error_message) == ("FAILED", "the customer called")
    assert verb(hub_wide, run, "close", "k", reason="the customer called").status_code == 200, "asked again"


@pytest.mark.parametrize(
    "events",
    [
        shop.DONE,
        ["order.submitted", "payment.failed", "order.failed", "inventory.released"],
    ],
    ids=["completed", "compensated"],
)
def test_an_ended_run_cannot_be_closed(hub_wide: Program, events: list[str]):
    run = shop.order("o-1", *events)
    before = list(Fact.objects.values_list("pk", flat=True))

    response = verb(hub_wide, run, "close", "k", reason="to be sure")

    assert response.status_code == 409
    message = "the run has ended and needs no operator, so there is nothing to close"
    assert response.json()["detail"] == f"Nothing was recorded: {message}."
    catch_up()
    assert list(Fact.objects.values_list("pk", flat=True)) == before
    assert (instance("o-1").status, instance("o-1").by_hand) == (run.status, False)
    assert not Entry.objects.filter(action="workflow.close").exists()


INVALID_REPORTS: list[tuple[str, dict[str, Any], str]] = [
    ("step", {"step": "nonsense"}, "step"),
    ("step", {}, "step"),
    ("step", {"step": "payment", "colour": "red"}, "colour"),
    ("fail", {"step": "payment", "error": "x" * 501}, "error"),
    ("close", {}, "reason"),
    ("close", {"reason": "two\x1blines"}, "reason"),
    ("mark-compensated", {"step": "nonsense", "reason": "r"}, "step"),
    ("retry", {"reason": "r"}, "step"),
    ("retry", {"reason": "r", "step": "nonsense"}, "step"),
    ("retry", {"reason": "r", "step": "payment", "delivery": 4711}, "delivery"),
]


def test_an_invalid_report_names_the_field_and_stores_nothing(hub_wide: Program):
    run = shop.waiting_for_payment("o-1")
    before = Fact.objects.count()

    for name, body, field in INVALID_REPORTS:
        response = verb(hub_wide, run, name, "k", **body)
        assert response.status_code == 422, (name, body, response.content)
        assert field in [error["field"] for error in response.json()["errors"]], (name, body)
    assert Fact.objects.count() == before


def test_an_unknown_workflow_cannot_be_started(hub_wide: Program):
    response = hub_wide.post("/sagas", {"saga_type": "nonsense", "correlation_id": "x", "idempotency_key": "k"})

    assert response.status_code == 422
    [error] = response.json()["errors"]
    assert error["field"] == "saga_type"
    assert "order_submission" in error["message"]
    assert not Instance.objects.exists()


def test_retry_redelivers_dead_letters_once(hub_wide: Program):
    run = shop.waiting_for_payment("o-1")
    dead = shop.delivery("o-1", "inventory.reserved", "DeadLettered", "http_503")
    dead_letter(dead)

    first = verb(hub_wide, run, "retry", "k", step="payment", reason="the service is back")
    again = verb(hub_wide, run, "retry", "k", step="payment", reason="the service is back")

    assert (first.status_code, again.status_code) == (201, 200)
    [new] = Saga.objects.filter(generation=1)
    assert first.json()["deliveries"] == again.json()["deliveries"] == [new.pk]
    assert (new.event_id, new.subscription_id, new.status) == (dead.event_id, dead.subscription_id, "Pending")
    assert Requeue.objects.get().requested_by == "API key everything"
    catch_up()
    assert instance("o-1").by_hand
    assert instance("o-1").status == "IN_PROGRESS"
    third = verb(hub_wide, run, "retry", "k-2", step="payment", reason="once more")
    assert third.status_code == 409
    assert "waits for no dead letter" in third.json()["detail"]


def test_retry_repeats_a_completed_delivery_if_given(hub_wide: Program):
    run = shop.waiting_for_payment("o-1")
    arrived = shop.delivery("o-1", "inventory.reserved", "Completed", attempts=1)

    unnamed = verb(hub_wide, run, "retry", "k-1", step="payment", reason="they lost it")
    named = verb(hub_wide, run, "retry", "k-2", step="payment", reason="they lost it", delivery=arrived.pk)
    stale = verb(hub_wide, run, "retry", "k-3", step="payment", reason="they lost it", delivery=arrived.pk)

    assert (unnamed.status_code, named.status_code) == (409, 201)
    [new] = Saga.objects.filter(generation=1)
    assert named.json()["deliveries"] == [new.pk]
    assert stale.status_code == 422, "there is a later one"
    under_way = verb(hub_wide, run, "retry", "k-4", step="payment", reason="they lost it", delivery=new.pk)
    assert under_way.status_code == 409
    assert "it has not ended yet" in under_way.json()["detail"]
    assert Saga.objects.count() == 2


def test_a_key_of_a_source_may_report_but_not_read_or_operate(program: Callable[..., Program], hub_wide: Program):
    run = shop.waiting_for_payment("o-1")
    service = program("payment key", "read", "sagas:write", source="payment")

    assert verb(service, run, "step", "k", step="payment").status_code == 201
    refused = service.get(f"/sagas/{run.saga_id}")
    assert refused.status_code == 403
    assert "use a key without a source for workflows" in refused.json()["detail"]
    assert verb(service, run, "close", "k2", reason="r").status_code == 403


def test_a_key_of_a_source_cannot_read_runs(program: Callable[..., Program]):
    run = shop.waiting_for_payment("o-1")
    service = program("payment key", "read", "sagas:write", source="payment")
    paths = [
        path.removeprefix("/api/v1").format(saga_id=run.saga_id, aggregate_id="o-1")
        for path, operations in api.get_openapi_schema()["paths"].items()
        if path.startswith("/api/v1/sagas") and "get" in operations
    ]

    assert len(paths) == 7
    for path in paths:
        refused = service.get(path)
        assert refused.status_code == 403, path
        assert "o-1" not in refused.content.decode()


def test_a_late_success_shows_as_an_anomaly(hub_wide: Program):
    run = shop.order("o-1", *shop.DONE[:2], "payment.failed", "order.failed", "inventory.released")
    assert run.status == "COMPENSATED"

    shop.order("o-1", "payment.processed")

    shown = hub_wide.get(f"/sagas/{run.saga_id}").json()
    assert (shown["status"], shown["anomaly"]) == ("COMPENSATED", "payment done after the end")
    assert shown["steps"]["payment"] == "compensating", "it is asked to be undone all the same"


def test_operators_actions_are_in_the_audit_log_once(hub_wide: Program):
    run = shop.declined("o-1")
    for _ in range(2):
        verb(hub_wide, run, "mark-compensated", "m", step="inventory", reason="put back by hand")
        verb(hub_wide, run, "close", "c", reason="enough")
    verb(hub_wide, run, "close", "d", reason="two\x1blines")

    entries = list(
        Entry.objects.exclude(action="apikey.create")
        .order_by("id")
        .values_list("action", "actor", "via", "object_id", "reason")
    )
    assert entries == [
        ("workflow.mark_compensated", "API key everything", "api", run.pk, "put back by hand"),
        ("workflow.close", "API key everything", "api", run.pk, "enough"),
    ]


def test_the_integrity_check_accepts_redeliveries(hub_wide: Program):
    run = shop.waiting_for_payment("o-1")
    arrived = shop.delivery("o-1", "inventory.reserved", "Completed", attempts=1)
    verb(hub_wide, run, "retry", "k", step="payment", reason="they lost it", delivery=arrived.pk)

    assert audit("generations", "requeued-by", "one-saga") == {}
