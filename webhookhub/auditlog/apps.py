from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class AuditLogConfig(AppConfig):
    name = "webhookhub.auditlog"
    verbose_name = _("Audit log")

    def ready(self) -> None:
        from webhookhub.auditlog import signals

        signals.connect()
