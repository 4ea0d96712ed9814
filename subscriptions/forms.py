"""The form in which a subscription is edited; what is wrong is said in words that name the field."""

from __future__ import annotations

from django import forms

from .models import Subscription

LIMIT = "The retry limit is a whole number from 1 to 1000, or empty."
DELAY = "The base delay is a duration such as 00:00:30, from a millisecond to a day, or empty."


class SubscriptionForm(forms.ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = Subscription
        fields = (
            "event_type",
            "callback_url",
            "active",
            "description",
            "signing_scheme",
            "max_retry_limit",
            "base_delay",
        )
        widgets = {
            "callback_url": forms.TextInput(
                attrs={"inputmode": "url", "spellcheck": "false", "style": "width: 50em; max-width: 100%"}
            ),
        }
        labels = {"callback_url": "Callback URL"}
        error_messages = {
            "event_type": {"required": "Give the event type to subscribe to."},
            "callback_url": {"required": "Give the callback URL to deliver to."},
            "max_retry_limit": {"invalid": LIMIT, "min_value": LIMIT, "max_value": LIMIT},
            "base_delay": {"invalid": DELAY, "overflow": DELAY, "min_value": DELAY, "max_value": DELAY},
        }
