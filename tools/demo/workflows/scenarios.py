"""The scenarios, and how each must end: the status in the hub and the records of the services."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .hub import Hub
from .shop import CANCELLATION, DECLINED, GOOD, REGISTRATION, SILENT, SLOW, SUBMISSION, Shop
from .wait import wait_until

COMPLETED, COMPENSATED = "COMPLETED", "COMPENSATED"
DELIVERED_TO = "order inventory payment shipping"


@dataclass(frozen=True)
class Scenario:
    """`holds`: the services that must have recorded the case at the end; no others may."""

    title: str
    case: str
    saga_type: str
    start: Callable[[Shop, Hub], None]
    status: str
    holds: str
    anomaly: bool = False


def late_success(shop: Shop, hub: Hub) -> None:
    """The payment succeeds after the hub has timed the workflow out and the services have compensated it."""
    shop.orders.submit("order-4", SLOW)
    wait_until(lambda: status(hub, "order-4", SUBMISSION) == COMPENSATED, "order-4 is timed out and compensated")
    wait_until(lambda: "order-4" in shop.shipping.timed_out, "shipping has received the cancellation of order-4")
    shop.payment.bank_responds.set()


def cancellation(shop: Shop, hub: Hub) -> None:
    """The order completes, and then the customer cancels it."""
    shop.orders.submit("order-5", GOOD)
    wait_until(lambda: status(hub, "order-5", SUBMISSION) == COMPLETED, "order-5 completes")
    shop.orders.cancel("order-5")


SCENARIOS = [
    Scenario(
        "an order completes",
        "order-1",
        SUBMISSION,
        lambda shop, hub: shop.orders.submit("order-1", GOOD),
        COMPLETED,
        DELIVERED_TO,
    ),
    Scenario(
        "the payment fails",
        "order-2",
        SUBMISSION,
        lambda shop, hub: shop.orders.submit("order-2", DECLINED),
        COMPENSATED,
        "none",
    ),
    Scenario(
        "the payment service does not respond",
        "order-3",
        SUBMISSION,
        lambda shop, hub: shop.orders.submit("order-3", SILENT),
        COMPENSATED,
        "none",
    ),
    Scenario("the payment succeeds too late", "order-4", SUBMISSION, late_success, COMPENSATED, "none", anomaly=True),
    Scenario("an order is cancelled", "order-5", CANCELLATION, cancellation, COMPLETED, "email"),
    Scenario(
        "a customer registers",
        "customer-6",
        REGISTRATION,
        lambda shop, hub: shop.customers.register("customer-6"),
        COMPLETED,
        "customer email loyalty",
    ),
]


def status(hub: Hub, case: str, saga_type: str) -> str | None:
    runs = hub.workflow_runs(case, saga_type)
    return str(runs[0]["status"]) if runs else None
