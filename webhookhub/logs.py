"""Structured logs: a message and its fields.

JSON lines for machines, aligned text on a terminal. Fields contain ids, codes and durations; never payloads, secrets,
header values or query strings.
"""

from __future__ import annotations

import logging
import sys
from enum import Enum
from typing import Any

import structlog
from django.core.exceptions import BadRequest


class Log(Enum):
    """Every log message, with its level."""

    EVENT_PUBLISHED = ("event_published", logging.INFO)
    EVENT_DUPLICATE = ("event_duplicate", logging.INFO)
    EVENT_ROUTED = ("event_routed", logging.INFO)
    EVENT_UNMATCHED = ("event_unmatched", logging.INFO)
    SUBSCRIPTION_VERIFIED = ("subscription_verified", logging.INFO)
    SUBSCRIPTION_VERIFICATION_FAILED = ("subscription_verification_failed", logging.WARNING)
    SECRET_ROTATED = ("secret_rotated", logging.INFO)
    SAGA_DISPATCHED = ("saga_dispatched", logging.INFO)
    DELIVERIES_PARKED = ("deliveries_parked", logging.INFO)
    ENDPOINT_BREAKER_OPENED = ("endpoint_breaker_opened", logging.WARNING)
    ENDPOINT_BREAKER_CLOSED = ("endpoint_breaker_closed", logging.INFO)
    ENDPOINT_FAILING = ("endpoint_failing", logging.WARNING)
    ENDPOINT_RECOVERED = ("endpoint_recovered", logging.INFO)
    ENDPOINT_DISABLED = ("endpoint_disabled", logging.WARNING)
    ENDPOINT_ENABLED = ("endpoint_enabled", logging.INFO)
    ENDPOINT_DELETED = ("endpoint_deleted", logging.INFO)
    ENDPOINT_VOUCHED = ("endpoint_vouched", logging.INFO)
    SAGA_COMPLETED = ("saga_completed", logging.INFO)
    SAGA_RETRY_SCHEDULED = ("saga_retry_scheduled", logging.INFO)
    SAGA_DEAD_LETTERED = ("saga_dead_lettered", logging.WARNING)
    SAGA_REQUEUED = ("saga_requeued", logging.INFO)
    REQUEST_CREATED = ("request_created", logging.INFO)
    REQUEST_APPLIED = ("request_applied", logging.INFO)
    CUSTOMERS_CREATED = ("customers_created", logging.INFO)
    CUSTOMER_DISABLED = ("customer_disabled", logging.INFO)
    CUSTOMER_ENABLED = ("customer_enabled", logging.INFO)
    REQUEST_INVALID = ("request_invalid", logging.ERROR)
    EVENT_TYPE_INVALID = ("event_type_invalid", logging.ERROR)
    LOGGED_IN = ("logged_in", logging.INFO)
    LOG_IN_FAILED = ("log_in_failed", logging.WARNING)
    PROXY_UNTRUSTED = ("proxy_untrusted", logging.WARNING)
    SESSION_ENDED = ("session_ended", logging.INFO)
    API_KEY_CREATED = ("api_key_created", logging.INFO)
    API_KEY_REVOKED = ("api_key_revoked", logging.INFO)
    API_KEY_REFUSED = ("api_key_refused", logging.WARNING)
    API_KEY_EXPIRES = ("api_key_expires", logging.WARNING)
    API_FAILED = ("api_failed", logging.ERROR)
    JOB_LEASED = ("job_leased", logging.INFO)
    JOB_REPORTED = ("job_reported", logging.INFO)
    JOB_RELEASED = ("job_released", logging.DEBUG)
    JOB_LEASE_RESET = ("job_lease_reset", logging.WARNING)
    LEASE_LOST = ("lease_lost", logging.WARNING)
    DNS_LOOKUP_FAILED = ("dns_lookup_failed", logging.WARNING)
    PROXY_FAILED = ("proxy_failed", logging.WARNING)
    WORKFLOW_ADVANCED = ("workflow_advanced", logging.INFO)
    WORKFLOW_STEP_CHANGED = ("workflow_step_changed", logging.INFO)
    WORKFLOW_ENDED = ("workflow_ended", logging.INFO)
    WORKFLOW_FAILED = ("workflow_failed", logging.WARNING)
    WORKFLOW_TIMED_OUT = ("workflow_timed_out", logging.WARNING)
    WORKFLOW_NEEDS_OPERATOR = ("workflow_needs_operator", logging.WARNING)
    WORKFLOW_OPERATOR_ACTED = ("workflow_operator_acted", logging.INFO)
    WORKFLOW_DEFINITION_OUTDATED = ("workflow_definition_outdated", logging.WARNING)
    WORKFLOW_DEFINITION_INVALID = ("workflow_definition_invalid", logging.ERROR)
    WORKFLOW_RUN_INVALID = ("workflow_run_invalid", logging.ERROR)
    WORKFLOW_EVENT_INVALID = ("workflow_event_invalid", logging.WARNING)
    WORKFLOW_EVENT_FORGED = ("workflow_event_forged", logging.ERROR)
    PROCESS_STARTED = ("process_started", logging.INFO)
    PROCESS_DRAINING = ("process_draining", logging.INFO)
    PROCESS_STOPPED = ("process_stopped", logging.INFO)
    PROCESS_FAILED = ("process_failed", logging.ERROR)
    PROCESS_EXPIRED = ("process_expired", logging.WARNING)
    PROCESS_RESTARTED = ("process_restarted", logging.WARNING)
    NOT_READY_YET = ("not_ready_yet", logging.INFO)
    NOT_READY = ("not_ready", logging.WARNING)
    DATABASE_CONFLICT = ("database_conflict", logging.INFO)
    DATABASE_DENIED = ("database_denied", logging.ERROR)
    DATABASE_LOST = ("database_lost", logging.WARNING)
    DATABASE_RECONNECTED = ("database_reconnected", logging.INFO)

    @property
    def level(self) -> int:
        return self.value[1]


# Django's loggers whose debug messages contain payloads and secrets.
VERBOSE = ("django.db.backends", "django.template")
# A list's URL with an unknown parameter gets a 400 response. Django would log it as an error, with the parameter and a
# traceback.
UNKNOWN_PARAMETERS = ("django.security.DisallowedModelAdminLookup", "django.security.DisallowedModelAdminToField")

_logger = structlog.stdlib.get_logger("webhookhub")
_levels = logging.getLogger("webhookhub")


def _without_traceback(record: logging.LogRecord) -> bool:
    """A filter that drops the traceback of a 4xx response and of a 503, which has a log entry of its own, and an error
    text that may contain the query string."""
    status: int = getattr(record, "status_code", 500)
    if (status < 500 or status == 503) and isinstance(record.exc_info, tuple):
        if isinstance(record.exc_info[1], BadRequest) and isinstance(record.args, tuple):
            record.msg, record.args = "Bad Request: %s", record.args[-1:]
        record.exc_info = None
    return True


def log(message: Log, **fields: Any) -> None:
    name, level = message.value
    if _levels.isEnabledFor(level):
        _logger.log(level, name, **fields)


def enabled(message: Log) -> bool:
    """Whether this message is logged: checked before a query that only the log needs."""
    return _levels.isEnabledFor(message.value[1])


def configure(level: str, form: str) -> None:
    """Sends structlog and Django's loggers to one handler on standard error; `form` is json, text or auto."""
    as_json = form == "json" or (form == "auto" and not sys.stderr.isatty())
    shared: list[Any] = [
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    renderer: list[Any] = (
        [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(default=str)]
        if as_json
        # The renderer's default traceback may show the values of variables, including secrets.
        else [
            structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback)
        ]
    )
    handler = logging.StreamHandler()
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderer],
            foreign_pre_chain=shared,
        )
    )
    handler.addFilter(_without_traceback)
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level)
    for name in VERBOSE:
        logging.getLogger(name).setLevel(max(root.level, logging.INFO))
    for name in UNKNOWN_PARAMETERS:
        logging.getLogger(name).setLevel(logging.CRITICAL)
