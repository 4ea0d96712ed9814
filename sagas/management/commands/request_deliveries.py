import json
from argparse import ArgumentTypeError
from collections.abc import Callable
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from sagas import requests
from sagas.models import ABANDON, SEND_AGAIN, SEND_NOW, TOKEN_LENGTH, DeliveryRequest
from sagas.requests import InvalidRequest, RequestFilter
from sagas.transitions import OPEN
from subscriptions.models import Subscription
from webhookhub.search_terms import MAX_ID
from webhookhub.terminal import EXAMPLE, Operator, parse_time, whole_number

KINDS = {"send-now": SEND_NOW, "abandon": ABANDON, "send-again": SEND_AGAIN}
CONDITIONS = ("subscription", "event_type", "customer", "source", "status", "since", "until")


class Command(BaseCommand):
    help = "Requests to send waiting deliveries now, to abandon deliveries, or to send ended ones again."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("kind", choices=KINDS, help="what to do")
        parser.add_argument("deliveries", nargs="*", type=whole_number(MAX_ID), help="the numbers of deliveries")
        parser.add_argument("--reason", help="saved with the request (required unless --dry-run)")
        parser.add_argument("--subscription", type=whole_number(MAX_ID), metavar="N", help="all of this subscription")
        parser.add_argument(
            "--whole-endpoint",
            action="store_true",
            help="with --subscription: all of the customer's subscriptions with the same callback URL",
        )
        parser.add_argument("--event-type", help="abandon: of events of this type")
        parser.add_argument(
            "--customer", type=_shorter_than(100), metavar="KEY", help="abandon: of events of this customer"
        )
        parser.add_argument("--source", help="abandon: of events of this producer")
        parser.add_argument("--status", choices=OPEN, help="abandon: in this status")
        parser.add_argument("--since", metavar="TIME", help=f"abandon: created since then, such as {EXAMPLE}")
        parser.add_argument("--until", metavar="TIME", help="abandon: created until then")
        parser.add_argument(
            "--token", type=_shorter_than(TOKEN_LENGTH), help="repeating a request with its token is safe"
        )
        parser.add_argument("--dry-run", action="store_true", help="only print how many deliveries match")
        parser.add_argument("--json", action="store_true", help="print the result as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        kind = KINDS[options["kind"]]
        given = [name for name in CONDITIONS if options[name] is not None]
        if bool(options["deliveries"]) == bool(given):
            raise CommandError("Give the numbers of deliveries, or conditions such as --subscription 3.")
        if kind == SEND_AGAIN and given:
            raise CommandError("Only single deliveries can be sent again: give their numbers.")
        if kind == SEND_NOW and given not in ([], ["subscription"]):
            raise CommandError("send-now takes the numbers of deliveries, or --subscription and nothing else.")
        if len(options["deliveries"]) > requests.MAX_SELECTED:
            raise CommandError(f"Give at most {requests.MAX_SELECTED} deliveries, or conditions.")
        if options["dry_run"]:
            if not given:
                raise CommandError("--dry-run needs conditions.")
            self._preview(_filter(options), options["json"])
            return
        if not options["reason"]:
            raise CommandError("Give a reason: --reason 'the endpoint is back'. With --dry-run none is needed.")
        author: dict[str, Any] = {"by": Operator(), "reason": options["reason"], "token": options["token"]}
        try:
            if given:
                results = [requests.request_matching(kind, _filter(options), **author)]
            else:
                results = requests.request_deliveries(kind, options["deliveries"], **author)
        except InvalidRequest as error:
            raise CommandError(f"Nothing was requested: {error}.") from None
        self._show([result.request for result in results], options["json"])

    def _preview(self, request_filter: RequestFilter, as_json: bool) -> None:
        result = requests.preview(request_filter)
        if as_json:
            self.stdout.write(json.dumps({"dry_run": True, **vars(result)}))
            return
        more = " or more" if result.more else ""
        self.stdout.write(f"{result.waiting}{more} deliveries wait, {result.in_progress} are in progress.")

    def _show(self, made: list[DeliveryRequest], as_json: bool) -> None:
        if as_json:
            self.stdout.write(json.dumps({"dry_run": False, "requests": [str(request.uid) for request in made]}))
            return
        for request in made:
            target = f" for delivery {request.saga_id}" if request.saga_id else ""
            self.stdout.write(f"Request {request.uid}{target}: the orchestrator applies it.")


def _filter(options: dict[str, Any]) -> RequestFilter:
    since, until = parse_time("--since", options["since"]), parse_time("--until", options["until"])
    if since and until and until < since:
        raise CommandError("--until is before --since.")
    subscription_ids = None
    if options["subscription"] is not None:
        subscription = Subscription.objects.filter(id=options["subscription"]).only("endpoint_id").first()
        if subscription is None:
            raise CommandError(f"There is no subscription {options['subscription']}.")
        chosen = requests.of_subscription(subscription, whole_endpoint=options["whole_endpoint"])
        subscription_ids = chosen.subscription_ids
    return RequestFilter(
        subscription_ids=subscription_ids,
        status=options["status"],
        event_type=options["event_type"],
        customer=options["customer"],
        source=options["source"],
        since=since,
        until=until,
    )


def _shorter_than(limit: int) -> Callable[[str], str]:
    def read(text: str) -> str:
        if not 1 <= len(text) <= limit or not text.isprintable():
            raise ArgumentTypeError(f"must have 1 to {limit} characters")
        return text

    return read
