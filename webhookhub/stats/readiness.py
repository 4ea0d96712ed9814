"""Whether the hub as a whole can work: the database is there and migrated, and every kind of loop is running."""

from __future__ import annotations

from webhookhub.conf import KINDS
from webhookhub.db import clock, requirements
from webhookhub.db.errors import UnfitDatabase
from webhookhub.models import Process
from webhookhub.runner.registry import silent_after


def missing() -> list[str]:
    """What is missing, in words; a database error if the database does not answer."""
    try:
        requirements.require_migrated()
    except UnfitDatabase as error:
        return [str(error)]  # without tables there is nothing more to ask
    now = clock.now()
    alive = {process.kind for process in Process.objects.all() if process.is_alive(now, silent_after())}
    seconds = silent_after().total_seconds()
    return [f"no {kind}: none was heard of in the last {seconds:g} s" for kind in KINDS if kind not in alive]
