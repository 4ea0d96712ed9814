from django.apps import AppConfig


class WebhookhubConfig(AppConfig):
    name = "webhookhub"
    verbose_name = "WebhookHub"
