"""The command line, as `manage.py` in a checkout and as `webhookhub` where the package is installed."""

import os
import sys

import django
from django.core.exceptions import ImproperlyConfigured
from django.core.management import execute_from_command_line, load_command_class
from django.db import Error

from webhookhub import __version__
from webhookhub.conf import KINDS
from webhookhub.db.errors import Kind, kind_of

LOOPS = {f"run_{kind}" for kind in (*KINDS, "hub")}


def main() -> None:
    command = sys.argv[1] if sys.argv[1:] else "help"
    module = os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webhookhub.settings")
    if command == "generate_key":
        os.environ["DJANGO_SETTINGS_MODULE"] = "webhookhub.bootstrap_settings"
    elif command in LOOPS and module == "webhookhub.settings":
        os.environ["DJANGO_SETTINGS_MODULE"] = "webhookhub.loop_settings"
    try:
        _execute(command)
    except ImproperlyConfigured as error:
        sys.stderr.write(f"The hub is not configured: {error}\n")
        sys.exit(os.EX_CONFIG)
    except Error as error:
        kind = kind_of(error)
        if kind is Kind.DENIED:
            sys.stderr.write(f"The database user may not do this: {error}. See manage.py grant_roles.\n")
            sys.exit(os.EX_CONFIG)
        if kind in (Kind.LOST, Kind.LOGIN):
            sys.stderr.write(f"The database cannot be reached: {error}. Check DATABASE_URL.\n")
            sys.exit(os.EX_UNAVAILABLE)
        if kind.is_temporary:
            sys.stderr.write(f"The database cannot do this now: {error}. Retry later.\n")
            sys.exit(os.EX_TEMPFAIL)
        raise


def _execute(command: str) -> None:
    if command == "version":  # Django's own command of this name prints Django's version
        django.setup()
        load_command_class("webhookhub", command).run_from_argv(sys.argv)
    elif command == "--version":
        sys.stdout.write(f"{__version__}\n")
    else:
        execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
