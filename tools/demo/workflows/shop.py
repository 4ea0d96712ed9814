"""The shop's seven services. Each knows the events it reacts to and its own books, and nothing of the others.

What a customer's card is like decides how the payment service behaves: that is how a story is made to go wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from threading import Event

from .hub import Hub
from .service import Data, Reaction, Said, Service

SUBMISSION, CANCELLATION, REGISTRATION = "order_submission", "order_cancellation", "customer_registration"
UNDO = "saga.compensation_requested"
GOOD, DECLINED, SILENT, SLOW = "good", "declined", "silent", "slow"
LONGEST_SECONDS = 120.0


class Step(Service):
    """A service that can undo what it has done; `books` are the cases that are done and not undone."""

    # (saga, step): what it says when it has undone that
    undoes: Mapping[tuple[str, str], str] = {}

    def __init__(self, hub: Hub, key: str, certificate: Path) -> None:
        super().__init__(hub, key, certificate)
        self.books: set[str] = set()

    def undo(self, data: Data) -> Iterable[Said]:
        """The hub asks everybody, and means the service that did the step."""
        undone = self.undoes.get((data["saga_type"], data["step"]))
        if undone is not None:
            self.books.discard(data["aggregate_id"])
            yield Said(undone)


class Orders(Step):
    name = "order"
    undoes = {(SUBMISSION, "order"): "order.failed", (CANCELLATION, "order"): "order.restored"}

    @property
    def reactions(self) -> dict[str, Reaction]:
        return {"shipping.arranged": self._confirm, UNDO: self.undo}

    def submit(self, order: str, card: str) -> None:
        self.books.add(order)
        self.say("order.submitted", {"order_id": order, "card": card, "correlation_id": order})

    def cancel(self, order: str) -> None:
        self.books.discard(order)
        self.say("order.cancelled", {"order_id": order, "correlation_id": f"cancellation-{order}"})

    def _confirm(self, data: Data) -> Iterable[Said]:
        yield Said("order.confirmed")


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

    def _reserve(self, data: Data) -> Iterable[Said]:
        self.books.add(data["order_id"])
        yield Said("inventory.reserved")

    def _take_back(self, data: Data) -> Iterable[Said]:
        self.books.discard(data["order_id"])
        yield Said("inventory.restocked")


class Payment(Step):
    name = "payment"
    undoes = {(SUBMISSION, "payment"): "payment.reversed", (CANCELLATION, "refund"): "refund.reversed"}

    def __init__(self, hub: Hub, key: str, certificate: Path) -> None:
        super().__init__(hub, key, certificate)
        self.bank_answers = Event()  # what a slow card waits for

    @property
    def reactions(self) -> dict[str, Reaction]:
        return {
            "inventory.reserved": self._charge,
            "order.cancelled": self._give_back,
            UNDO: self.undo,
        }

    def _charge(self, data: Data) -> Iterable[Said]:
        card = data["card"]
        if card == DECLINED:
            yield Said("payment.failed", {"reason": "the card was declined"})
        elif card != SILENT:  # that one is taken in and lost: only a time-out can tell
            if card == SLOW:
                self.bank_answers.wait(LONGEST_SECONDS)
            self.books.add(data["order_id"])
            yield Said("payment.processed")

    def _give_back(self, data: Data) -> Iterable[Said]:
        self.books.discard(data["order_id"])
        yield Said("refund.issued")


class Shipping(Step):
    name = "shipping"
    undoes = {(SUBMISSION, "shipping"): "shipping.cancelled"}

    def __init__(self, hub: Hub, key: str, certificate: Path) -> None:
        super().__init__(hub, key, certificate)
        self.called_off: set[str] = set()

    @property
    def reactions(self) -> dict[str, Reaction]:
        return {
            "payment.processed": self._arrange,
            "order.cancelled": self._stop,
            "saga.timed_out": self._call_off,
            UNDO: self.undo,
        }

    def _call_off(self, data: Data) -> Iterable[Said]:
        self.called_off.add(data["aggregate_id"])
        return ()

    def _stop(self, data: Data) -> Iterable[Said]:
        self.books.discard(data["order_id"])
        return ()

    def _arrange(self, data: Data) -> Iterable[Said]:
        # A payment that comes after the time-out sends nothing on its way any more.
        if data["order_id"] not in self.called_off:
            self.books.add(data["order_id"])
            yield Said("shipping.arranged")


class Customers(Step):
    name = "customer"
    undoes = {(REGISTRATION, "customer"): "customer.deleted"}

    @property
    def reactions(self) -> dict[str, Reaction]:
        return {UNDO: self.undo}

    def register(self, customer: str) -> None:
        self.books.add(customer)
        self.say("customer.registered", {"customer_id": customer, "correlation_id": customer})


class Email(Step):
    name = "email"

    @property
    def reactions(self) -> dict[str, Reaction]:
        return {"customer.registered": self._welcome, "inventory.restocked": self._tell_of_cancellation}

    def _welcome(self, data: Data) -> Iterable[Said]:
        self.books.add(data["customer_id"])
        yield Said("email.sent")

    def _tell_of_cancellation(self, data: Data) -> Iterable[Said]:
        self.books.add(data["order_id"])
        yield Said("customer.notified")


class Loyalty(Step):
    name = "loyalty"
    undoes = {(REGISTRATION, "loyalty"): "loyalty.account_deleted"}

    @property
    def reactions(self) -> dict[str, Reaction]:
        return {"email.sent": self._open_account, UNDO: self.undo}

    def _open_account(self, data: Data) -> Iterable[Said]:
        self.books.add(data["customer_id"])
        yield Said("loyalty.account_created")


class Shop:
    """All of them, as the stories call them."""

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
        """The services in whose books a case stands, in words."""
        return " ".join(service.name for service in self.services if case in service.books) or "none"


NAMES = [kind.name for kind in (Orders, Inventory, Payment, Shipping, Customers, Email, Loyalty)]
