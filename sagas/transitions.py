"""The statuses of a delivery and its legal transitions, as one table.

`python -m sagas.transitions` prints it as a diagram for the documentation.
"""

from __future__ import annotations

PENDING = "Pending"
IN_PROGRESS = "InProgress"
PENDING_RETRY = "PendingRetry"
COMPLETED = "Completed"
DEAD_LETTERED = "DeadLettered"

STATUSES = (PENDING, IN_PROGRESS, PENDING_RETRY, COMPLETED, DEAD_LETTERED)
WAITING = (PENDING, PENDING_RETRY)
TERMINAL = (COMPLETED, DEAD_LETTERED)

# (from, to): the cause. At the limit, the specification's InProgress → PendingRetry → DeadLettered is one write.
LEGAL = {
    (PENDING, IN_PROGRESS): "first job created",
    (IN_PROGRESS, COMPLETED): "job succeeded",
    (IN_PROGRESS, PENDING_RETRY): "job failed, attempts left",
    (PENDING_RETRY, IN_PROGRESS): "retry due, next job created",
    (IN_PROGRESS, DEAD_LETTERED): "job failed, limit reached",
}


def diagram() -> str:
    """The table as a Mermaid state diagram."""
    lines = ["stateDiagram-v2", f"    [*] --> {PENDING}"]
    lines += [f"    {before} --> {after}: {why}" for (before, after), why in LEGAL.items()]
    lines += [f"    {status} --> [*]" for status in TERMINAL]
    return "\n".join(lines)


if __name__ == "__main__":
    print(diagram())  # noqa: T201
