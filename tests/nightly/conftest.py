"""Processes of the hub, as in tests/processes."""

from tests.processes.conftest import _hear_signals, gate, processes

__all__ = ["_hear_signals", "gate", "processes"]
