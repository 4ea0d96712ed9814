import getpass
import os
import sys
from typing import Any

from django.contrib.auth.models import Group, User
from django.contrib.auth.password_validation import validate_password
from django.contrib.auth.tokens import default_token_generator
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction
from django.urls import reverse
from django.utils.encoding import force_bytes
from django.utils.http import urlsafe_base64_encode

from webhookhub.accounts.groups import GROUPS

VARIABLE = "WEBHOOKHUB_STAFF_PASSWORD"


class Command(BaseCommand):
    help = (
        "Creates a user of the console in one or more groups. The password is prompted for, read from the environment "
        f"variable {VARIABLE}, or set by the user through a link that works once (--link)."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="the user name")
        parser.add_argument(
            "--group",
            action="append",
            required=True,
            dest="groups",
            help=f"repeatable: {', '.join(GROUPS)}, or your own",
        )
        parser.add_argument("--email", default="", help="stored with the user; nothing is sent")
        parser.add_argument(
            "--link", metavar="URL", help="print a link to set the password; URL is the hub's, https://…"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        groups = [_group(name) for name in options["groups"]]
        user = User(username=options["name"], email=options["email"], is_staff=True)
        user.set_unusable_password()
        _validate(user)
        link = options["link"]
        if link is not None and not link.startswith(("https://", "http://")):
            raise CommandError(f"--link: {link!r} is not the hub's URL; write it as https://hub.example.com.")
        if link is None:
            user.set_password(_password(user))
        with transaction.atomic():
            user.save()
            user.groups.set(groups)
        self.stdout.write(f"{user} may use the console, in {', '.join(sorted(group.name for group in groups))}.")
        if link is not None:
            self.stdout.write(link.rstrip("/") + _invitation_path(user))
            self.stderr.write("Send this link to the user. The first person who opens it sets the password.")


def _group(name: str) -> Group:
    try:
        return Group.objects.get(name=name)
    except Group.DoesNotExist:
        known = ", ".join(Group.objects.order_by("name").values_list("name", flat=True)[:50])
        raise CommandError(f"--group: there is no group {name!r}; there are {known or 'none: run migrate'}.") from None


def _validate(user: User) -> None:
    try:
        user.full_clean()
    except ValidationError as error:
        errors = "; ".join(f"{field}: {' '.join(messages)}" for field, messages in error.message_dict.items())
        raise CommandError(f"No user was created: {errors}") from None


def _password(user: User) -> str:
    password = os.environ.get(VARIABLE)
    if password is None:
        if not sys.stdin.isatty():
            raise CommandError(f"There is no terminal to prompt for a password: set {VARIABLE}, or use --link.")
        password = getpass.getpass("Password: ")
        if password != getpass.getpass("Again: "):
            raise CommandError("No user was created: the two passwords differ.")
    try:
        validate_password(password, user)
    except ValidationError as error:
        raise CommandError(f"No user was created: {' '.join(error.messages)}") from None
    return password


def _invitation_path(user: User) -> str:
    # The token depends on the password and the last log-in: it becomes invalid when one of them changes.
    uid = urlsafe_base64_encode(force_bytes(user.pk))
    return reverse("admin:welcome", args=[uid, default_token_generator.make_token(user)])
