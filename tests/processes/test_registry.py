"""Each running process has a row with heartbeats; it removes the row at its end, the cleaner removes expired rows."""

from __future__ import annotations

import socket

from webhookhub.models import Process

from .support import Processes, until


def test_a_process_registers_sends_heartbeats_and_removes_its_row(processes: Processes):
    router = processes.start("run_router")
    row = until(lambda: Process.objects.first(), "the process registers")

    assert (row.kind, row.host, row.pid) == ("router", socket.gethostname(), router.pid)
    assert row.name == router.wait_for("process_started")[0]["process"]
    until(lambda: Process.objects.get().heartbeat_at > row.heartbeat_at, "the heartbeat advances")
    assert Process.objects.get().started_at == row.started_at

    assert router.stop() == 0
    assert not Process.objects.exists()


def test_the_cleaner_removes_the_row_of_a_killed_process_only(processes: Processes):
    router = processes.start("run_router")
    cleaner = processes.start("run_cleaner", WEBHOOKHUB_PROCESS_EXPIRY="2")
    orchestrator = processes.start("run_orchestrator")
    until(lambda: Process.objects.count() == 3, "all register")
    name = Process.objects.get(kind="router").name

    router.kill()
    assert Process.objects.filter(name=name).exists(), "removed before its expiry"

    until(lambda: not Process.objects.filter(name=name).exists(), "the row of the dead process is removed")
    assert [fact["process"] for fact in cleaner.wait_for("process_expired")] == [name]
    assert set(Process.objects.values_list("pid", flat=True)) == {cleaner.pid, orchestrator.pid}


def test_a_process_whose_row_was_removed_registers_again(processes: Processes):
    router = processes.start("run_router")
    router.wait_for("process_started")

    Process.objects.all().delete()

    until(lambda: Process.objects.filter(pid=router.pid).exists(), "the process registers again")
