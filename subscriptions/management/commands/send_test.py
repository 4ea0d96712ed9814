import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from subscriptions.management.arguments import subscription_or_error
from subscriptions.sample_delivery import send_test
from webhookhub.egress import error_codes


class Command(BaseCommand):
    help = "Sends one signed test event to a subscription's endpoint and prints the response. Nothing is stored."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--subscription", type=int, required=True, help="the subscription's id")
        parser.add_argument("--json", action="store_true", help="print the result as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        result = send_test(subscription_or_error(options["subscription"]))
        response = result.response
        if options["json"]:
            self.stdout.write(json.dumps(result.as_json()))
        else:
            self.stdout.write(f"webhook-id  {result.message_id}")
            self.stdout.write(f"response    {response.status or 'none'} after {response.duration_ms} ms")
            if result.snippet:
                self.stdout.write(f"body        {result.snippet}")
        if response.error_code is not None:
            raise CommandError(f"not delivered: {error_codes.describe(response.error_code)} ({response.error_code})")
