import getpass
import os
import sys
from typing import Any

from django.contrib.auth.models import Group, User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction

from webhookhub.accounts.groups import GROUPS
from webhookhub.accounts.invitations import address

VARIABLE = "WEBHOOKHUB_STAFF_PASSWORD"


class Command(BaseCommand):
    help = (
        "Makes a user of the console and puts them into a group. The password is asked for, or taken from the "
        f"environment variable {VARIABLE}, or set by themselves through a link that works once (--link)."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="what they log in with")
        parser.add_argument(
            "--group",
            action="append",
            required=True,
            dest="groups",
            help=f"repeatable: {', '.join(GROUPS)}, or your own",
        )
        parser.add_argument("--email", default="", help="kept with the user; nothing is sent")
        parser.add_argument(
            "--link", metavar="URL", help="print a link for them to set their password; URL is the hub's, https://…"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        groups = [_group(name) for name in options["groups"]]
        user = User(username=options["name"], email=options["email"], is_staff=True)
        user.set_unusable_password()
        _check(user)
        link = options["link"]
        if link is not None and not link.startswith(("https://", "http://")):
            raise CommandError(f"--link: {link!r} is not the hub's address; write it as https://hub.example.com.")
        if link is None:
            user.set_password(_password(user))
        with transaction.atomic():
            user.save()
            user.groups.set(groups)
        self.stdout.write(f"{user} may use the console, in {', '.join(sorted(group.name for group in groups))}.")
        if link is not None:
            self.stdout.write(link.rstrip("/") + address(user))
            self.stderr.write("Give them this link: whoever opens it first sets the password. It works once.")


def _group(name: str) -> Group:
    try:
        return Group.objects.get(name=name)
    except Group.DoesNotExist:
        known = ", ".join(Group.objects.order_by("name").values_list("name", flat=True)[:50])
        raise CommandError(f"--group: there is no group {name!r}; there are {known or 'none: run migrate'}.") from None


def _check(user: User) -> None:
    try:
        user.full_clean()
    except ValidationError as error:
        said = "; ".join(f"{field}: {' '.join(messages)}" for field, messages in error.message_dict.items())
        raise CommandError(f"No user was made: {said}") from None


def _password(user: User) -> str:
    given = os.environ.get(VARIABLE)
    if given is None:
        if not sys.stdin.isatty():
            raise CommandError(f"Nobody is here to be asked for a password: set {VARIABLE}, or use --link.")
        given = getpass.getpass("Password: ")
        if given != getpass.getpass("Again: "):
            raise CommandError("No user was made: the two passwords differ.")
    try:
        validate_password(given, user)
    except ValidationError as error:
        raise CommandError(f"No user was made: {' '.join(error.messages)}") from None
    return given
