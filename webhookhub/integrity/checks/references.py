"""Referenced rows exist. The database has no foreign key constraints: they would lock the referenced row."""

from __future__ import annotations

from webhookhub.integrity.check import RowCheck
from webhookhub.integrity.tables import JOBS, LETTERS, REQUEUES, SAGAS, Table

# By column: the referenced table, its alias, the index hint, and its name in a message.
REFERENCED = {
    "saga_id": ("webhook_delivery_sagas", "s", "{saga_by_id}", "saga"),
    "event_id": ("events", "e", "{event_by_id}", "event"),
    "subscription_id": ("subscriptions", "u", "{subscription_by_id}", "subscription"),
    "dead_letter_id": ("dead_letters", "d", "{letter_by_id}", "dead letter"),
}


def references(name: str, invariant: str, table: Table, *columns: str) -> RowCheck:
    """A check that the rows named by these columns exist."""
    joins, missing, messages = [], [], []
    for column in columns:
        referenced, alias, hint, noun = REFERENCED[column]
        joins.append(f"LEFT JOIN {referenced} {alias} {hint} ON {alias}.id = {table.alias}.{column}")
        missing.append(f"{alias}.id IS NULL")
        messages.append(f"no {noun} {{{column}}}")
    selected = ", ".join(f"{table.alias}.{column}" for column in ("id", *columns))
    return RowCheck(
        name=name,
        invariant=invariant,
        table=table,
        sql=f"SELECT {selected} FROM {{table}} {' '.join(joins)} WHERE {{in_batch}} AND ({' OR '.join(missing)})",  # noqa: S608
        message=f"there is {' or '.join(messages)}",
    )


CHECKS = (
    references("saga-references", "A saga's event and subscription exist.", SAGAS, "event_id", "subscription_id"),
    references("job-references", "A job's saga exists.", JOBS, "saga_id"),
    references(
        "dead-letter-references",
        "A dead letter's saga, event and subscription exist.",
        LETTERS,
        "saga_id",
        "event_id",
        "subscription_id",
    ),
    references("requeue-references", "A recorded requeue's dead letter exists.", REQUEUES, "dead_letter_id"),
)
