"""The results of an integrity check as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from .run import Result


def as_text(results: Sequence[Result]) -> str:
    """A table, a paragraph for each violated invariant with its first rows, and a summary."""
    violations, warnings = _totals(results)
    summary = (
        f"{violations:,} violations, {warnings:,} warnings, {len(results)} checks, {_seconds(results):.1f} seconds."
    )
    return "\n\n".join([_table(results), *(_paragraph(result) for result in results if result.found), summary])


def as_json(results: Sequence[Result]) -> str:
    violations, warnings = _totals(results)
    return json.dumps(
        {
            "healthy": not violations,
            "violations": violations,
            "warnings": warnings,
            "seconds": round(_seconds(results), 3),
            "checks": [
                {
                    "name": result.check.name,
                    "invariant": result.check.invariant,
                    "level": "warning" if result.check.is_warning else "violation",
                    "rows": result.rows,
                    "found": result.found,
                    "seconds": round(result.seconds, 3),
                    "first": [asdict(violation) for violation in result.first],
                }
                for result in results
            ],
        }
    )


def _table(results: Sequence[Result]) -> str:
    width = max(len(result.check.name) for result in results)
    lines = [f"{'check':<{width}}  {'rows':>11}  {'found':>9}  {'seconds':>8}"]
    for result in results:
        mark = "" if not result.found else "  VIOLATED" if result.is_violation else "  warning"
        numbers = f"{result.rows:>11,}  {result.found:>9,}  {result.seconds:>8.2f}"
        lines.append(f"{result.check.name:<{width}}  {numbers}{mark}")
    return "\n".join(lines)


def _paragraph(result: Result) -> str:
    lines = [f"{result.check.name}: {result.check.invariant}", *(f"  {violation}" for violation in result.first)]
    if result.found > len(result.first):
        lines.append(f"  and {result.found - len(result.first):,} more")
    return "\n".join(lines)


def _totals(results: Sequence[Result]) -> tuple[int, int]:
    violations = sum(result.found for result in results if result.is_violation)
    return violations, sum(result.found for result in results) - violations


def _seconds(results: Sequence[Result]) -> float:
    return sum(result.seconds for result in results)
