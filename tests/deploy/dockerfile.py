"""Reads a Dockerfile and its .dockerignore, as far as the hub's uses them."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "deploy" / "Dockerfile"
IGNORE = ROOT / "deploy" / "Dockerfile.dockerignore"


@dataclass
class Stage:
    base: str
    name: str
    steps: list[tuple[str, str]] = field(default_factory=list)

    def values(self, instruction: str) -> list[str]:
        return [value for name, value in self.steps if name == instruction]

    def last(self, instruction: str) -> str:
        return self.values(instruction)[-1]

    def command(self, instruction: str) -> list[str]:
        """The JSON form of ENTRYPOINT, CMD or HEALTHCHECK."""
        text = self.last(instruction)
        return list(json.loads(text[text.index("[") :]))


@dataclass(frozen=True)
class Copy:
    sources: tuple[str, ...]
    target: str
    stage: str  # of --from; empty for the build context


def stages(text: str) -> list[Stage]:
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    found: list[Stage] = []
    for line in re.sub(r"\\\n\s*", " ", "\n".join(lines)).splitlines():
        name, _, value = line.strip().partition(" ")
        if name == "FROM":
            base, _, alias = value.partition(" AS ")
            found.append(Stage(base, alias))
        else:
            found[-1].steps.append((name, value.strip()))
    return found


def copy_of(value: str) -> Copy:
    option = re.match(r"--from=(\S+)\s+", value)
    *sources, target = value[option.end() if option else 0 :].split()
    return Copy(tuple(sources), target, option[1] if option else "")


def ignored(path: str) -> bool:
    """Whether .dockerignore leaves this path of the build context out. The last rule that matches decides."""
    result = False
    for line in IGNORE.read_text().splitlines():
        rule = line.removeprefix("!")
        if line and not line.startswith("#") and _matches(path, rule):
            result = not line.startswith("!")
    return result


def _matches(path: str, rule: str) -> bool:
    parts = path.split("/")
    paths = ["/".join(parts[:length]) for length in range(1, len(parts) + 1)]
    if rule.startswith("**/"):
        return any(fnmatch(part, rule.removeprefix("**/")) for part in parts)
    return any("/".join(parts[:1]) == each if rule == "*" else each == rule for each in paths)
