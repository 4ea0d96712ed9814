"""Events forged by SQL in the hub's name do not prevent real ones, and are detected."""

from __future__ import annotations

import json
from typing import Any

import pytest

from events.models import Event
from tests.factories import EventFactory
from tests.workflows import shop
from tests.workflows.lives import ORDER
from tests.workflows.support import catch_up, differences, instance, tell, tracked
from workflows import events, facts
from workflows.models import Fact, Instance, WorkflowInbox
from workflows.state import DONE, FAILURE, Effect

pytestmark = pytest.mark.django_db
REQUEST = Effect("saga.compensation_requested", "order")


def forge(external_id: str, kind: str = REQUEST.kind, case: str = "another", **payload: Any) -> Event:
    event: Any = EventFactory(
        source="hub", external_id=external_id, event_type=kind, correlation_id=case, payload=json.dumps(payload)
    )
    found: Event = event
    return found


def request_for(run: Instance, aggregate_id: str | None) -> dict[str, Any]:
    """The payload that the hub will publish when the inventory step fails."""
    return {
        "saga_id": str(run.saga_id),
        "saga_type": "order_submission",
        "version": 1,
        "correlation_id": run.correlation_key,
        "aggregate_id": aggregate_id,
        "step": "order",
        "reason": "no stock",
    }


def fail(key: str) -> None:
    tell(ORDER, ("inventory", FAILURE), key, reason="no stock", order_id=key)
    catch_up()


def requests(key: str) -> list[Event]:
    """The events that the run's facts name as the request."""
    noted = Fact.objects.filter(instance=instance(key), role="emitted", detail=REQUEST.kind)
    return [fact.event for fact in noted if fact.event is not None]


@pytest.fixture
def order() -> Any:
    tracked()
    tell(ORDER, ("order", DONE), "k-1", order_id="k-1")
    catch_up()
    return instance("k-1")


@pytest.mark.parametrize("kind", [REQUEST.kind, "saga.completed"])
def test_a_forged_event_does_not_prevent_the_real_one(order: Any, kind: str, caplog: pytest.LogCaptureFixture):
    forged = forge(events.external_id(order.saga_id, REQUEST), kind, saga_id=str(order.saga_id))
    fail("k-1")

    [request] = requests("k-1")
    assert request.id != forged.id
    assert json.loads(request.payload)["reason"] == "no stock"
    assert differences() == []
    assert "workflow_event_forged" in caplog.text


@pytest.mark.parametrize("with_aggregate", [True, False])
def test_a_forged_event_with_another_correlation_id_is_not_accepted(
    order: Any, with_aggregate: bool, caplog: pytest.LogCaptureFixture
):
    wanted = request_for(order, "k-1" if with_aggregate else None)
    forged = forge(events.external_id(order.saga_id, REQUEST), **wanted)
    assert forged.correlation_id != "k-1"
    fail("k-1")

    [request] = requests("k-1")
    assert request.id != forged.id
    assert (request.correlation_id, json.loads(request.payload)["aggregate_id"]) == ("k-1", "k-1")
    assert "workflow_event_forged" in caplog.text


def test_forging_both_external_ids_does_not_prevent_the_real_event(order: Any):
    wanted = request_for(order, "k-1")
    forge(events.external_id(order.saga_id, REQUEST))
    forge(events.alternative_external_id(order.saga_id, REQUEST, wanted))
    fail("k-1")

    [request] = requests("k-1")
    assert json.loads(request.payload) == wanted
    assert request.external_id is None


def test_the_real_event_is_published_once_despite_a_crash(order: Any, monkeypatch: pytest.MonkeyPatch):
    forge(events.external_id(order.saga_id, REQUEST))
    with monkeypatch.context() as patch:
        patch.setattr(facts, "note_published", lambda *given: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            fail("k-1")
    WorkflowInbox.objects.update(lease_until=None)
    catch_up()

    assert Event.objects.filter(event_type=REQUEST.kind).count() == 2, "the forged one and the real one"
    assert [json.loads(event.payload)["reason"] for event in requests("k-1")] == ["no stock"]


def test_an_event_published_before_the_aggregate_was_known_is_accepted(order: Any):
    tell(ORDER, ("order", DONE), "k-2", nothing="yet")
    catch_up()
    run = instance("k-2")
    before = forge(events.external_id(run.saga_id, REQUEST), case="k-2", **request_for(run, None))
    fail("k-2")

    assert requests("k-2") == [before]
    assert differences() == []


def test_replay_reports_an_event_that_disagrees_with_the_facts(order: Any):
    fail("k-1")
    forged = forge("forged", saga_id=str(order.saga_id), step="payment")
    facts.note_published([(order.pk, forged.id, Effect(REQUEST.kind, "payment"))], order.updated_at)

    [found] = differences()
    assert f"event {forged.id} is " in found
    assert "no stock" in found


def test_published_events_agree_with_the_facts_of_every_outcome():
    shop.completed("o-1")
    shop.failed("o-2")
    shop.declined("o-3")
    shop.order("o-3", "order.failed", "inventory.released")
    shop.order("o-3", "payment.processed")
    shop.declined("o-4")

    assert differences() == []
    assert Fact.objects.filter(role="emitted").count() >= 8
