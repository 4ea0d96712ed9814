"""The shop's seven services. Each knows its own records and the events it reacts to, but no other service.

The customer's card determines how the payment service behaves, and so how a scenario fails.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from threading import Event

from .hub import Hub
from .service import Data, Published, Reaction, Service

SUBMISSION, CANCELLATION, REGISTRATION = "order_submission", "order_cancellation", "customer_registration"
UNDO = "saga.compensation_requested"
GOOD, DECLINED, SILENT, SLOW = "good", "declined", "silent", "slow"
LONGEST_SECONDS = 120.0


class Step(Service):
    """A service that can undo its step; `records` are the cases that are done and not undone."""

    # (workflow, step): the event to publish after undoing it
    undoes: Mapping[tuple[str, str], str] = {}

    def __init__(self, hub: Hub, key: str, certificate: Path) -> None:
        super().__init__(hub, key, certificate)
        self.records: set[str] = set()

    def undo(self, data: Data) -> Iterable[Published]:
        """The hub asks all services; the one that did the step undoes it."""
        undone = self.undoes.get((data["saga_type"], data["step"]))
        if undone is not None:
            self.records.discard(data["aggregate_id"])
            yield Published(undone)


class Orders(Step):
    name = "order"
    undoes = {(SUBMISSION, "order"): "order.failed", (CANCELLATION, "order"): "order.restored"}

    @property
    def reactions(self) -> dict[str, Reaction]:
        return {"shipping.arranged": self._confirm, UNDO: self.undo}

    def submit(self, order: str, card: str) -> None:
        self.records.add(order)
        self.publish("order.submitted", {"order_id": order, "card": card, "correlation_id": order})

    def cancel(self, order: str) -> None:
        self.records.discard(order)
        self.publish("order.cancelled", {"order_id": order, "correlation_id": f"cancellation-{order}"})

    def _confirm(self, data: Data) -> Iterable[Published]:
        yield Published("order.confirmed")


class Inventory(Step):
    name = "inventory"
    undoes = {(SUBMISSION, "inventory"): "inventory.released"}

    @property
    def reactions(self) -> dict[str, Reaction]:
        return {
            "order.submitted": self._reserve,
            "refund.issued": self._take_back,
            UNDO: self.undo,
        }

    def _reserve(self, data: Data) -> Iterable[Published]:
        self.records.add(data["order_id"])
        yield Published("inventory.reserved")

    def _take_back(self, data: Data) -> Iterable[Published]:
        self.records.discard(data["order_id"])
        yield Published("inventory.restocked")


class Payment(Step):
    name = "payment"
    undoes = {(SUBMISSION, "payment"): "payment.reversed", (CANCELLATION, "refund"): "refund.reversed"}

    def __init__(self, hub: Hub, key: str, certificate: Path) -> None:
        super().__init__(hub, key, certificate)
        self.bank_responds = Event()  # a slow card waits for it

    @property
    def reactions(self) -> dict[str, Reaction]:
        return {
            "inventory.reserved": self._charge,
            "order.cancelled": self._refund,
            UNDO: self.undo,
        }

    def _charge(self, data: Data) -> Iterable[Published]:
        card = data["card"]
        if card == DECLINED:
            yield Published("payment.failed", {"reason": "the card was declined"})
        elif card != SILENT:  # for a silent card nothing is published, and the step times out
            if card == SLOW:
                self.bank_responds.wait(LONGEST_SECONDS)
            self.records.add(data["order_id"])
            yield Published("payment.processed")

    def _refund(self, data: Data) -> Iterable[Published]:
        self.records.discard(data["order_id"])
        yield Published("refund.issued")


class Shipping(Step):
    name = "shipping"
    undoes = {(SUBMISSION, "shipping"): "shipping.cancelled"}

    def __init__(self, hub: Hub, key: str, certificate: Path) -> None:
        super().__init__(hub, key, certificate)
        self.timed_out: set[str] = set()

    @property
    def reactions(self) -> dict[str, Reaction]:
        return {
            "payment.processed": self._arrange,
            "order.cancelled": self._stop,
            "saga.timed_out": self._stop_timed_out,
            UNDO: self.undo,
        }

    def _stop_timed_out(self, data: Data) -> Iterable[Published]:
        self.timed_out.add(data["aggregate_id"])
        return ()

    def _stop(self, data: Data) -> Iterable[Published]:
        self.records.discard(data["order_id"])
        return ()

    def _arrange(self, data: Data) -> Iterable[Published]:
        # Do not ship an order whose payment arrives after the timeout.
        if data["order_id"] not in self.timed_out:
            self.records.add(data["order_id"])
            yield Published("shipping.arranged")


class Customers(Step):
    name = "customer"
    undoes = {(REGISTRATION, "customer"): "customer.deleted"}

    @property
    def reactions(self) -> dict[str, Reaction]:
        return {UNDO: self.undo}

    def register(self, customer: str) -> None:
        self.records.add(customer)
        self.publish("customer.registered", {"customer_id": customer, "correlation_id": customer})


class Email(Step):
    name = "email"

    @property
    def reactions(self) -> dict[str, Reaction]:
        return {"customer.registered": self._welcome, "inventory.restocked": self._confirm_cancellation}

    def _welcome(self, data: Data) -> Iterable[Published]:
        self.records.add(data["customer_id"])
        yield Published("email.sent")

    def _confirm_cancellation(self, data: Data) -> Iterable[Published]:
        self.records.add(data["order_id"])
        yield Published("customer.notified")


class Loyalty(Step):
    name = "loyalty"
    undoes = {(REGISTRATION, "loyalty"): "loyalty.account_deleted"}

    @property
    def reactions(self) -> dict[str, Reaction]:
        return {"email.sent": self._open_account, UNDO: self.undo}

    def _open_account(self, data: Data) -> Iterable[Published]:
        self.records.add(data["customer_id"])
        yield Published("loyalty.account_created")


class Shop:
    """All services."""

    def __init__(self, hub: Hub, keys: dict[str, str], certificate: Path) -> None:
        self.orders = Orders(hub, keys[Orders.name], certificate)
        self.inventory = Inventory(hub, keys[Inventory.name], certificate)
        self.payment = Payment(hub, keys[Payment.name], certificate)
        self.shipping = Shipping(hub, keys[Shipping.name], certificate)
        self.customers = Customers(hub, keys[Customers.name], certificate)
        self.email = Email(hub, keys[Email.name], certificate)
        self.loyalty = Loyalty(hub, keys[Loyalty.name], certificate)

    @property
    def services(self) -> list[Step]:
        order: list[Step] = [self.orders, self.inventory, self.payment, self.shipping]
        return [*order, self.customers, self.email, self.loyalty]

    def holds(self, case: str) -> str:
        """The names of the services that have recorded a case."""
        return " ".join(service.name for service in self.services if case in service.records) or "none"


NAMES = [kind.name for kind in (Orders, Inventory, Payment, Shipping, Customers, Email, Loyalty)]
