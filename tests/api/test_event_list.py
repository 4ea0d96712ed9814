"""`GET /events`: events by external id, customer, type, source and time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from api.scopes import READ
from subscriptions import customers
from tests.factories import EventFactory, SagaFactory
from webhookhub.db import clock

from .conftest import Program, iso

pytestmark = pytest.mark.django_db


@pytest.fixture
def uids(db: None) -> list[str]:
    """Five events, an hour apart, the oldest first."""
    for key in ("acme", "globex"):
        customers.put(key)
    rows = [
        ("order.created", "shop", "1", "acme"),
        ("order.created", "web", "1", "globex"),
        ("order.paid", "shop", "2", "acme"),
        ("order.created", "shop", None, ""),
        ("order.created", "shop", "4", "acme"),
    ]
    now = clock.now()
    return [
        str(
            EventFactory.create(
                event_type=event_type,
                source=source,
                external_id=external_id,
                customer_key=customer,
                created_at=now - timedelta(hours=len(rows) - number),
            ).uid
        )
        for number, (event_type, source, external_id, customer) in enumerate(rows)
    ]


def listed(program: Program, **parameters: Any) -> list[str]:
    found: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        response = program.get("/events", **parameters, **cursor)
        assert response.status_code == 200, response.content
        page = response.json()
        found += [item["uid"] for item in page["items"]]
        if page["next"] is None:
            return found
        cursor = {"cursor": page["next"]}


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({}, [4, 3, 2, 1, 0]),
        ({"external_id": "1"}, [1, 0]),
        ({"external_id": "1", "source": "web"}, [1]),
        ({"external_id": "1", "customer": "acme"}, [0]),
        ({"external_id": "none"}, []),
        ({"customer": "acme"}, [4, 2, 0]),
        ({"customer": "nobody"}, []),
        ({"event_type": "order.created"}, [4, 3, 1, 0]),
        ({"event_type": "order.created", "customer": "acme"}, [4, 0]),
        ({"source": "web"}, [1]),
    ],
)
@pytest.mark.parametrize("limit", [1, 50])
def test_events_are_found_newest_first(
    hub_wide: Program, uids: list[str], parameters: dict[str, str], expected: list[int], limit: int
):
    assert listed(hub_wide, **parameters, limit=limit) == [uids[number] for number in expected]


def test_events_are_found_by_time(hub_wide: Program, uids: list[str]):
    now = clock.now()
    since, until = iso(now - timedelta(hours=3, minutes=30)), iso(now - timedelta(hours=1, minutes=30))
    assert listed(hub_wide, since=since, until=until) == [uids[3], uids[2]]
    assert listed(hub_wide, since=since, customer="acme", limit=1) == [uids[4], uids[2]]


def test_an_item_has_everything_but_the_payload(hub_wide: Program, uids: list[str]):
    [item] = hub_wide.get("/events", external_id="2").json()["items"]
    assert item["uid"] == uids[2]
    assert (item["event_type"], item["source"], item["external_id"]) == ("order.paid", "shop", "2")
    assert item["customer"] == "acme"
    assert "payload" not in item
    [item] = hub_wide.get("/events", external_id="4").json()["items"]
    assert hub_wide.get(f"/events/{item['uid']}").json()["customer"] == "acme"


def test_an_unknown_parameter_is_refused(hub_wide: Program):
    assert hub_wide.get("/events", external="1").status_code == 422
    assert hub_wide.get("/events", customer="a b").status_code == 422


def test_a_bound_key_finds_only_its_own(program: Callable[..., Program], uids: list[str]):
    of_source = program("of source", READ, source="web")
    assert listed(of_source) == [uids[1]]
    assert listed(of_source, source="shop") == []
    assert listed(of_source, external_id="1") == [uids[1]]
    of_customer = program("of customer", READ, customer_key="acme")
    assert listed(of_customer, limit=1) == [uids[4], uids[2], uids[0]]
    assert listed(of_customer, customer="globex") == []
    assert listed(of_customer, external_id="1") == [uids[0]]
    cursor = of_customer.get("/events", limit=1).json()["next"]
    assert of_source.get("/events", limit=1, cursor=cursor).status_code == 422


def test_deliveries_are_found_by_external_id(hub_wide: Program, program: Callable[..., Program]):
    one = SagaFactory.create(event=EventFactory.create(source="shop", external_id="1"))
    two = SagaFactory.create(event=EventFactory.create(source="web", external_id="1"))
    assert hub_wide.ids("/deliveries", external_id="1") == [two.pk, one.pk]
    assert hub_wide.ids("/deliveries", external_id="1", event=str(one.event.uid)) == [one.pk]
    assert hub_wide.ids("/deliveries", external_id="2") == []
    assert program("shop", READ, source="shop").ids("/deliveries", external_id="1") == [one.pk]
