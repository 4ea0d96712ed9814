from django.apps import AppConfig


class WebhookhubConfig(AppConfig):
    name = "webhookhub"
    verbose_name = "Hub"

    def ready(self) -> None:
        from webhookhub import checks  # noqa: F401
