"""The processes under torture, as the tormentor sees them: slots that are filled again whenever their process dies."""

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
ANSWER_SECONDS = 60.0


@dataclass
class Slot:
    """A place for one process: what runs there now, and how those before it ended."""

    name: str
    kind: str
    command: dict[str, Any]
    pid: int = 0
    lives: int = 0
    stopped: bool = False


@dataclass(frozen=True)
class Ending:
    slot: str
    kind: str
    pid: int
    code: int
    log: str
    asked: bool


@dataclass
class _Life:
    slot: Slot
    log: Path
    asked: set[int] = field(default_factory=set)


class Fleet:
    """Runs while entered."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder = folder / "logs"
        self._folder.mkdir(exist_ok=True)
        self._environment = dict(environment)
        self._answers: queue.Queue[dict[str, Any]] = queue.Queue()
        self._lock = threading.Lock()
        self._asking = threading.Lock()
        self._lives: dict[int, _Life] = {}
        self._codes: dict[int, int] = {}
        self.slots: dict[str, Slot] = {}
        self.endings: list[Ending] = []

    def __enter__(self) -> Fleet:
        self._errors = (self._folder / "fork_server.log").open("wb")
        self._server = subprocess.Popen(
            [sys.executable, "-m", "tools.torture.fork_server"],
            cwd=ROOT,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )
        threading.Thread(target=self._listen, daemon=True).start()
        self._answers.get(timeout=ANSWER_SECONDS)
        return self

    def __exit__(self, *exception: Any) -> None:
        # Its children die with it.
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
        slot.lives += 1
        slot.stopped = False
        log = self._folder / f"{slot.name}.{slot.lives}.log"
        command = {**slot.command, **({} if arguments is None else {"arguments": list(arguments)})}
        with self._asking:
            self._send({"do": "start", "log": str(log), **command})
            pid = int(self._answers.get(timeout=ANSWER_SECONDS)["started"])
            with self._lock:
                self._lives[pid] = _Life(slot, log)
                slot.pid = pid
                if (code := self._codes.pop(pid, None)) is not None:
                    self._note_end(pid, code)

    def signal(self, slot: Slot, number: signal.Signals) -> bool:
        """Whether there was anybody to hear it."""
        with self._asking:
            with self._lock:
                pid, life = slot.pid, self._lives.get(slot.pid)
                if not pid or life is None:
                    return False
                life.asked.add(int(number))
            self._send({"do": "signal", "pid": pid, "signal": int(number)})
            return bool(self._answers.get(timeout=ANSWER_SECONDS)["signalled"])

    def run(self, name: str, *arguments: str, module: str = "", seconds: float = 120.0) -> None:
        """A process that is left in peace and must succeed."""
        slot = self.add(name, "command", *arguments, module=module)
        self.start(slot)
        if not self.wait([slot], seconds):
            raise RuntimeError(f"{name} has not ended within {seconds:g} s")
        ending = next(ending for ending in self.endings if ending.slot == name)
        if ending.code:
            raise RuntimeError(f"{name} ended with {ending.code}:\n{Path(ending.log).read_text()}")
        del self.slots[name]

    def wait(self, slots: Sequence[Slot], seconds: float) -> bool:
        """Whether all have ended in time."""
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

    def _listen(self) -> None:
        assert self._server.stdout is not None
        for line in self._server.stdout:
            news = json.loads(line)
            if "ended" not in news:
                self._answers.put(news)
                continue
            with self._lock:
                self._note_end(news["ended"], news["code"])

    def _note_end(self, pid: int, code: int) -> None:
        life = self._lives.pop(pid, None)
        if life is None:
            self._codes[pid] = code  # it was quicker than the answer that it has started
            return
        asked = -code in life.asked or (code == 0 and int(signal.SIGTERM) in life.asked)
        self.endings.append(Ending(life.slot.name, life.slot.kind, pid, code, str(life.log), asked))
        if life.slot.pid == pid:
            life.slot.pid = 0
