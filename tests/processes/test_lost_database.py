"""A database that does not exist yet, or has closed a connection. `make test-all LANES=outages` crashes servers."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from django.db import OperationalError, connection

from tools.demo.endpoint import HttpsEndpoint
from webhookhub.db.errors import Kind, kind_of

from .outages import check_reconnected, migrate, seed
from .support import LOOPS, Processes, until


@pytest.mark.mysql_family
@pytest.mark.usefixtures("committed")
def test_a_connection_closed_when_idle_counts_as_lost():
    watcher = connection.copy()
    with connection.cursor() as cursor, watcher.cursor() as other:
        cursor.execute("SELECT CONNECTION_ID()")
        [number] = cursor.fetchone()
        cursor.execute("SET SESSION wait_timeout = 1")

        def closed() -> bool:
            other.execute("SELECT COUNT(*) FROM information_schema.processlist WHERE id = %s", [number])
            return bool(other.fetchone()[0] == 0)

        until(closed, "the server closes the connection")
        with pytest.raises(OperationalError) as raised:
            cursor.execute("SELECT 1")
    connection.close()
    watcher.close()

    assert kind_of(raised.value) is Kind.LOST


@pytest.mark.every_engine
@pytest.mark.sqlite_only
def test_a_loop_waits_for_an_embedded_database_that_does_not_exist_yet(
    processes: Processes, endpoint: HttpsEndpoint, tmp_path: Path
):
    aside, place = tmp_path / "aside", tmp_path / "place"
    aside.mkdir()
    migrate(processes, f"sqlite:///{aside / 'hub.sqlite3'}")
    seed(processes, f"sqlite:///{aside / 'hub.sqlite3'}", endpoint, 1)

    loops = processes.start_loops(DATABASE_URL=f"sqlite:///{place / 'hub.sqlite3'}")
    for running in loops.values():
        [lost, *_] = running.wait_for("database_lost")
        assert "unable to open database file" in lost["error"]
    aside.rename(place)

    check_reconnected(loops, 1)
    endpoint.wait_for(1)
    assert [running.stop() for running in loops.values()] == [0] * len(LOOPS)
    with sqlite3.connect(place / "hub.sqlite3") as database:
        [(status,)] = database.execute("SELECT status FROM webhook_delivery_jobs").fetchall()
    assert status == "Completed"
