"""What a scenario has found: lines for people, data for machines, and what should be reached."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Line:
    what: str
    figure: str
    target: str = ""
    reached: bool | None = None


@dataclass
class Result:
    name: str
    lines: list[Line] = field(default_factory=list)
    data: dict[str, Any] = field(default_factory=dict)
    skipped: str = ""
    # Something was lost, done twice or left inconsistent: no figure makes up for that.
    wrong: bool = False

    def say(self, what: str, figure: object) -> None:
        self.lines.append(Line(what, str(figure)))

    def at_least(self, what: str, figure: object, value: float, target: float) -> None:
        self.lines.append(Line(what, str(figure), f"≥ {target:g}", value >= target))

    def at_most(self, what: str, figure: object, value: float, target: float) -> None:
        self.lines.append(Line(what, str(figure), f"≤ {target:g}", value <= target))


def table(results: list[Result]) -> str:
    """Aligned columns, a section for each scenario."""
    lines = [line for result in results for line in result.lines]
    what = max((len(line.what) for line in lines), default=0)
    figure = max((len(line.figure) for line in lines), default=0)
    shown = []
    for result in results:
        shown.append(f"\n{result.name}" + (f": skipped, {result.skipped}" if result.skipped else ""))
        for line in result.lines:
            verdict = {None: "", True: "reached", False: "not reached"}[line.reached]
            text = f"  {line.what:<{what}}  {line.figure:<{figure}}  {line.target:<7} {verdict}"
            shown.append(text.rstrip())
    return "\n".join(shown)
