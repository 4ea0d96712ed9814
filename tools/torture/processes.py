"""The processes under test. Each has a slot, which is filled again when its process has exited."""

from __future__ import annotations

import json
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
RESPONSE_SECONDS = 60.0


@dataclass
class Slot:
    """A place for one process at a time. `pid` is 0 while none runs."""

    name: str
    kind: str
    command: dict[str, Any]
    pid: int = 0
    starts: int = 0
    stopped: bool = False


@dataclass(frozen=True)
class Exit:
    slot: str
    kind: str
    pid: int
    code: int
    log: str
    expected: bool  # a signal was sent that explains the code


@dataclass
class _Process:
    slot: Slot
    log: Path
    signals: set[int] = field(default_factory=set)


class Processes:
    """A context manager that runs the fork server."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder = folder / "logs"
        self._folder.mkdir(exist_ok=True)
        self._environment = dict(environment)
        self._responses: queue.Queue[dict[str, Any]] = queue.Queue()
        self._lock = threading.Lock()
        self._request_lock = threading.Lock()
        self._running: dict[int, _Process] = {}
        self._early_codes: dict[int, int] = {}
        self.slots: dict[str, Slot] = {}
        self.exits: list[Exit] = []

    def __enter__(self) -> Processes:
        self._errors = (self._folder / "fork_server.log").open("wb")
        self._server = subprocess.Popen(
            [sys.executable, "-m", "tools.torture.fork_server"],
            cwd=ROOT,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )
        threading.Thread(target=self._read_responses, daemon=True).start()
        self._responses.get(timeout=RESPONSE_SECONDS)
        return self

    def __exit__(self, *exception: Any) -> None:
        # Its children are killed with it.
        self._server.kill()
        self._server.wait()
        self._errors.close()

    def add(self, name: str, kind: str, *arguments: str, module: str = "") -> Slot:
        command: dict[str, Any] = {"arguments": list(arguments)}
        if module:
            command["module"] = module
        slot = self.slots[name] = Slot(name, kind, command)
        return slot

    def start(self, slot: Slot, arguments: Sequence[str] | None = None) -> None:
        slot.starts += 1
        slot.stopped = False
        log = self._folder / f"{slot.name}.{slot.starts}.log"
        command = {**slot.command, **({} if arguments is None else {"arguments": list(arguments)})}
        with self._request_lock:
            self._send({"do": "start", "log": str(log), **command})
            pid = int(self._responses.get(timeout=RESPONSE_SECONDS)["started"])
            with self._lock:
                self._running[pid] = _Process(slot, log)
                slot.pid = pid
                if (code := self._early_codes.pop(pid, None)) is not None:
                    self._record_exit(pid, code)

    def signal(self, slot: Slot, number: signal.Signals) -> bool:
        """Returns False if no process runs in the slot."""
        with self._request_lock:
            with self._lock:
                pid, process = slot.pid, self._running.get(slot.pid)
                if not pid or process is None:
                    return False
                process.signals.add(int(number))
            self._send({"do": "signal", "pid": pid, "signal": int(number)})
            return bool(self._responses.get(timeout=RESPONSE_SECONDS)["signalled"])

    def run(self, name: str, *arguments: str, module: str = "", seconds: float = 120.0) -> None:
        """Runs a command without faults. Raises RuntimeError if it fails."""
        slot = self.add(name, "command", *arguments, module=module)
        self.start(slot)
        if not self.wait([slot], seconds):
            raise RuntimeError(f"{name} has not exited within {seconds:g} s")
        exit = next(exit for exit in self.exits if exit.slot == name)
        if exit.code:
            raise RuntimeError(f"{name} exited with {exit.code}:\n{Path(exit.log).read_text()}")
        del self.slots[name]

    def wait(self, slots: Sequence[Slot], seconds: float) -> bool:
        """Returns whether all have exited in time."""
        until = time.monotonic() + seconds
        while any(slot.pid for slot in slots):
            if time.monotonic() > until:
                return False
            time.sleep(0.02)
        return True

    def of(self, *kinds: str) -> list[Slot]:
        return [slot for slot in self.slots.values() if slot.kind in kinds]

    def _send(self, request: dict[str, Any]) -> None:
        assert self._server.stdin is not None
        self._server.stdin.write(json.dumps(request).encode() + b"\n")
        self._server.stdin.flush()

    def _read_responses(self) -> None:
        assert self._server.stdout is not None
        for line in self._server.stdout:
            response = json.loads(line)
            if "ended" not in response:
                self._responses.put(response)
                continue
            with self._lock:
                self._record_exit(response["ended"], response["code"])

    def _record_exit(self, pid: int, code: int) -> None:
        process = self._running.pop(pid, None)
        if process is None:
            self._early_codes[pid] = code  # it exited before the response to its start was read
            return
        expected = -code in process.signals or (code == 0 and int(signal.SIGTERM) in process.signals)
        self.exits.append(Exit(process.slot.name, process.slot.kind, pid, code, str(process.log), expected))
        if process.slot.pid == pid:
            process.slot.pid = 0
