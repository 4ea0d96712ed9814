"""The orchestrator as a step of the shared loop: apply results, then give due sagas their next attempt."""

from __future__ import annotations

from django.db import connection

from jobs.models import Job
from jobs.states import FINISHED
from webhookhub.db.clock import UtcNow
from webhookhub.runner.step import Step

from .dispatch import dispatch
from .models import Saga
from .settle import Settler
from .transitions import WAITING


class Orchestrator(Step):
    def __init__(self) -> None:
        self._settler = Settler()
        self._lull = False

    def run(self, batch_size: int) -> int:
        # In a lull one short question takes the place of all those that a turn asks.
        if self._lull and not anything_to_do():
            return 0
        done = self._settler.settle(batch_size) + dispatch(batch_size)
        self._lull = not done
        return done


def anything_to_do() -> bool:
    """Whether there is a result to apply or a saga that is due."""
    now = UtcNow().sql(connection).replace("%", "%%")
    unsettled = f"SELECT 1 FROM {Job._meta.db_table} WHERE settled_at IS NULL AND status = %s"  # noqa: S608
    due = f"SELECT 1 FROM {Saga._meta.db_table} WHERE status = %s AND next_attempt_at <= {now}"  # noqa: S608
    parts = [unsettled] * len(FINISHED) + [due] * len(WAITING)
    with connection.cursor() as cursor:
        cursor.execute("SELECT " + " OR ".join(f"EXISTS ({part})" for part in parts), [*FINISHED, *WAITING])
        return bool(cursor.fetchone()[0])
