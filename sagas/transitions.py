"""The states of a delivery and the legal ways between them, as one table.

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

# from → to: what makes it happen. The specification's PendingRetry → DeadLettered is taken in the same write
# as InProgress → PendingRetry when the limit is reached, so that no saga rests in between.
LEGAL = {
    (PENDING, IN_PROGRESS): "first job created",
    (IN_PROGRESS, COMPLETED): "job succeeded",
    (IN_PROGRESS, PENDING_RETRY): "job failed, attempts left",
    (PENDING_RETRY, IN_PROGRESS): "retry due, next job created",
    (IN_PROGRESS, DEAD_LETTERED): "job failed, limit reached",
}


def is_legal(before: str, after: str) -> bool:
    return (before, after) in LEGAL


def diagram() -> str:
    """The table as a Mermaid state diagram."""
    lines = ["stateDiagram-v2", f"    [*] --> {PENDING}"]
    lines += [f"    {before} --> {after}: {why}" for (before, after), why in LEGAL.items()]
    lines += [f"    {status} --> [*]" for status in TERMINAL]
    return "\n".join(lines)


if __name__ == "__main__":
    print(diagram())  # noqa: T201
