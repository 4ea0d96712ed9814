from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError, CommandParser

from webhookhub.accounts import second_factor


class Command(BaseCommand):
    help = "Removes the second factors and recovery codes of a user who has lost them. Recorded in the audit log."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="the user name")

    def handle(self, *args: Any, **options: Any) -> None:
        user = User.objects.filter(username=options["name"]).first()
        if user is None:
            raise CommandError(f"There is no user {options['name']!r}.")
        count = second_factor.reset(user)
        self.stdout.write(f"{user} has no second factor any more ({count} removed) and can log in with the password.")
