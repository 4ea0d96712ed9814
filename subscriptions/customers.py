"""Create, change and disable customers, and know which exist."""

from __future__ import annotations

import re
from collections.abc import Collection, Set
from typing import NamedTuple

from django.db import connection, transaction

from webhookhub.auditlog import actions
from webhookhub.auditlog.record import changes, record
from webhookhub.conf import hub
from webhookhub.db import clock
from webhookhub.db.bulk import insert_new
from webhookhub.db.compiled import CompiledSelect
from webhookhub.db.retry import in_transaction
from webhookhub.ids import new_uid
from webhookhub.logs import Log, log
from webhookhub.validators import clean_reason, first_forbidden, forbidden_message

from .models import Customer

KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:@+-]{0,99}\Z")
INVALID = "must have 1 to 100 letters, digits and the signs _ . : @ + -, and begin with a letter or a digit"
NAME_LENGTH = 200
# Known customers that a process remembers. A customer is never deleted, so what is remembered stays true.
MAX_KNOWN = 100_000
_known: set[str] = set()


class InvalidCustomer(ValueError):
    """A field is invalid; nothing was stored."""

    def __init__(self, field: str, why: str) -> None:
        super().__init__(f"{field} {why}")
        self.field = field
        self.why = why


class Put(NamedTuple):
    customer: Customer
    created: bool


def is_valid(key: str) -> bool:
    return KEY.match(key) is not None


def find(key: str) -> Customer | None:
    return Customer.objects.filter(customer_key=key).first() if is_valid(key) else None


def put(key: str, name: str | None = None) -> Put:
    """Create the customer with this key, or set its name if one is given. Repeating it changes nothing."""
    if not is_valid(key):
        raise InvalidCustomer("key", INVALID)
    if name is not None:
        _check_name(name)
    return in_transaction(lambda: _put(key, name))


def _put(key: str, name: str | None) -> Put:
    created = insert_new(Customer, [_row(key, name or "")], key=("customer_key",), look_first=True) == 1
    customer = Customer.objects.select_for_update().get(customer_key=key)
    if created:
        record(actions.CREATE_CUSTOMER, customer, name=key, details={"name": customer.name} if customer.name else {})
    elif name is not None and name != customer.name:
        details = changes({"name": customer.name}, {"name": name})
        customer.name, customer.updated_at = name, clock.now()
        customer.save(update_fields=["name", "updated_at"])
        record(actions.EDIT_CUSTOMER, customer, name=key, details=details)
    return Put(customer, created)


def disable(customer: Customer, *, reason: str) -> bool:
    """Its subscriptions get no deliveries from now on; open ones wait. Events are still stored.

    False if it was disabled before. Raises InvalidReason.
    """
    return _switch(customer, on=False, reason=reason)


def enable(customer: Customer, *, reason: str) -> bool:
    """False if it is not disabled. Raises InvalidReason."""
    return _switch(customer, on=True, reason=reason)


def _switch(customer: Customer, *, on: bool, reason: str) -> bool:
    reason = clean_reason(reason)

    def store() -> bool:
        now = clock.now()
        rows = Customer.objects.filter(pk=customer.pk, disabled_at__isnull=not on)
        # A trigger copies it to the customer's subscriptions.
        if not rows.update(disabled_at=None if on else now, updated_at=now):
            return False
        action = actions.ENABLE_CUSTOMER if on else actions.DISABLE_CUSTOMER
        record(action, customer, name=str(customer), reason=reason)
        return True

    switched = in_transaction(store)
    customer.refresh_from_db()
    if switched:
        log(Log.CUSTOMER_ENABLED if on else Log.CUSTOMER_DISABLED, customer=customer.customer_key)
    return switched


def unknown(keys: Collection[str]) -> Set[str]:
    """Those of these keys that belong to no customer. With WEBHOOKHUB_CREATE_CUSTOMERS, they are created."""
    if not (new := set(keys) - _known):
        return frozenset()
    missing = new - _stored(new)
    if missing and hub().create_customers:
        insert_new(Customer, [_row(key, "") for key in sorted(missing)], key=("customer_key",))
        log(Log.CUSTOMERS_CREATED, count=len(missing))
        missing = set()
    # A transaction that is open may be rolled back.
    if not connection.in_atomic_block:
        if len(_known) + len(new) > MAX_KNOWN:
            _known.clear()
        _known.update(new - missing)
    return missing


def lock_enabled(key: str) -> bool:
    """Whether the customer exists and is not disabled. It stays so until the transaction ends."""
    assert transaction.get_connection().in_atomic_block
    rows = Customer.objects.select_for_update().filter(customer_key=key)
    return any(customer.disabled_at is None for customer in rows)


_keys = CompiledSelect(lambda keys: Customer.objects.filter(customer_key__in=keys).values_list("customer_key"))


def _stored(keys: Collection[str]) -> set[str]:
    return {key for (key,) in _keys(keys=sorted(keys))}


def _row(key: str, name: str) -> dict[str, object]:
    return {"uid": new_uid(), "customer_key": key, "name": name}


def _check_name(name: str) -> None:
    if len(name) > NAME_LENGTH:
        raise InvalidCustomer("name", f"must have at most {NAME_LENGTH} characters")
    if code := first_forbidden(name):
        raise InvalidCustomer("name", forbidden_message(code))
