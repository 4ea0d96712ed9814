from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class WebhookhubConfig(AppConfig):
    name = "webhookhub"
    verbose_name = _("Hub")

    def ready(self) -> None:
        from webhookhub import checks  # noqa: F401
