"""Where the loops' own time goes, by cProfile. The profiler itself slows them: read shares, not seconds."""

from __future__ import annotations

import pstats
from io import StringIO
from pathlib import Path

LINES = 25


def shown(folder: Path) -> str:
    """The most costly functions of each process that was profiled last."""
    text = StringIO()
    for file in sorted(folder.glob("*.pstats")):
        text.write(f"\n== {file.stem} ==\n")
        pstats.Stats(str(file), stream=text).sort_stats("tottime").print_stats(LINES)
    return text.getvalue()
