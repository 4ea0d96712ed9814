"""What an audit has found, for people and for machines."""

from __future__ import annotations

import json
from collections.abc import Sequence

from .run import Result


def table(results: Sequence[Result]) -> str:
    width = max(len(result.check.name) for result in results)
    lines = [f"{'check':<{width}}  {'rows':>11}  {'found':>9}  {'seconds':>8}"]
    lines += [
        f"{result.check.name:<{width}}  {result.rows:>11,}  {result.found:>9,}  {result.seconds:>8.2f}{_mark(result)}"
        for result in results
    ]
    return "\n".join(lines)


def _mark(result: Result) -> str:
    if not result.found:
        return ""
    return "  VIOLATED" if result.is_violation else "  warning"


def faults(results: Sequence[Result]) -> list[str]:
    """Each broken invariant, in a paragraph with the first rows that break it."""
    return [_fault(result) for result in results if result.found]


def _fault(result: Result) -> str:
    lines = [f"{result.check.name}: {result.check.invariant}", *(f"  {violation}" for violation in result.first)]
    if result.found > len(result.first):
        lines.append(f"  and {result.found - len(result.first):,} more")
    return "\n".join(lines)


def summary(results: Sequence[Result]) -> str:
    violations, warnings = counts(results)
    seconds = sum(result.seconds for result in results)
    return f"{violations:,} violations, {warnings:,} warnings, {len(results)} checks, {seconds:.1f} seconds."


def counts(results: Sequence[Result]) -> tuple[int, int]:
    violations = sum(result.found for result in results if result.is_violation)
    return violations, sum(result.found for result in results) - violations


def as_json(results: Sequence[Result]) -> str:
    violations, warnings = counts(results)
    return json.dumps(
        {
            "healthy": not violations,
            "violations": violations,
            "warnings": warnings,
            "seconds": round(sum(result.seconds for result in results), 3),
            "checks": [
                {
                    "name": result.check.name,
                    "invariant": result.check.invariant,
                    "level": "warning" if result.check.warns else "violation",
                    "rows": result.rows,
                    "found": result.found,
                    "seconds": round(result.seconds, 3),
                    "first": [
                        {"table": violation.table, "key": violation.key, "what": violation.what}
                        for violation in result.first
                    ],
                }
                for result in results
            ],
        }
    )
