"""A browser in front of a running hub, as in tests/browser."""

from tests.browser.conftest import browser, log_in, stack

__all__ = ["browser", "log_in", "stack"]
