"""The command line, as `manage.py` in a checkout and as `webhookhub` where the package is installed."""

import os
import sys

from django.core.exceptions import ImproperlyConfigured
from django.core.management import execute_from_command_line
from django.db import DatabaseError

from webhookhub.conf import KINDS
from webhookhub.db import vendors

LOOPS = {f"run_{kind}" for kind in (*KINDS, "hub")}


def main() -> None:
    command = sys.argv[1] if sys.argv[1:] else "help"
    module = os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webhookhub.settings")
    if command == "generate_key":
        os.environ["DJANGO_SETTINGS_MODULE"] = "webhookhub.bootstrap_settings"
    elif command in LOOPS and module == "webhookhub.settings":
        os.environ["DJANGO_SETTINGS_MODULE"] = "webhookhub.loop_settings"
    try:
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as error:
        sys.stderr.write(f"The hub is not configured: {error}\n")
        sys.exit(os.EX_CONFIG)
    except DatabaseError as error:
        if vendors.is_denied(error):
            sys.stderr.write(f"The database user may not do this: {error}. See manage.py grant_roles.\n")
            sys.exit(os.EX_CONFIG)
        if vendors.is_lost(error) or vendors.is_refused(error):
            sys.stderr.write(f"The database cannot be reached: {error}. Check DATABASE_URL.\n")
            sys.exit(os.EX_UNAVAILABLE)
        raise


if __name__ == "__main__":
    main()
