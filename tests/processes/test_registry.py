"""Each running process has a row that it keeps fresh; a stopped one removes it, a vanished one is forgotten."""

from __future__ import annotations

import socket

from webhookhub.models import Process

from .support import Processes, until


def test_a_process_registers_beats_and_takes_its_row_with_it(processes: Processes):
    router = processes.start("run_router")
    row = until(lambda: Process.objects.first(), "the process registers")

    assert (row.kind, row.host, row.pid) == ("router", socket.gethostname(), router.pid)
    assert row.name == router.wait_for("process_started")[0]["process"]
    until(lambda: Process.objects.get().heartbeat_at > row.heartbeat_at, "the heartbeat advances")
    assert Process.objects.get().started_at == row.started_at

    assert router.stop() == 0
    assert not Process.objects.exists()


def test_a_killed_process_is_forgotten_by_the_cleaner_and_a_living_one_is_not(processes: Processes):
    router = processes.start("run_router")
    cleaner = processes.start("run_cleaner", WEBHOOKHUB_PROCESS_EXPIRY="2")
    orchestrator = processes.start("run_orchestrator")
    until(lambda: Process.objects.count() == 3, "all register")
    name = Process.objects.get(kind="router").name

    router.kill()
    assert Process.objects.filter(name=name).exists(), "silence is not death, yet"

    until(lambda: not Process.objects.filter(name=name).exists(), "the dead process is forgotten")
    assert [fact["process"] for fact in cleaner.wait_for("process_forgotten")] == [name]
    assert set(Process.objects.values_list("pid", flat=True)) == {cleaner.pid, orchestrator.pid}


def test_a_process_forgotten_by_mistake_registers_again(processes: Processes):
    router = processes.start("run_router")
    router.wait_for("process_started")

    Process.objects.all().delete()

    until(lambda: Process.objects.filter(pid=router.pid).exists(), "the process registers again")
