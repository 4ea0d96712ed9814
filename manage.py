#!/usr/bin/env python
"""WebhookHub's command line: `manage.py help` lists the commands."""

from webhookhub.command_line import main

if __name__ == "__main__":
    main()
