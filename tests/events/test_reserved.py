"""Reserved event types and sources are refused at the command line."""

from __future__ import annotations

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from events.models import Event

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["saga.completed", "{}"], "event_type is 'saga' or starts with 'saga.': reserved for the hub"),
        (["saga.completed", "{}", "--source", "hub"], "event_type is 'saga' or starts with 'saga.'"),
        (["order.created", "{}", "--source", "hub"], "source is 'hub', which is reserved for the hub; choose another"),
    ],
)
def test_a_command_cannot_publish_as_the_hub(arguments: list[str], why: str):
    with pytest.raises(CommandError, match=why):
        call_command("publish_event", *arguments)

    assert not Event.objects.exists()
