from django.apps import AppConfig


class FiguresConfig(AppConfig):
    name = "figures"
    verbose_name = "Figures"
