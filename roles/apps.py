from django.apps import AppConfig
from django.db.models.signals import post_migrate


class RolesConfig(AppConfig):
    name = "roles"

    def ready(self) -> None:
        from roles.groups import give_permissions

        post_migrate.connect(give_permissions, dispatch_uid="roles.groups")
