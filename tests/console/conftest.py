"""People at the console, as in the tests of the lists."""

from tests.admin.conftest import staff, superuser, viewer

__all__ = ["staff", "superuser", "viewer"]
