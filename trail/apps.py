from django.apps import AppConfig


class TrailConfig(AppConfig):
    name = "trail"
    verbose_name = "Audit trail"

    def ready(self) -> None:
        from trail import people

        people.watch()
