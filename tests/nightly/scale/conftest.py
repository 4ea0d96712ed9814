"""Processes of the hub and a browser, as in tests/processes and tests/browser."""

from tests.browser.conftest import browser, log_in, stack
from tests.processes.conftest import processes

__all__ = ["browser", "log_in", "processes", "stack"]
