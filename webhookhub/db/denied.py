"""Statements that the database user may not run, because it lacks a privilege."""

from __future__ import annotations

from django.db import DatabaseError, connection

from webhookhub.conf import INGEST_DATABASE_URL
from webhookhub.logs import Log, log

from . import ingest, vendors
from .errors import Kind, kind_of
from .vendors import Denial

EVENTS = "events"
MAY_NOT_STORE = f"The hub is not permitted to store events. Its operator must set {INGEST_DATABASE_URL}."
MAY_NOT = "The hub's database user is not permitted to do this. Its operator must grant it its role; the log names it."


def log_denied(error: BaseException) -> str:
    """Logs who was denied what, in one line; returns a message without names for the client."""
    denial = vendors.denial(error)
    log(Log.DATABASE_DENIED, process="web", user=denial.user, statement=denial.statement, table=denial.table)
    return MAY_NOT_STORE if _stores_events(denial) and not ingest.is_configured() else MAY_NOT


def log_missing_ingest_user() -> None:
    """At the start of the web server: logs that its database user may not store events and has no help.

    Nothing if the database cannot be reached: the first request finds out.
    """
    if ingest.is_configured():
        return
    try:
        vendors.require_insertable(connection, EVENTS, "event_type")
    except DatabaseError as error:
        if kind_of(error) is Kind.DENIED:
            user = vendors.denial(error).user
            log(Log.DATABASE_DENIED, process="web", user=user, statement="INSERT", table=EVENTS, advice=MAY_NOT_STORE)
    finally:
        connection.close()


def _stores_events(denial: Denial) -> bool:
    return (denial.statement, denial.table) == ("INSERT", EVENTS)
