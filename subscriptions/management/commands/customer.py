import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from subscriptions import customers
from subscriptions.models import Customer
from webhookhub.validators import InvalidReason

LIST_LIMIT = 1000


class Command(BaseCommand):
    help = "Creates, lists, disables and enables customers."

    def add_arguments(self, parser: CommandParser) -> None:
        subparsers = parser.add_subparsers(dest="action", required=True, metavar="put|list|disable|enable")
        put = subparsers.add_parser("put", help="create a customer, or change its name; repeating it changes nothing")
        put.add_argument("key", help="your own key of the customer, such as acme")
        put.add_argument("--name", help="a name for people")
        listing = subparsers.add_parser("list", help=f"list the first {LIST_LIMIT} customers by key")
        listing.add_argument("--after", default="", metavar="KEY", help="list those after this key")
        disable = subparsers.add_parser("disable", help="stop the deliveries to its subscriptions; open ones wait")
        enable = subparsers.add_parser("enable", help="let its deliveries go on")
        for switch in (disable, enable):
            switch.add_argument("key")
            switch.add_argument("--reason", required=True, help="why; kept in the audit log")
        for subparser in (put, listing, disable, enable):
            subparser.add_argument("--json", action="store_true", help="print the result as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        getattr(self, f"_{options['action']}")(options)

    def _put(self, options: dict[str, Any]) -> None:
        try:
            result = customers.put(options["key"], options["name"])
        except customers.InvalidCustomer as error:
            raise CommandError(f"Nothing was stored: {error}.") from None
        self._print(options, result.customer, "is new" if result.created else "exists")

    def _list(self, options: dict[str, Any]) -> None:
        rows = Customer.objects.filter(customer_key__gt=options["after"]).order_by("customer_key")[:LIST_LIMIT]
        if options["json"]:
            self.stdout.write(json.dumps({"customers": [_described(row) for row in rows]}))
            return
        for row in rows:
            state = "  disabled" if row.disabled_at else ""
            self.stdout.write(f"{row.customer_key}{state}  {row.name}".rstrip())

    def _disable(self, options: dict[str, Any]) -> None:
        customer = _find(options["key"])
        done = _switched(customers.disable, customer, options["reason"])
        self._print(options, customer, "is disabled" if done else "was disabled before")

    def _enable(self, options: dict[str, Any]) -> None:
        customer = _find(options["key"])
        done = _switched(customers.enable, customer, options["reason"])
        self._print(options, customer, "is enabled" if done else "was not disabled")

    def _print(self, options: dict[str, Any], customer: Customer, what: str) -> None:
        text = json.dumps(_described(customer)) if options["json"] else f"Customer {customer.customer_key} {what}."
        self.stdout.write(text)


def _find(key: str) -> Customer:
    customer = customers.find(key)
    if customer is None:
        raise CommandError(f"There is no customer {key!r}; `customer list` shows all customers.")
    return customer


def _switched(switch: Any, customer: Customer, reason: str) -> bool:
    try:
        return bool(switch(customer, reason=reason))
    except InvalidReason as error:
        raise CommandError(f"Nothing was changed: {error}.") from None


def _described(customer: Customer) -> dict[str, Any]:
    return {
        "uid": str(customer.uid),
        "key": customer.customer_key,
        "name": customer.name,
        "disabled_at": customer.disabled_at and customer.disabled_at.isoformat(),
        "created_at": customer.created_at.isoformat(),
    }
