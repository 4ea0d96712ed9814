"""Settings of the run_* loops. They serve no pages; without the console's apps they start in half the time."""

from webhookhub.settings import *  # noqa: F403
from webhookhub.settings import INSTALLED_APPS as _ALL

_PAGES = {
    "unfold.apps.BasicAppConfig",
    "webhookhub.console.apps.ConsoleSiteConfig",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "webhookhub.console",
    "ninja",
    "django_extensions",
}
INSTALLED_APPS = [name for name in _ALL if name not in _PAGES]
