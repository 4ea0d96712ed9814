"""A workflow with several versions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from events.intake import publish
from tests.workflows.support import catch_up, tracked
from workflows.models import Instance
from workflows.registry import load

TEXT = """
name = "trip"
version = {version}
starts = ["trip.booked"]
correlation = "{correlation}"
aggregate = "{aggregate}"
error = "{error}"
[[steps]]
key = "booking"
done = ["trip.booked"]
[[steps]]
key = "payment"
after = ["booking"]
done = ["trip.paid"{more}]
failed = ["trip.refused"]
[[steps]]
key = "ticket"
after = ["payment"]
done = ["trip.issued"]
[[steps]]
key = "extra"
after = ["ticket"]
done = ["trip.upgraded"]
optional = true
"""
Write = Callable[..., None]


def definition(version: int, **changes: str) -> str:
    values = {"correlation": "correlation_id", "aggregate": "payload.trip", "error": "payload.reason", "more": ""}
    return TEXT.format(version=version, **{**values, **changes})


def remove_file(folder: Path, version: int) -> None:
    (folder / f"trip_{version}.toml").unlink()
    restart()


def restart() -> None:
    load.cache_clear()
    tracked()


def say(event_type: str, case: str, trip: str, **payload: Any) -> None:
    publish(event_type, {"trip": trip, **payload}, correlation_id=case)
    catch_up()


def runs() -> dict[str, tuple[int, str]]:
    """Correlation key → version and status."""
    rows = Instance.objects.values_list("correlation_key", "definition_version", "status")
    return {key: (version, status) for key, version, status in rows}
