"""Every transaction of the hub, with work that reaches it. A test holds the list complete."""

from __future__ import annotations

import ast
import base64
import hashlib
import io
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, NamedTuple

from cryptography.hazmat.primitives.asymmetric import ec
from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import RequestFactory
from fido2.cose import ES256
from fido2.webauthn import AttestationObject, AttestedCredentialData, AuthenticatorData, CollectedClientData

from deadletters.requeue import requeue_recorded
from events import catalogue
from events.catalogue import Declaration
from events.intake import NewEvent, publish_many
from events.models import EventType
from sagas.models import ABANDON
from sagas.requests import RequestFilter, request_matching
from subscriptions import credential_services, customers
from subscriptions.credentials import OAuth2Client
from tests.conformance import steps, world
from tests.conformance import test_crash_points_elsewhere as elsewhere
from tests.conformance import test_crash_points_of_programs as of_programs
from tests.conformance.crashes import ROOT
from tests.conformance.test_crash_points import fresh_type
from tests.factories import SubscriptionFactory
from tests.support import rows
from tests.webhookhub.auditlog import test_crashes as of_actions
from tests.workflows import test_crashes as of_workflows
from tests.workflows.lives import ORDER
from tests.workflows.support import catch_up, instance, tell, tracked
from tools.demo.endpoint import HttpsEndpoint
from webhookhub.accounts import second_factor, sso, webauthn
from webhookhub.accounts.models import SecondFactor
from webhookhub.conf import hub
from workflows import services
from workflows.state import DONE

PACKAGES = ("events", "subscriptions", "sagas", "jobs", "deadletters", "workflows", "api", "webhookhub")
# What opens a transaction.
OPENING = {"in_transaction", "atomic"}
# The seam itself.
SEAM = "webhookhub/db/"
SECRET = "JBSWY3DPEHPK3PXP"
numbers = count(1)

Work = Callable[[], object]


class Place(NamedTuple):
    """A transaction in the product's code: `name` is its file and function; lines as in a call stack."""

    name: str
    file: str
    first: int
    last: int

    def is_among(self, places: tuple[tuple[str, int], ...]) -> bool:
        return any(file == self.file and self.first <= line <= self.last for file, line in places)


@dataclass(frozen=True)
class Case:
    """`prepare` creates the rows and returns the work, which may be done again after `recover`."""

    prepare: Callable[[HttpsEndpoint], Work]
    recover: Work = lambda: None


def transactions() -> list[Place]:
    """All of the product's code; further ones of a function have a number."""
    places: list[Place] = []
    for file in (file for package in PACKAGES for file in sorted((ROOT / package).rglob("*.py"))):
        name = file.relative_to(ROOT).as_posix()
        if "migrations" not in file.parts and not name.startswith(SEAM):
            places += _transactions_of(ast.parse(file.read_text()), name)
    return places


def _transactions_of(tree: ast.Module, file: str) -> Iterator[Place]:
    seen: dict[str, int] = {}
    for function, node in _opening(tree, ""):
        seen[function] = seen.get(function, 0) + 1
        number = f" ({seen[function]})" if seen[function] > 1 else ""
        yield Place(f"{file}:{function}{number}", file, node.lineno, node.end_lineno or node.lineno)


def _opening(node: ast.AST, function: str) -> Iterator[tuple[str, ast.With | ast.Call]]:
    """Calls, and whole `with` blocks, with the functions around them."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.With) and any(_opens(item.context_expr) for item in child.items):
            yield function, child
        elif _opens(child) and not isinstance(node, ast.withitem):
            assert isinstance(child, ast.Call)
            yield function, child
        inner = (
            f"{function}.{child.name}".lstrip(".") if isinstance(child, ast.FunctionDef | ast.ClassDef) else function
        )
        yield from _opening(child, inner)


def _opens(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Name(id=name)) | ast.Call(func=ast.Attribute(attr=name)):
            return name in OPENING
    return False


def of_step(name: str) -> Case:
    """A step of the pipeline, with an event type of its own."""
    [step] = [step for step in steps.STEPS if step.name == name]
    return Case(lambda endpoint: step.prepare(fresh_type()), step.recover)


def alone(prepare: Callable[[], Work]) -> Case:
    return Case(lambda endpoint: prepare())


def of_workflow(prepare: Callable[[str], Work]) -> Case:
    def prepared(endpoint: HttpsEndpoint) -> Work:
        tracked()
        prepare("before")()  # from now on the definition is in use
        return prepare(f"run {next(numbers)}")

    return Case(prepared)


def to_declare_all() -> Work:
    EventType.objects.all().delete()
    return lambda: catalogue.declare_all({"order.created": Declaration(description="new")})


def to_publish_much() -> Work:
    """More than one statement takes."""
    event_type = fresh_type()
    new = [NewEvent(event_type, {"text": "x" * 1000}, external_id=f"{event_type}:{number}") for number in range(3000)]
    return lambda: publish_many(new)


def to_remove_credentials() -> Work:
    subscription = SubscriptionFactory.create()
    client = OAuth2Client("https://login.example.com/token", "hub", "s3cret")
    credential_services.set_oauth2(subscription, client)
    return lambda: credential_services.remove_oauth2(subscription)


def to_disable_a_customer() -> Work:
    customer = customers.put(f"customer-{next(numbers)}", "name").customer
    return lambda: customers.disable(customer, reason="unpaid")


def to_request_matching() -> Work:
    event_type = fresh_type()
    steps.open_deliveries(event_type)
    chosen = RequestFilter(event_type=event_type)
    return lambda: request_matching(ABANDON, chosen, by=world.Staff(), reason="why")


def to_requeue_recorded() -> Work:
    letter = rows.dead_letter(f"letter {next(numbers)}").pk
    return lambda: requeue_recorded(letter, requested_by="anna", reason="again", token=f"token {letter}")


def to_act(key: str) -> Work:
    tell(ORDER, ("order", DONE), key)
    catch_up()
    return lambda: services.act(instance(key), "closed", idempotency_key="c", actor="olga", reason="enough")


def a_user() -> User:
    return User.objects.create_user(f"user {next(numbers)}", is_staff=True)


def to_create_staff() -> Work:
    name = f"staff-{next(numbers)}"

    def work() -> None:
        if not User.objects.filter(username=name).exists():
            options = ("--link", "https://hub.example.com", "--group", "support")
            call_command("create_staff", name, *options, stdout=io.StringIO(), stderr=io.StringIO())

    return work


def to_add_an_app() -> Work:
    user = a_user()
    return lambda: second_factor.add_app(user, SECRET, 1)


def to_make_codes() -> Work:
    user = a_user()
    return lambda: second_factor.new_codes(user)


def to_remove_a_factor() -> Work:
    user = a_user()
    second_factor.add_app(user, SECRET, 1)

    def work() -> None:
        for factor in SecondFactor.objects.filter(user=user):
            second_factor.remove(factor)

    return work


def to_reset() -> Work:
    user = a_user()
    second_factor.add_app(user, SECRET, 1)
    return lambda: second_factor.reset(user)


def to_add_a_key() -> Work:
    """With the response of a real key, made here."""
    user, request = a_user(), RequestFactory().get("/")
    request.session = {}  # type: ignore[assignment]

    def work() -> None:
        options: Any = webauthn.registration_options(request, user)
        webauthn.add_key(request, user, registration(options["publicKey"]), "key")

    return work


def registration(options: Any) -> str:
    """What a browser sends after it has created a key."""
    origin, credential_id = hub().public_url or "http://testserver", f"credential {next(numbers)}".encode()
    public_key = ES256.from_cryptography_key(ec.generate_private_key(ec.SECP256R1()).public_key())
    credential = AttestedCredentialData.create(b"\0" * 16, credential_id, public_key)
    flags = AuthenticatorData.FLAG.UP | AuthenticatorData.FLAG.AT
    data = AuthenticatorData.create(hashlib.sha256(options["rp"]["id"].encode()).digest(), flags, 0, credential)
    client = CollectedClientData.create("webauthn.create", options["challenge"], origin)
    attestation = AttestationObject.create("none", data, {})
    response = {"clientDataJSON": encoded(client), "attestationObject": encoded(attestation)}
    text = encoded(credential_id)
    return json.dumps({"id": text, "rawId": text, "type": "public-key", "response": response})


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def to_log_in_by_a_provider() -> Work:
    claims = {"sub": f"subject {next(numbers)}", "groups": ["theirs"], "preferred_username": f"sso {next(numbers)}"}

    def work() -> None:
        usual = settings.WEBHOOKHUB
        settings.WEBHOOKHUB = replace(
            hub(), oidc_issuer="https://login.example.com", oidc_groups=(("theirs", "support"),), oidc_name="Login"
        )
        hub.cache_clear()
        try:
            sso.user_for(claims)
        finally:
            settings.WEBHOOKHUB = usual
            hub.cache_clear()

    return work


CASES: Mapping[str, Case] = {
    "events/backfill.py:backfill": alone(of_actions.to_backfill),
    "events/catalogue.py:declare": alone(elsewhere.to_declare),
    "events/catalogue.py:declare_all": alone(to_declare_all),
    "events/catalogue.py:delete": alone(elsewhere.to_delete_declaration),
    "events/intake.py:_store": alone(to_publish_much),
    "events/routing.py:Router.route": of_step("route"),
    "events/routing.py:_remove": of_step("route by hints"),
    "events/routing.py:_remove (2)": of_step("route beside another"),
    "subscriptions/credential_services.py:_change": alone(elsewhere.to_set_credentials),
    "subscriptions/credential_services.py:_remove": alone(to_remove_credentials),
    "subscriptions/customers.py:put": alone(elsewhere.to_put_a_customer),
    "subscriptions/customers.py:_switch": alone(to_disable_a_customer),
    "subscriptions/health.py:enable": alone(elsewhere.to_enable),
    "subscriptions/secrets.py:rotate": alone(elsewhere.to_rotate),
    "subscriptions/services.py:create": alone(elsewhere.to_create),
    "subscriptions/services.py:change": alone(elsewhere.to_change),
    "subscriptions/verification.py:verify": Case(lambda endpoint: elsewhere.to_verify(endpoint)()),
    "sagas/apply_requests.py:_change": of_step("abandon"),
    "sagas/create.py:create_sagas": of_step("send again"),
    "sagas/requests.py:request_deliveries": of_step("request"),
    "sagas/requests.py:request_matching": alone(to_request_matching),
    "sagas/settle.py:_mark": of_step("settle all three"),
    "sagas/settle.py:_mark (2)": of_step("settle beside another"),
    "jobs/cleaner.py:clean": of_step("clean"),
    "jobs/lease.py:lease": of_step("lease"),
    "deadletters/requeue.py:requeue": of_step("requeue"),
    "deadletters/requeue.py:requeue_recorded": alone(to_requeue_recorded),
    "workflows/advance.py:_round": of_workflow(of_workflows.to_complete),
    "workflows/services.py:start": alone(of_programs.to_start_a_workflow),
    "workflows/services.py:act": of_workflow(to_act),
    "workflows/tracker.py:Tracker.track": of_workflow(of_workflows.to_complete),
    "workflows/tracker.py:_lease": of_workflow(of_workflows.to_complete),
    "api/keys.py:create": alone(of_actions.to_make_a_key),
    "api/keys.py:revoke": alone(of_actions.to_revoke),
    "webhookhub/accounts/management/commands/create_staff.py:Command.handle": alone(to_create_staff),
    "webhookhub/accounts/second_factor.py:add_app": alone(to_add_an_app),
    "webhookhub/accounts/second_factor.py:new_codes": alone(to_make_codes),
    "webhookhub/accounts/second_factor.py:remove": alone(to_remove_a_factor),
    "webhookhub/accounts/second_factor.py:reset": alone(to_reset),
    "webhookhub/accounts/sso.py:user_for": alone(to_log_in_by_a_provider),
    "webhookhub/accounts/webauthn.py:add_key": alone(to_add_a_key),
    "webhookhub/stats/rollup.py:roll_up": alone(elsewhere.to_roll_up),
    "webhookhub/stats/rollup.py:roll_up (2)": alone(elsewhere.to_roll_up),
    "webhookhub/stats/rollup.py:roll_up (3)": alone(elsewhere.to_roll_up),
}
