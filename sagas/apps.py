from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class SagasConfig(AppConfig):
    name = "sagas"
    verbose_name = _("Deliveries")
