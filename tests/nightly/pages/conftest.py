"""A browser, as in tests/browser."""

from tests.browser.conftest import browser, root, visitor

__all__ = ["browser", "root", "visitor"]
