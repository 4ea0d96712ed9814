"""A link by which a new member of staff sets their password: it holds for some days, and works once."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.contrib.auth.tokens import default_token_generator
from django.urls import reverse
from django.utils.encoding import force_bytes
from django.utils.http import urlsafe_base64_encode


def address(user: User) -> str:
    # The token is made of the stored password and the last log-in too: it is void once one of them changes.
    name = urlsafe_base64_encode(force_bytes(user.pk))
    return reverse("admin:welcome", args=[name, default_token_generator.make_token(user)])
