"""What the figures were measured on."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


def about() -> dict[str, Any]:
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cores": os.cpu_count(),
        "processor": _processor(),
        "python": platform.python_version(),
        "load_at_start": round(os.getloadavg()[0], 2),
    }


def in_words(told: dict[str, Any]) -> str:
    text = f"{told['cores']} cores, {told['processor']}, Python {told['python']}"
    if told["load_at_start"] > 0.5 * told["cores"]:
        text += (
            f"\nThe machine is busy with other things (load {told['load_at_start']:g}): "
            "compare figures of this run with each other, and with nothing else."
        )
    return text


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
