"""The hub's web server as a real process on the test's database."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Self

import requests
from django.conf import settings

from tests.processes.support import database_url
from tools.support.ports import free_port

START_SECONDS = 120.0


class WebServer:
    """A context manager for gunicorn with the given number of processes."""

    def __init__(self, folder: Path, workers: int = 2, threads: int = 4, **environment: str) -> None:
        self.port = free_port()
        self._log = folder / "web.log"
        self._command = [sys.executable, "-m", "gunicorn", "webhookhub.wsgi", "--bind", f"127.0.0.1:{self.port}"]
        self._command += ["--threads", str(threads), "--workers", str(workers), "--log-level", "warning"]
        inherited = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
        self._environment = {**inherited, "DATABASE_URL": database_url(), **environment}

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)

    def exit_code(self) -> int:
        return self._process.wait(START_SECONDS)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        return self._log.read_text()

    def __enter__(self) -> Self:
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                self._command, env=self._environment, cwd=settings.BASE_DIR, stdout=log, stderr=log
            )
        until = time.monotonic() + START_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > until:
                self.__exit__()
                raise RuntimeError(f"the web server did not start:\n{self.log}")
            time.sleep(0.05)
        return self

    def __exit__(self, *exception: Any) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        self._process.wait()
        # Shown by pytest if a test has failed.
        sys.stderr.write(self.log[-3000:])

    def _answers(self) -> bool:
        try:
            return requests.get(f"{self.url}/api/openapi.json", timeout=10).status_code == 200
        except requests.RequestException:
            return False


class RunWeb(WebServer):
    """The web server as `run_hub --web` starts it."""

    def __init__(self, folder: Path, **environment: str) -> None:
        super().__init__(folder, workers=1, threads=1, **environment)
        self._command = [sys.executable, "manage.py", "run_web", f"127.0.0.1:{self.port}"]
