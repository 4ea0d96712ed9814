from django.apps import AppConfig


class AuditLogConfig(AppConfig):
    name = "webhookhub.auditlog"
    verbose_name = "Audit log"

    def ready(self) -> None:
        from webhookhub.auditlog import signals

        signals.connect()
