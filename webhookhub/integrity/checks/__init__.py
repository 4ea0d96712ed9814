"""All checks, in the order in which they run."""

from __future__ import annotations

from webhookhub.integrity.check import Check

from . import (
    attempts,
    customers,
    deadletters,
    deliveries,
    endpoints,
    processes,
    ready_work,
    references,
    requests,
    schema,
    workflows,
)

ALL: tuple[Check, ...] = (
    *schema.CHECKS,
    *deliveries.CHECKS,
    *customers.CHECKS,
    *endpoints.CHECKS,
    *attempts.CHECKS,
    *deadletters.CHECKS,
    *requests.CHECKS,
    *references.CHECKS,
    *workflows.CHECKS,
    *ready_work.CHECKS,
    *processes.CHECKS,
)
