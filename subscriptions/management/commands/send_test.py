import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from subscriptions.lookup import subscription_or_error
from subscriptions.test_event import send_test
from webhookhub.egress import errors


class Command(BaseCommand):
    help = "Sends one signed test event to a subscription's endpoint and shows what came back. Nothing is stored."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--subscription", type=int, required=True, help="the subscription's number")
        parser.add_argument("--json", action="store_true", help="print the result as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        subscription = subscription_or_error(options["subscription"])
        trial = send_test(subscription)
        answer = trial.answer
        if options["json"]:
            self.stdout.write(
                json.dumps(
                    {
                        "webhook_id": trial.message_id,
                        "delivered": answer.error_code is None,
                        "response_status": answer.status,
                        "error_code": answer.error_code,
                        "duration_ms": answer.duration_ms,
                        "response_snippet": trial.snippet,
                    }
                )
            )
        else:
            self.stdout.write(f"webhook-id  {trial.message_id}")
            self.stdout.write(f"answer      {answer.status or 'none'} after {answer.duration_ms} ms")
            if trial.snippet:
                self.stdout.write(f"body        {trial.snippet}")
        if answer.error_code is not None:
            raise CommandError(f"not delivered: {errors.in_words(answer.error_code)} ({answer.error_code})")
