from django.apps import AppConfig


class StatsConfig(AppConfig):
    name = "webhookhub.stats"
    verbose_name = "Stats"
