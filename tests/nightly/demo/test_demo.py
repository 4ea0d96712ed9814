"""The demo: it runs to its end, until it is stopped, and several times at once."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import requests
from django.conf import settings

from tests.processes.support import Processes, Running, database_url, is_running, until
from tools.support.ports import free_port


@pytest.fixture
def folder(processes: Processes, tmp_path: Path) -> Path:
    """The demo's folder. The environment has no settings and no database."""
    processes.environment = {
        name: value
        for name, value in processes.environment.items()
        if name != "DATABASE_URL" and not name.startswith("WEBHOOKHUB_")
    }
    return tmp_path / "demo"


@pytest.fixture
def permanent_folder(processes: Processes, folder: Path) -> Path:
    """The same with the test's database, which outlives a run, like that of `make run`."""
    processes.environment["DATABASE_URL"] = database_url()
    processes.environment["WEBHOOKHUB_SECRET_KEY"] = "only for tests"
    return folder


def once(processes: Processes, folder: Path, *arguments: str, **environment: str) -> Running:
    return processes.execute(["-m", "tools.demo", "--folder", str(folder), *arguments], **environment)


def stay(processes: Processes, folder: Path) -> Running:
    return once(processes, folder, "--stay", "--events", "2", "--web", f"127.0.0.1:{free_port()}")


def stay_until_it_runs(processes: Processes, folder: Path) -> Running:
    demo = stay(processes, folder)

    def runs() -> bool:
        assert demo.is_alive, demo.errors
        return "Press Ctrl-C to stop" in demo.output

    until(runs, "the demo prints that it runs")
    return demo


def descendants(pid: int) -> list[int]:
    children = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return children + [each for child in children for each in descendants(child)]


def summary(demo: Running) -> dict[str, str]:
    return dict(re.findall(r"^  (\S.*?) {2,}(\S+)$", demo.output, re.MULTILINE))


def test_the_demo_delivers_everything_and_prints_a_summary(processes: Processes, folder: Path):
    demo = once(processes, folder, "--events", "60")

    assert demo.wait(60) == 0
    result = summary(demo)
    # One event in fifty, from the eighth on, always fails; all others go to two endpoints.
    assert result["events"] == "60"
    assert (result["deliveries"], result["delivered"]) == ("118", "116")
    assert int(result["retried"]) > 2
    assert result["dead-lettered"] == "2"
    assert result["lost"] == "0"
    assert demo.errors == ""
    assert os.listdir(folder) == [], "temporary files are removed"


def test_two_demos_run_at_the_same_time(processes: Processes, folder: Path):
    demos = [once(processes, folder, "--events", "20") for _ in range(2)]

    assert [demo.wait(60) for demo in demos] == [0, 0]
    assert [summary(demo)["deliveries"] for demo in demos] == ["39", "39"]
    assert os.listdir(folder) == []


def test_a_failed_demo_keeps_its_log_and_prints_the_path(processes: Processes, folder: Path):
    demo = once(processes, folder, "--events", "100", "--seconds", "0.01")

    assert demo.wait(60) == 1
    [kept] = folder.iterdir()
    assert f"The hub's log is {kept}" in demo.errors


def test_a_wrong_setting_is_one_sentence(processes: Processes, folder: Path):
    demo = once(processes, folder, WEBHOOKHUB_LEASE="1")

    assert demo.wait(60) == os.EX_CONFIG
    assert demo.errors.startswith("The hub is not configured: WEBHOOKHUB_LEASE is 1 s: it must be longer than ")
    assert demo.errors.count("\n") == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_a_signal_stops_the_demo_and_its_processes(
    processes: Processes, permanent_folder: Path, number: signal.Signals
):
    demo = stay_until_it_runs(processes, permanent_folder)
    family = descendants(demo.pid)
    assert len(family) == 3, "a supervisor, the process of all steps, and a web server"

    demo.signal(number)
    if number != signal.SIGINT:
        demo.signal(number)  # make may pass the signal on, too

    assert demo.wait() == 128 + number
    assert [pid for pid in family if is_running(pid)] == []
    assert demo.errors == "", "the hub ended in good order"


def test_a_demo_started_with_nohup_survives_a_closed_terminal(processes: Processes, permanent_folder: Path):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # inherited, as from nohup
    try:
        demo = stay_until_it_runs(processes, permanent_folder)
    finally:
        signal.signal(signal.SIGHUP, before)

    demo.signal(signal.SIGHUP)

    assert demo.stop() == 128 + signal.SIGTERM


def test_the_hub_stops_when_the_demo_is_killed(processes: Processes, permanent_folder: Path):
    demo = stay_until_it_runs(processes, permanent_folder)
    family = descendants(demo.pid)

    demo.kill()

    until(lambda: not any(is_running(pid) for pid in family), "the hub and its children end", 10)


def test_a_second_run_on_the_same_database_is_refused(processes: Processes, permanent_folder: Path):
    first = stay_until_it_runs(processes, permanent_folder)
    before = {path: path.read_bytes() for path in permanent_folder.iterdir()}

    second = stay(processes, permanent_folder)

    assert second.wait() == 1
    assert f"already running here (process {first.pid})." in second.errors
    assert second.output == ""
    assert {path: path.read_bytes() for path in permanent_folder.iterdir()} == before
    assert first.is_alive
    assert first.stop() == 128 + signal.SIGTERM
    assert stay_until_it_runs(processes, permanent_folder).stop() == 128 + signal.SIGTERM, "the next may run"


def test_the_printed_commands_work_in_another_terminal(processes: Processes, permanent_folder: Path):
    demo = stay_until_it_runs(processes, permanent_folder)
    lines = [
        line.replace(".venv/bin/python", shlex.quote(sys.executable))
        for line in re.findall(r"^  (?:command|settings|test event) +(.+)$", demo.output, re.MULTILINE)
    ]
    assert len(lines) == 3
    number = lines[2].split()[-1]
    verify = f"{shlex.quote(sys.executable)} manage.py verify_subscription {number}"
    script = "\n".join([*lines[1:], verify])

    done = subprocess.run(
        ["sh", "-e", "-c", script],
        cwd=settings.BASE_DIR,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stderr
    # A command that sends nothing needs no settings except the key of this database.
    key = (permanent_folder / "encryption-key").read_text()
    event = processes.execute(shlex.split(lines[0])[1:], WEBHOOKHUB_ENCRYPTION_KEYS=key)
    assert event.wait() == 0
    arrival = f"received /steady event {event.output.split()[1]} "
    until(lambda: arrival in demo.output, "the event arrives")
    assert demo.stop() == 128 + signal.SIGTERM
    assert (permanent_folder / "hub.env").stat().st_mode & 0o077 == 0, "it contains keys"


def test_the_printed_curl_command_publishes_an_event(processes: Processes, permanent_folder: Path):
    demo = stay_until_it_runs(processes, permanent_folder)
    [line] = re.findall(r"^  HTTP +(curl .+)$", demo.output, re.MULTILINE)
    [docs] = re.findall(r"^  API +(http://\S+)$", demo.output, re.MULTILINE)
    # The arguments as the shell would pass them to curl, which may not be installed.
    _, _, authorization, _, content_type, _, body, url = shlex.split(line)

    headers = dict(header.split(": ", 1) for header in (authorization, content_type))
    sent = requests.post(url, data=body, headers=headers, timeout=30)

    assert sent.status_code == 201, sent.text
    until(lambda: f"received /steady event {sent.json()['uid']} " in demo.output, "the event arrives")
    assert requests.get(docs, timeout=30).status_code == 200
    assert (permanent_folder / "api-key").stat().st_mode & 0o077 == 0
    assert demo.stop() == 128 + signal.SIGTERM
