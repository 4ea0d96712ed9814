import json
from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError, CommandParser

from subscriptions import endpoint_services, secrets, verification
from subscriptions.endpoint_models import Endpoint
from subscriptions.services import AlreadySubscribed, InvalidSubscription
from webhookhub.validators import InvalidReason

LIST_LIMIT = 1000


class Command(BaseCommand):
    help = "Creates, lists, verifies, pauses, resumes and deletes endpoints."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = "create|list|verify|vouch|pause|resume|delete"
        subparsers = parser.add_subparsers(dest="action", required=True, metavar=actions)
        create = subparsers.add_parser("create", help="create an endpoint; prints its signing secret")
        create.add_argument("url", help="the https URL")
        create.add_argument(
            "event_types", nargs="+", metavar="event-type", help="such as order.created, order.* (quote it) or *"
        )
        create.add_argument("--customer", default="", metavar="KEY", help="its owner; omit it for the operator's own")
        create.add_argument("--secret", help="a secret whsec_… that the receiver knows already")
        listing = subparsers.add_parser("list", help=f"list the first {LIST_LIMIT} endpoints")
        listing.add_argument("--customer", metavar="KEY", help="those of one customer")
        verify = subparsers.add_parser("verify", help="send a challenge, and wait for the response")
        vouch = subparsers.add_parser("vouch", help="answer for an endpoint that cannot return a challenge")
        pause = subparsers.add_parser("pause", help="stop its deliveries; open ones wait")
        resume = subparsers.add_parser("resume", help="let its deliveries go on")
        delete = subparsers.add_parser("delete", help="hide it and stop its deliveries; what it got stays")
        vouch.add_argument("--reason", required=True, help="why; kept in the audit log")
        for each in (verify, vouch, pause, resume, delete):
            each.add_argument("uid", type=UUID)
        for each in (create, listing, verify, vouch, pause, resume, delete):
            each.add_argument("--json", action="store_true", help="print the result as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        getattr(self, f"_{options['action']}")(options)

    def _create(self, options: dict[str, Any]) -> None:
        values = {"callback_url": options["url"], "event_types": options["event_types"]}
        values |= {"customer_key": options["customer"], "secret": options["secret"]}
        endpoint = _checked(lambda: endpoint_services.create(values))
        endpoint.refresh_from_db()
        secret = secrets.reveal(endpoint)
        if options["json"]:
            self.stdout.write(json.dumps({**_described(endpoint), "secret": secret}))
            return
        self.stdout.write(f"Endpoint {endpoint.uid} is new. Its secret, which is not shown again: {secret}")
        self.stdout.write(f"Verify it next: manage.py endpoint verify {endpoint.uid}")

    def _list(self, options: dict[str, Any]) -> None:
        rows = Endpoint.objects.existing().order_by("id")
        if options["customer"] is not None:
            rows = rows.filter(customer_key=options["customer"])
        described = [_described(row) for row in rows[:LIST_LIMIT]]
        if options["json"]:
            self.stdout.write(json.dumps({"endpoints": described}))
            return
        for row in described:
            owner = row["customer"] or "-"
            self.stdout.write(f"{row['uid']}  {owner}  {row['state']}  {row['url']}  {' '.join(row['event_types'])}")

    def _verify(self, options: dict[str, Any]) -> None:
        endpoint = _find(options["uid"])
        result = verification.verify(endpoint)
        if not result.verified:
            raise CommandError(f"Endpoint {endpoint.uid} is not verified: {verification.describe(result.result)}.")
        self._print(options, endpoint, "is verified")

    def _vouch(self, options: dict[str, Any]) -> None:
        endpoint = _find(options["uid"])
        try:
            endpoint_services.vouch(endpoint, reason=options["reason"])
        except InvalidReason as error:
            raise CommandError(f"Nothing was changed: {error}.") from None
        self._print(options, endpoint, "is verified by your word")

    def _pause(self, options: dict[str, Any]) -> None:
        self._switch(options, active=False)

    def _resume(self, options: dict[str, Any]) -> None:
        self._switch(options, active=True)

    def _switch(self, options: dict[str, Any], *, active: bool) -> None:
        endpoint = _find(options["uid"])
        _checked(lambda: endpoint_services.change(endpoint, {"active": active}))
        self._print(options, endpoint, "gets deliveries" if active else "is paused")

    def _delete(self, options: dict[str, Any]) -> None:
        endpoint = _find(options["uid"])
        endpoint_services.delete(endpoint)
        self._print(options, endpoint, "is deleted")

    def _print(self, options: dict[str, Any], endpoint: Endpoint, what: str) -> None:
        self.stdout.write(json.dumps(_described(endpoint)) if options["json"] else f"Endpoint {endpoint.uid} {what}.")


def _find(uid: UUID) -> Endpoint:
    endpoint = Endpoint.objects.existing().filter(uid=uid).first()
    if endpoint is None:
        raise CommandError(f"There is no endpoint {uid}; `endpoint list` shows all endpoints.")
    return endpoint


def _checked(store: Callable[[], Endpoint]) -> Endpoint:
    try:
        return store()
    except (InvalidSubscription, AlreadySubscribed) as error:
        raise CommandError(f"Nothing was stored: {error}.") from None


def _described(endpoint: Endpoint) -> dict[str, Any]:
    return {
        "uid": str(endpoint.uid),
        "customer": endpoint.customer_key or None,
        "url": endpoint.shown_url,
        "event_types": endpoint_services.event_types(endpoint),
        "state": _state(endpoint),
    }


def _state(endpoint: Endpoint) -> str:
    if endpoint.deleted_at is not None:
        return "deleted"
    if not endpoint.active:
        return "paused"
    if not endpoint.verified:
        return "unverified"
    return "disabled" if endpoint.disabled_at is not None else "active"
