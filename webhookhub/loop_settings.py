"""The settings of the run_* processes, which serve no pages: without the console's apps they start in half the time."""

from webhookhub.settings import *  # noqa: F403
from webhookhub.settings import INSTALLED_APPS as _ALL

_PAGES = {
    "unfold.apps.BasicAppConfig",
    "webhookhub.console.apps.ConsoleSiteConfig",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_extensions",
    "webhookhub.console",
    "ninja",
}
INSTALLED_APPS = [name for name in _ALL if name not in _PAGES]
