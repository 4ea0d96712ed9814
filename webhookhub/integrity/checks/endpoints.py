"""Subscriptions and their endpoints agree, and an event goes to an endpoint once."""

from __future__ import annotations

from django.db import connection

from subscriptions.endpoint_models import SETTINGS
from webhookhub.db import vendors
from webhookhub.integrity.check import Bounds, RowCheck
from webhookhub.integrity.tables import SAGAS, SUBSCRIPTIONS


def _same(bounds: Bounds) -> dict[str, str]:
    columns = (*SETTINGS, "customer_key")
    same = " AND ".join(vendors.same_bytes(connection, f"u.{name}", f"p.{name}") for name in columns)
    return {"same": f"({same})"}


CHECKS = (
    RowCheck(
        name="endpoint-settings",
        invariant="A subscription has the customer and the settings of its endpoint; a deleted one is not active.",
        table=SUBSCRIPTIONS,
        sql="""
            SELECT u.id, COALESCE(u.endpoint_id, 0) AS endpoint, CASE WHEN p.id IS NULL THEN 'does not exist'
                WHEN u.deleted_at IS NULL THEN 'has other settings' ELSE 'has an active deleted subscription' END AS how
            FROM {table} LEFT JOIN endpoints p {endpoint_by_id} ON p.id = u.endpoint_id
            WHERE {in_batch} AND (p.id IS NULL OR u.deleted_at IS NULL AND NOT {same}
                OR u.deleted_at IS NOT NULL AND u.active = 1)
        """,
        message="endpoint {endpoint} {how}",
        terms=_same,
    ),
    RowCheck(
        name="saga-endpoints",
        invariant="A routed saga has the endpoint that its subscription had.",
        table=SAGAS,
        # A subscription that was changed by itself has got a newer endpoint.
        sql="""
            SELECT s.id, s.endpoint_id, u.endpoint_id AS of_subscription
            FROM {table} {join} subscriptions u {subscription_by_id} ON u.id = s.subscription_id
            {join} endpoints p {endpoint_by_id} ON p.id = u.endpoint_id
            WHERE {in_batch} AND s.generation = 0 AND s.endpoint_id <> u.endpoint_id AND p.created_at < s.created_at
        """,
        message="endpoint {endpoint_id}, its subscription: {of_subscription}",
    ),
)
