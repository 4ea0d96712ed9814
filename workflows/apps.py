from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class WorkflowsConfig(AppConfig):
    name = "workflows"
    verbose_name = _("Workflows")

    def ready(self) -> None:
        from workflows import checks  # noqa: F401
