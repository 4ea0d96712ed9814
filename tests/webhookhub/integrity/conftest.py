"""Processes of the hub, as in tests/processes."""

from tests.processes.conftest import processes

__all__ = ["processes"]
