"""The web server's second connection, which stores the events of the API with a database user of its own.

That user has the role `event_ingest_writer`, and the console's user needs no INSERT on events. Without the setting, the
usual connection stores them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.core.exceptions import ImproperlyConfigured
from django.db import DEFAULT_DB_ALIAS, connections

from webhookhub.conf import INGEST_DATABASE_URL

ALIAS = "ingest"
# Loops are notified by the names of the database; only the user and the password may differ.
SAME = ("ENGINE", "HOST", "PORT", "NAME")


def is_configured() -> bool:
    return ALIAS in connections.settings


@contextmanager
def ingest_connection() -> Iterator[None]:
    """Within it, this thread uses the connection for events. Not for use within a transaction."""
    if not is_configured():
        yield
        return
    usual = connections[DEFAULT_DB_ALIAS]
    connections[DEFAULT_DB_ALIAS] = connections[ALIAS]
    try:
        yield
    finally:
        connections[DEFAULT_DB_ALIAS] = usual


def require_same_database() -> None:
    """Raises ImproperlyConfigured unless events go to the hub's own database."""
    if not is_configured():
        return
    usual, own = connections.settings[DEFAULT_DB_ALIAS], connections.settings[ALIAS]
    if any(usual[part] != own[part] for part in SAME):
        raise ImproperlyConfigured(
            f"{INGEST_DATABASE_URL} must name the same host, port and database as DATABASE_URL; only the user and the "
            "password may differ"
        )
