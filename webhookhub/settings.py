"""Django's settings. Everything that differs between deployments comes from the environment or a `.env` file.

Without DATABASE_URL the hub runs on its embedded database in `var/`, with settings fit for one machine only.
"""

import os
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import environ
from django.core.exceptions import ImproperlyConfigured

from webhookhub import conf, logs
from webhookhub.console.unfold import UNFOLD  # noqa: F401
from webhookhub.crypto import key_from_file
from webhookhub.db.vendors import SILENCED_CHECKS, embedded_url

BASE_DIR = Path(__file__).resolve().parent.parent
# `.env` and `var/` belong to the checkout; an installed package takes the current directory.
HOME = BASE_DIR if (BASE_DIR / "manage.py").exists() else Path.cwd()
environ.Env.read_env(HOME / ".env")

WEBHOOKHUB = conf.load(os.environ)

DATABASE_URL = os.environ.get("DATABASE_URL", "")
EMBEDDED = not DATABASE_URL
if EMBEDDED:
    try:
        (HOME / "var").mkdir(exist_ok=True)
        _keys = WEBHOOKHUB.encryption_keys or (key_from_file(HOME / "var" / "encryption-key"),)
    except OSError as error:
        raise ImproperlyConfigured(
            f"DATABASE_URL is not set, and the embedded database has no place: {error}"
        ) from None
    DATABASE_URL = embedded_url(HOME / "var")
    WEBHOOKHUB = replace(
        WEBHOOKHUB,
        secret_key=WEBHOOKHUB.secret_key or "embedded-default-for-one-machine-only",
        encryption_keys=_keys,
    )
_lock_limit = WEBHOOKHUB.database_lock_limit
DATABASES = {"default": conf.database(DATABASE_URL, "DATABASE_URL", lock_limit=_lock_limit)}
# run_hub passes each of its processes its own URL: a wrong one is reported here, before any process starts.
for _name in conf.PROCESS_DATABASE_URLS.values():
    if _url := os.environ.get(_name):
        conf.database(_url, _name, lock_limit=_lock_limit)
if _ingest_url := os.environ.get(conf.INGEST_DATABASE_URL):
    DATABASES["ingest"] = conf.database(_ingest_url, conf.INGEST_DATABASE_URL, lock_limit=_lock_limit)
if not WEBHOOKHUB.secret_key:
    raise ImproperlyConfigured(
        "WEBHOOKHUB_SECRET_KEY is not set: with DATABASE_URL it must be a long random text of your own"
    )
if not WEBHOOKHUB.encryption_keys:
    raise ImproperlyConfigured(
        "WEBHOOKHUB_ENCRYPTION_KEYS is not set: with DATABASE_URL the secrets in the database need a key of your own; "
        "manage.py generate_key prints one"
    )

DEBUG = WEBHOOKHUB.debug
SECRET_KEY = WEBHOOKHUB.secret_key
ALLOWED_HOSTS = list(WEBHOOKHUB.allowed_hosts)
CSRF_TRUSTED_ORIGINS = list(WEBHOOKHUB.csrf_origins)
if WEBHOOKHUB.public_url:
    _public = urlsplit(WEBHOOKHUB.public_url)
    ALLOWED_HOSTS.append(_public.hostname or "")
    CSRF_TRUSTED_ORIGINS.append(WEBHOOKHUB.public_url)
    SECURE_SSL_HOST = _public.netloc
# Everything that depends on TLS follows the public URL. wsgi.py removes the header unless a trusted proxy has sent it.
_https = WEBHOOKHUB.public_url.startswith("https://")
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if _https else None
SECURE_SSL_REDIRECT = _https
# Programs inside the network may use the API without TLS. A redirect would come after the key was sent.
SECURE_REDIRECT_EXEMPT = [r"^api/"]
SECURE_HSTS_SECONDS = 365 * 24 * 3600 if _https else 0
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = LANGUAGE_COOKIE_SECURE = _https
# HSTS for subdomains and in the browsers' lists is a decision about other hosts than the hub.
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021", *SILENCED_CHECKS]
# Sessions end earlier than their cookies: accounts/sessions.py.
SESSION_COOKIE_AGE = int(WEBHOOKHUB.session_age.total_seconds())

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
    "webhookhub.console",  # after django.contrib.auth, whose pages it replaces
    "ninja",  # serves the API documentation's static files
    *(["django_extensions"] if DEBUG else []),
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
    "webhookhub.accounts.sessions.SessionLimitsMiddleware",
    "webhookhub.auditlog.middleware.ActorMiddleware",
    "webhookhub.console.middleware.DeniedMiddleware",
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
PASSWORD_HASHERS = ["webhookhub.accounts.passwords.Argon2Hasher", "django.contrib.auth.hashers.PBKDF2PasswordHasher"]
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
# Static files come from the packages, unless there is a folder for `collectstatic`, as in the image.
STATIC_ROOT = HOME / "staticfiles" if (HOME / "staticfiles").is_dir() else None
WHITENOISE_USE_FINDERS = STATIC_ROOT is None

LOGGING_CONFIG = None
logs.configure(WEBHOOKHUB.log_level, WEBHOOKHUB.log_format)
