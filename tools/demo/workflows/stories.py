"""What happens in the shop, and how each case must end: in the hub's eyes and in the services' own books."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .hub import Hub
from .shop import CANCELLATION, DECLINED, GOOD, REGISTRATION, SILENT, SLOW, SUBMISSION, Shop
from .waiting import until

COMPLETED, COMPENSATED = "COMPLETED", "COMPENSATED"
DELIVERED_TO = "order inventory payment shipping"


@dataclass(frozen=True)
class Story:
    """`holds`: the services whose books the case must stand in at the end, and no others."""

    title: str
    case: str
    saga_type: str
    begin: Callable[[Shop, Hub], None]
    status: str
    holds: str
    anomaly: bool = False


def late_success(shop: Shop, hub: Hub) -> None:
    """The bank answers when everybody has given up: the hub has timed the saga out, and the shop called it off."""
    shop.orders.submit("order-4", SLOW)
    until(lambda: status(hub, "order-4", SUBMISSION) == COMPENSATED, "order-4 is timed out and compensated")
    until(lambda: "order-4" in shop.shipping.called_off, "shipping has heard that order-4 is off")
    shop.payment.bank_answers.set()


def cancellation(shop: Shop, hub: Hub) -> None:
    """First it goes through, and then the customer thinks better of it."""
    shop.orders.submit("order-5", GOOD)
    until(lambda: status(hub, "order-5", SUBMISSION) == COMPLETED, "order-5 goes through")
    shop.orders.cancel("order-5")


STORIES = [
    Story(
        "an order goes through",
        "order-1",
        SUBMISSION,
        lambda shop, hub: shop.orders.submit("order-1", GOOD),
        COMPLETED,
        DELIVERED_TO,
    ),
    Story(
        "the payment fails",
        "order-2",
        SUBMISSION,
        lambda shop, hub: shop.orders.submit("order-2", DECLINED),
        COMPENSATED,
        "none",
    ),
    Story(
        "the payment service is silent",
        "order-3",
        SUBMISSION,
        lambda shop, hub: shop.orders.submit("order-3", SILENT),
        COMPENSATED,
        "none",
    ),
    Story("the payment succeeds too late", "order-4", SUBMISSION, late_success, COMPENSATED, "none", anomaly=True),
    Story("an order is cancelled", "order-5", CANCELLATION, cancellation, COMPLETED, "email"),
    Story(
        "a customer registers",
        "customer-6",
        REGISTRATION,
        lambda shop, hub: shop.customers.register("customer-6"),
        COMPLETED,
        "customer email loyalty",
    ),
]


def status(hub: Hub, case: str, saga_type: str) -> str | None:
    found = hub.sagas_of(case, saga_type)
    return str(found[0]["status"]) if found else None
