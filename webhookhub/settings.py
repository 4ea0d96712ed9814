"""Django's settings. Everything that differs between deployments comes from the environment (or a `.env` file).

Without DATABASE_URL the hub runs on its embedded database in `var/`, with settings fit for one machine only.
"""

import os
from dataclasses import replace
from pathlib import Path

import environ
from django.core.exceptions import ImproperlyConfigured

from webhookhub import conf, logs
from webhookhub.console.unfold import UNFOLD  # noqa: F401
from webhookhub.crypto import key_from_file
from webhookhub.db.vendors import database_options

BASE_DIR = Path(__file__).resolve().parent.parent
environ.Env.read_env(BASE_DIR / ".env")
env = environ.Env()

WEBHOOKHUB = conf.load(os.environ)

EMBEDDED_DATABASE = BASE_DIR / "var" / "hub.sqlite3"
DATABASE_URL = env("DATABASE_URL", default="")
EMBEDDED = not DATABASE_URL
if EMBEDDED:
    EMBEDDED_DATABASE.parent.mkdir(exist_ok=True)
    DATABASE_URL = f"sqlite:///{EMBEDDED_DATABASE}"
try:
    if "://" not in DATABASE_URL:
        raise ValueError
    DATABASES = {"default": env.db_url_config(DATABASE_URL)}
except ValueError:
    # What could not be read is not shown: with a / in a password that is not written as %2F, it is a part of it.
    raise ImproperlyConfigured(
        "DATABASE_URL cannot be read: it must be mysql://user:password@host:port/name, with a number for the port and "
        "signs such as / @ : in the password written as %2F %40 %3A"
    ) from None
try:
    _required = database_options(DATABASES["default"].get("ENGINE", ""))
except ValueError as error:
    raise ImproperlyConfigured(str(error)) from None
# What the URL's query says (TLS, for instance) is added; what the hub's promises stand on is not negotiable.
DATABASES["default"]["OPTIONS"] = {**DATABASES["default"].get("OPTIONS", {}), **_required}
DATABASES["default"]["CONN_MAX_AGE"] = 60
DATABASES["default"]["CONN_HEALTH_CHECKS"] = True

DEBUG = env.bool("WEBHOOKHUB_DEBUG", default=False)
SECRET_KEY = env("WEBHOOKHUB_SECRET_KEY", default="")
if not SECRET_KEY:
    if not EMBEDDED:
        raise ImproperlyConfigured(
            "WEBHOOKHUB_SECRET_KEY is not set: outside the embedded default it must be a long random text of your own"
        )
    SECRET_KEY = "embedded-default-for-one-machine-only"  # noqa: S105
if not WEBHOOKHUB.encryption_keys:
    if not EMBEDDED:
        raise ImproperlyConfigured(
            "WEBHOOKHUB_ENCRYPTION_KEYS is not set: outside the embedded default the secrets in the database need "
            "a key of your own; manage.py generate_key makes one"
        )
    WEBHOOKHUB = replace(WEBHOOKHUB, encryption_keys=(key_from_file(EMBEDDED_DATABASE.parent / "encryption-key"),))
ALLOWED_HOSTS = env.list("WEBHOOKHUB_ALLOWED_HOSTS", default=["localhost", "127.0.0.1", "[::1]"])
CSRF_TRUSTED_ORIGINS = env.list("WEBHOOKHUB_CSRF_ORIGINS", default=[])

INSTALLED_APPS = [
    "webhookhub",
    "events",
    "subscriptions",
    "sagas",
    "jobs",
    "deadletters",
    "workflows",
    "api",
    "webhookhub.auditlog",
    "webhookhub.stats",
    "webhookhub.integrity",
    "webhookhub.accounts",
    "unfold.apps.BasicAppConfig",  # before the admin, whose templates it replaces
    "webhookhub.console.apps.ConsoleSiteConfig",  # django.contrib.admin
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_extensions",
    "webhookhub.console",  # after the users' app, whose pages it gives its own look
    "ninja",  # its page of documentation, served from here
]

MIDDLEWARE = [
    "webhookhub.stats.probes.Probes",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "webhookhub.console.middleware.ContentSecurityPolicyMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "webhookhub.console.middleware.LanguageMiddleware",
    "webhookhub.console.middleware.TimezoneMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "webhookhub.auditlog.middleware.ActorMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

ROOT_URLCONF = "webhookhub.urls"
LOGIN_REDIRECT_URL = "admin:index"
WSGI_APPLICATION = "webhookhub.wsgi.application"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in ("UserAttributeSimilarityValidator", "MinimumLengthValidator", "CommonPasswordValidator")
]

USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English"), ("zh-hant", "繁體中文")]
LOCALE_PATHS = [BASE_DIR / "locale"]
USE_I18N = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

STATIC_URL = "static/"
WHITENOISE_USE_FINDERS = True  # static files are served from the packages: no collectstatic step to forget

LOGGING_CONFIG = None
logs.configure(WEBHOOKHUB.log_level, WEBHOOKHUB.log_format)
