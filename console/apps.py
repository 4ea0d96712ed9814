from django.apps import AppConfig
from django.contrib.admin import apps


class ConsoleConfig(AppConfig):
    name = "console"
    verbose_name = "Console"

    def ready(self) -> None:
        from . import names

        names.translate()


class ConsoleSiteConfig(apps.AdminConfig):
    """Django's admin, with the console's own site in place of the default one."""

    default = False
    default_site = "console.site.ConsoleSite"
