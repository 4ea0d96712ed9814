"""Helpers of the tests of a lost database: a hub on another server, and the logs of its loops."""

from __future__ import annotations

from tools.demo.endpoint import HttpsEndpoint
from tools.support.database_server import PrivateServer

from .support import Processes, Running

SEED = """
from events.intake import NewEvent, publish_many
from subscriptions.models import Subscription
from webhookhub.db import clock
Subscription.objects.get_or_create(event_type="order.created", callback_url={url!r})
Subscription.objects.filter(verified=False).update(verified=True, verification_at=clock.now())
publish_many([NewEvent("order.created", {{"number": number}}) for number in range({count})])
"""


def migrate(processes: Processes, url: str) -> None:
    assert processes.start("migrate", "--verbosity", "0", DATABASE_URL=url).wait() == 0


def seed(processes: Processes, url: str, endpoint: HttpsEndpoint, count: int) -> None:
    code = SEED.format(url=endpoint.url(), count=count)
    assert processes.start("shell", "--command", code, DATABASE_URL=url).wait() == 0


def statuses(server: PrivateServer) -> dict[tuple[str, int], int]:
    """The number of deliveries by status and attempts."""
    import MySQLdb

    private = MySQLdb.connect(host="127.0.0.1", port=server.port, user="hub", passwd="hub", db="webhookhub")
    with private.cursor() as cursor:
        cursor.execute(
            "SELECT status, attempt_count, COUNT(*) FROM webhook_delivery_sagas GROUP BY status, attempt_count"
        )
        counts = {(status, attempts): count for status, attempts, count in cursor.fetchall()}
    private.close()
    return counts


def check_reconnected(loops: dict[str, Running], times: int) -> None:
    """Each logs that the database is lost and later back; none ends or logs a traceback."""
    for kind, running in loops.items():
        assert running.is_alive, running.errors
        assert len(running.wait_for("database_reconnected", times)) == times, kind
        assert len(running.facts("database_lost")) >= times
        assert running.facts("process_failed") == []
        assert "Traceback" not in running.errors
