"""Settings for `generate_key`, which must work before the real settings can be loaded: they require a key."""

SECRET_KEY = "unused"  # noqa: S105
INSTALLED_APPS = ["webhookhub"]
