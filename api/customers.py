"""Customers: the owners of subscriptions. A key of a customer sees that customer only."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest
from ninja import Query, Status

from subscriptions import customers
from subscriptions.models import Customer
from webhookhub.validators import InvalidReason

from . import pagination, parsing, problems
from .auth import ApiKeyAuth, caller_of
from .resource import Resource
from .schemas.customers import CustomerFilters, CustomerIn, CustomerOut, Customers, SwitchIn
from .scopes import CUSTOMERS_WRITE, READ

LIST = "customers"
resource = Resource(
    "Customers",
    read=ApiKeyAuth(READ, hub_wide="customers", of_customers=True),
    write=ApiKeyAuth(CUSTOMERS_WRITE, hub_wide="customers"),
)


@resource.get("", Customers, "List customers")
def list_customers(request: HttpRequest, filters: Query[CustomerFilters]) -> Customers:
    pagination.require_known(request, CustomerFilters)
    only = caller_of(request).key.only_customer
    conditions = {**filters.conditions, "only": only}
    position = pagination.read(LIST, conditions, filters.cursor)
    rows = Customer.objects.order_by("id")
    if only is not None:
        rows = rows.filter(customer_key=only)
    if filters.disabled is not None:
        rows = rows.filter(disabled_at__isnull=not filters.disabled)
    if position is not None:
        rows = rows.filter(id__gt=position[0])
    page = pagination.page(lambda limit: rows[:limit], filters.limit)
    next_cursor = pagination.sign(LIST, conditions, [page.last.id]) if page.last else None
    return Customers(items=[CustomerOut.model_validate(row) for row in page.rows], next=next_cursor)


@resource.put(
    "/{key}",
    {200: CustomerOut, 201: CustomerOut},
    "Create a customer, or change its name",
    body=CustomerIn,
    body_required=False,
)
def put(request: HttpRequest, key: str) -> Status[CustomerOut]:
    """201: the customer is new. Repeating the request changes nothing."""
    body = parsing.read_if_given(request, CustomerIn)
    try:
        result = customers.put(key, body.name)
    except customers.InvalidCustomer as error:
        raise problems.invalid(error.field, error.why) from None
    return Status(201 if result.created else 200, CustomerOut.model_validate(result.customer))


@resource.get("/{key}", CustomerOut, "Show a customer", 404)
def show(request: HttpRequest, key: str) -> CustomerOut:
    return CustomerOut.model_validate(_customer(request, key))


@resource.post("/{key}/disable", CustomerOut, "Disable a customer", 404, body=SwitchIn)
def disable(request: HttpRequest, key: str) -> CustomerOut:
    """Its subscriptions get no deliveries until it is enabled; open deliveries wait. Its events are still stored."""
    return _switched(request, key, customers.disable)


@resource.post("/{key}/enable", CustomerOut, "Enable a disabled customer", 404, body=SwitchIn)
def enable(request: HttpRequest, key: str) -> CustomerOut:
    """Open deliveries go on. To deliver the events of the meantime, backfill its subscriptions."""
    return _switched(request, key, customers.enable)


def _switched(request: HttpRequest, key: str, switch: Callable[..., bool]) -> CustomerOut:
    body = parsing.read(request, SwitchIn)
    customer = _customer(request, key)
    try:
        switch(customer, reason=body.reason)
    except InvalidReason as error:
        raise problems.invalid("reason", error.why) from None
    return CustomerOut.model_validate(customer)


def _customer(request: HttpRequest, key: str) -> Customer:
    customer = customers.find(key)
    if customer is None or caller_of(request).key.only_customer not in (None, key):
        raise problems.not_found("This customer does not exist.")
    return customer
