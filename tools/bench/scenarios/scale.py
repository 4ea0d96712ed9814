"""Scenario `scale`: several processes of each loop, with a check that nothing is lost or duplicated."""

from __future__ import annotations

from dataclasses import asdict

from tools.bench.context import Context
from tools.bench.results import Result, Spread
from tools.bench.scenarios import drain

CONFIGURATIONS: dict[str, dict[str, int]] = {
    "1 worker": {},
    "2 workers": {"worker": 2},
    "4 workers": {"worker": 4},
    "2 orchestrators": {"orchestrator": 2},
    "2 routers": {"router": 2},
    "2 of each": {"router": 2, "orchestrator": 2, "worker": 2, "cleaner": 2},
}


def run(context: Context) -> Result:
    result = Result("scale")
    single = 0.0
    for name, counts in context.within(CONFIGURATIONS.items()):
        run = drain.run(context, context.sizes.scale, counts=counts)
        audit = context.call("manage.py", "audit", url=context.database().url)
        single = single or run.rate
        check = "audit clean" if audit.returncode == 0 else f"AUDIT FAILED:\n{audit.stdout}{audit.stderr}"
        ratio = f"× {run.rate / single:.2f}"
        text = f"{Spread.of([run.rate])}, {ratio}, {run.duplicates} duplicates, {check}"
        result.add(f"deliveries/s, {name}", text)
        result.data[name] = asdict(run) | {"audit_clean": audit.returncode == 0}
    faults = sum(entry["duplicates"] + (not entry["audit_clean"]) for entry in result.data.values())
    result.failed = bool(faults)
    result.at_most("lost, duplicated or inconsistent", faults, faults, 0)
    return result
