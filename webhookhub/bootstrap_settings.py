"""Settings for `generate_key`, which must work before there is a key, without which the real settings do not load."""

SECRET_KEY = "unused"  # noqa: S105
INSTALLED_APPS = ["webhookhub"]
