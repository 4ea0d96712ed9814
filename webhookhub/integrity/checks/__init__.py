"""Every invariant there is, in the order in which they are looked at."""

from __future__ import annotations

from webhookhub.integrity.check import Check

from . import attempts, deadletters, generations, jobs, processes, references, routing, schema, workflows

ALL: tuple[Check, ...] = (
    *schema.CHECKS,
    *routing.CHECKS,
    *generations.CHECKS,
    *attempts.CHECKS,
    *jobs.CHECKS,
    *deadletters.CHECKS,
    *references.CHECKS,
    *workflows.CHECKS,
    *processes.CHECKS,
)
