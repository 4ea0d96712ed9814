from django.apps import AppConfig
from django.contrib.admin import apps


class ConsoleConfig(AppConfig):
    name = "webhookhub.console"
    verbose_name = "Console"

    def ready(self) -> None:
        from . import model_names

        model_names.translate()


class ConsoleSiteConfig(apps.AdminConfig):
    """Django's admin, with the console's own site in place of the default one."""

    default = False
    default_site = "webhookhub.console.site.ConsoleSite"
