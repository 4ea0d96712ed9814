"""Where the loops' CPU time goes: what `tools.bench.sampled` has written, function by function."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

LINES = 15


def shown(folder: Path) -> str:
    """Of each process: the functions with the most CPU of their own, and with those that they call."""
    lines = []
    for file in sorted(folder.glob("*.json")):
        own: Counter[str] = Counter()
        whole: Counter[str] = Counter()
        for count, *stack in json.loads(file.read_text()):
            own[stack[0] if stack else "the loop"] += count
            for function in set(stack):
                whole[function] += count
        total = own.total()
        lines.append(f"\n{file.stem}: {total} samples\n  {'own':>6}")
        lines += [f"  {count / total:6.1%}  {function}" for function, count in own.most_common(LINES)]
        lines.append(f"  {'whole':>6}")
        lines += [f"  {count / total:6.1%}  {function}" for function, count in whole.most_common(3 * LINES)]
    return "\n".join(lines)
