#!/usr/bin/env python
"""WebhookHub's command line: `manage.py help` lists the commands."""

import os
import sys

LOOPS = {"run_router", "run_orchestrator", "run_worker", "run_cleaner", "run_workflows"}


def main() -> None:
    given = os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webhookhub.settings")
    if given == "webhookhub.settings" and LOOPS & set(sys.argv[1:2]):
        os.environ["DJANGO_SETTINGS_MODULE"] = "webhookhub.loop_settings"
    elif sys.argv[1:2] == ["generate_key"]:
        os.environ["DJANGO_SETTINGS_MODULE"] = "webhookhub.bootstrap_settings"
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line
    from django.db import DatabaseError

    from webhookhub.exit_codes import UNFIT, UNREACHABLE

    try:
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as error:
        sys.stderr.write(f"The hub is not configured: {error}\n")
        sys.exit(UNFIT)
    except DatabaseError as error:
        from webhookhub.db import vendors

        if vendors.is_denied(error):
            sys.stderr.write(f"The database user may not do this: {error}. See manage.py grant_roles.\n")
            sys.exit(UNFIT)
        if vendors.is_lost(error) or vendors.is_refused(error):
            sys.stderr.write(f"The database cannot be reached: {error}. Look at DATABASE_URL.\n")
            sys.exit(UNREACHABLE)
        raise


if __name__ == "__main__":
    main()
