"""Rows of the tables that triggers protect, to be copied or changed by raw SQL with values that they refuse."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db import connection, transaction

from deadletters.models import Requeue
from sagas.models import Saga
from subscriptions.models import EndpointHealth, EndpointRate
from tests.factories import CustomerFactory, EventFactory, JobFactory, SagaFactory, SubscriptionFactory
from tests.support import legal_steps
from webhookhub.db import clock, vendors
from webhookhub.ids import new_token, new_uid


def execute(sql: str, parameters: list[Any]) -> int:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return int(cursor.rowcount)


def copied(table: str, pk: int, changes: dict[str, Any], insert: str = "INSERT") -> tuple[str, list[Any]]:
    """An INSERT of a stored row with other values."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {table} WHERE id = %s", [pk])
        row = dict(zip([column[0] for column in cursor.description], cursor.fetchone(), strict=True))
    row = {**row, **changes}
    for name in {"id", *vendors.generated_columns(connection, table)}:
        row.pop(name, None)
    return f"{insert} INTO {table} ({', '.join(row)}) VALUES ({', '.join(['%s'] * len(row))})", list(row.values())


def new_row(table: str) -> tuple[int, dict[str, Any]]:
    """A stored row, and the values with which its copy is accepted."""
    match table:
        case "events":
            return EventFactory.create().pk, {"uid": EventFactory.build().uid.hex}
        case "customers":
            return CustomerFactory.create().pk, {"uid": new_uid().hex, "customer_key": "another"}
        case "subscriptions":
            return SubscriptionFactory.create(verified=False).pk, {
                "endpoint_id": None,
                "callback_url": "https://example.com/other",
            }
        case "endpoints":
            return SubscriptionFactory.create(verified=False).endpoint_id, {"uid": new_uid().hex}
        case "webhook_delivery_sagas":
            return SagaFactory.create().pk, {"event_id": EventFactory.create().pk}
        case "webhook_delivery_jobs":
            return JobFactory.create(status="Pending").pk, {"saga_id": SagaFactory.create().pk}
        case "delivery_requests":
            marked = legal_steps.mark(SagaFactory.create())
            return marked.pk, {"uid": new_uid().hex, "request_token": "another"}
        case "dead_letter_requeues":
            first, other = (SagaFactory.create(status="DeadLettered").dead_letters.get() for _ in range(2))
            policy = {"max_retry_limit": 3, "base_delay": timedelta(seconds=1)}
            request = {"requested_by": "ada", "reason": "fixed", "request_token": new_token()}
            return Requeue.objects.create(dead_letter=first, **request, **policy).pk, {"dead_letter_id": other.pk}
        case "endpoint_rates":
            rate = EndpointRate.objects.create(callback_url="https://example.com/a", free_at=clock.now())
            return rate.pk, {"callback_url": "https://example.com/b"}
        case "endpoint_health":
            health = EndpointHealth.objects.create(
                callback_url="https://example.com/a", failing_since=clock.now(), last_error_code="http_500"
            )
            return health.pk, {"callback_url": "https://example.com/b"}
        case "dead_letters":
            ended: Saga = SagaFactory.create(status="DeadLettered")
            ending: Saga = SagaFactory.create(status="InProgress", attempt_count=2)
            JobFactory(saga=ending, attempt_no=3, status="Failed")
            keys = {"saga_id": ending.pk, "event_id": ending.event_id, "subscription_id": ending.subscription_id}
            return ended.dead_letters.get().pk, keys
        case _:
            raise ValueError(table)
