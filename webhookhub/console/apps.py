from django.apps import AppConfig
from django.contrib.admin import apps


class ConsoleConfig(AppConfig):
    name = "webhookhub.console"


class ConsoleSiteConfig(apps.AdminConfig):
    """Replaces Django's default admin site with the console's."""

    default = False
    default_site = "webhookhub.console.site.ConsoleSite"
