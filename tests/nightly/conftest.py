"""Processes of the hub, as in tests/processes."""

from tests.processes.conftest import _default_signals, gate, processes

__all__ = ["_default_signals", "gate", "processes"]
