"""A browser, as in tests/browser."""

from tests.browser.conftest import browser, log_in, root, stack, visitor

__all__ = ["browser", "log_in", "root", "stack", "visitor"]
