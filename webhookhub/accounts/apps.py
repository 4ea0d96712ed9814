from django.apps import AppConfig
from django.db.models.signals import post_migrate


class AccountsConfig(AppConfig):
    name = "webhookhub.accounts"

    def ready(self) -> None:
        from webhookhub.accounts import sessions
        from webhookhub.accounts.groups import add_permissions

        sessions.connect()
        post_migrate.connect(add_permissions, dispatch_uid="webhookhub.accounts.groups")
