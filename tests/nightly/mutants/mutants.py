"""What is taken out of the product, one at a time, and which tests must notice."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]

HINTS = "tests/conformance/test_hints.py"
LEASES = "tests/conformance/test_lease_races.py"
SAGAS = "tests/conformance/test_saga_races.py"
INTAKE = "tests/conformance/test_intake_races.py"
REQUEUES = "tests/conformance/test_requeue_races.py"
CRASHES = "tests/conformance/test_crash_points.py::test_a_step_interrupted_at_any_statement_and_run_again_ends_as_if_"
DATABASE = "tests/conformance/test_database_rules.py"
STATES = "tests/conformance/test_state_machine.py"
LOGS = "tests/conformance/test_transition_logs.py"
REQUESTS = "tests/conformance/test_request_races.py"


@dataclass(frozen=True)
class Mutant:
    """`edits` are (what stands there, what stands there instead), each found exactly once in the file."""

    name: str
    file: str
    edits: tuple[tuple[str, str], ...]
    tests: tuple[str, ...]

    def mutated(self, source: str) -> str:
        for old, new in self.edits:
            if source.count(old) != 1:
                raise ValueError(f"{self.name}: {self.file} holds {source.count(old)} times, and not once:\n{old}")
            source = source.replace(old, new)
        return source


def mutant(name: str, file: str, old: str, new: str, *tests: str) -> Mutant:
    return Mutant(name, file, ((old, new),), tests)


OWN_TOKEN = 'match=["id", "lease_token"],'
ANY_TOKEN = 'match=["id"],'
LEASED_F = "where=f\"{Job._meta.db_table}.status = '{LEASED}'\","
LEASED_T = "where=f\"{table}.status = '{LEASED}'\","

PROTOCOL = [
    mutant("jobs: an insert that does not lock its sagas", "webhookhub/db/compiled.py",
           "lock = vendors.shared_lock_tail(connection)", 'lock = ""', REQUESTS),
    mutant("jobs: of abandoned sagas", "jobs/create.py", ", abandoned_by__isnull=True)", ")", REQUESTS),
    mutant("abandon: sagas with a job", "sagas/apply_requests.py",
           "if saga.status in WAITING and saga.pk not in started]", "if saga.status in WAITING]", REQUESTS),
    mutant("requests: the same batch twice", "sagas/apply_requests.py",
           "filter(pk=request.pk, batches=request.batches)", "filter(pk=request.pk)", REQUESTS),
    mutant("report: any token", "jobs/report.py", OWN_TOKEN, ANY_TOKEN, LEASES),
    mutant("report: any status", "jobs/report.py", LEASED_F, 'where="1 = 1",', LEASES),
    mutant("release: any token", "jobs/lease.py", OWN_TOKEN, ANY_TOKEN, LEASES),
    mutant("release: any status", "jobs/lease.py", LEASED_F, 'where="1 = 1",', LEASES),
    mutant("clean: any token", "jobs/cleaner.py", OWN_TOKEN, ANY_TOKEN, LEASES),
    mutant("clean: any status", "jobs/cleaner.py", LEASED_T, 'where="1 = 1",', LEASES),
    mutant("clean: before the lease has expired", "jobs/models.py", "lease_until__lt=now", "lease_until__isnull=False",
           "tests/jobs/test_cleaner.py"),
    mutant("lease: always the same token", "jobs/lease.py", "token = new_token()", 'token = "token"', LEASES),
    mutant("lease: the same token for each lease of a worker", "jobs/lease.py", "token = new_token()",
           'token = worker_id[:32].ljust(32, "x")', LEASES),
    mutant("lease: jobs of another worker", "jobs/lease.py", "id__in=ids, status=PENDING, lease",
           "id__in=ids, lease", "tests/jobs/test_lease_hints.py"),
    mutant("lease: waits for other workers", "jobs/lease.py", "select_for_update(skip_locked=True)",
           "select_for_update()", LEASES),
    mutant("dispatch: any attempt_count", "sagas/dispatch.py", "status=status, attempt_count=attempt_count)",
           "status=status)", SAGAS),
    mutant("dispatch by hints: sagas that are not due", "jobs/create.py", ", next_attempt_at__lte=UtcNow())", ")",
           HINTS),
    mutant("dispatch by hints: disabled subscriptions", "jobs/create.py", "filter(Exists(routable), ", "filter(",
           HINTS),
    mutant("lease by hints: too early", "jobs/lease.py", "status=PENDING, lease_until__lte=UtcNow())",
           "status=PENDING)", HINTS),
    mutant("settle by hints: any result", "sagas/settle.py", "Job.objects.filter(id=job_id, status=status)",
           "Job.objects.filter(id=job_id)", HINTS),
    mutant("settle by hints: any attempt", "sagas/settle.py", ", attempt_count=Subquery(awaited))", ")",
           "tests/sagas/test_settle.py"),
    mutant("settle by hints: never marks", "sagas/settle.py", "        self.unmarked.add(job_ids)\n", "", HINTS),
    mutant("route by hints: never removes", "events/routing.py",
           "        self.routed.add([row.event_id for row in taken])\n", "", HINTS),
    mutant("route by hints: counts what another has counted", "events/routing.py",
           "if delete_each(RoutingInbox, ids) < len(ids):", "if delete_each(RoutingInbox, ids) < 0:", HINTS),
    mutant("hints: no bound", "webhookhub/runner/hints.py", "if not ids or len(self._ids) + len(ids) > MAX_HINTS:",
           "if not ids:", HINTS),
    mutant("hints: no polling while they arrive", "webhookhub/runner/managed_step.py",
           "is_poll = started_at >= self._poll_at\n",
           "is_poll = started_at >= self._poll_at and not self._is_hinted\n",
           "tests/webhookhub/runner/test_managed_step.py"),
    mutant("postpone: any status", "sagas/dispatch.py", "status=sagas[0].status, next_attempt_at__lte=now)",
           "next_attempt_at__lte=now)", SAGAS),
    mutant("dispatch: running jobs are postponed", "sagas/dispatch.py",
           "        jobs |= find_jobs([saga.id for saga in others], attempt_count + 1)\n", "", SAGAS),
    mutant("dispatch: saga before job", "sagas/dispatch.py",
           "        jobs = create_jobs(started, status, attempt_count) if started else {}\n",
           "        _start(status, attempt_count, started)\n"
           "        jobs = create_jobs(started, status, attempt_count) if started else {}\n",
           CRASHES + "undisturbed[dispatch]"),
    Mutant("settle: any attempt_count", "sagas/settle.py", (
        ('                "attempt_count": item.saga.attempt_count,\n', ""),
        ('match=["id", "attempt_count"],', 'match=["id"],'),
    ), (SAGAS,)),
    mutant("settle: marks what was not applied", "sagas/settle.py",
           " for job in jobs if applied[job.saga_id].has_applied(job)}", " for job in jobs}", SAGAS),
    mutant("settle: counts what another has counted", "sagas/settle.py",
           "_to_settled(ids=list(settled)) < len(settled):", "_to_settled(ids=list(settled)) < 0:",
           "tests/webhookhub/stats/test_agreement.py"),
    mutant("pending work: ignores due sagas", "sagas/orchestrator.py", "next_attempt_at <= {now}",
           "next_attempt_at > {now}", "tests/sagas/test_orchestrator.py"),
    mutant("pending work: ignores results", "sagas/orchestrator.py", "settled_at IS NULL AND",
           "settled_at IS NOT NULL AND", "tests/sagas/test_orchestrator.py"),
    mutant("compiled: the first value for all of a list", "webhookhub/db/compiled.py", "values[name][position]",
           "values[name][0]", "tests/webhookhub/db/test_compiled.py"),
    mutant("settle: trusts what another may have changed", "sagas/settle.py",
           "if changed == len(settlements):", "if True:", SAGAS),
    mutant("settle: takes what it does not wait for", "sagas/settle.py",
           "return self.status == IN_PROGRESS and self.attempt_count == job.attempt_no - 1",
           "return self.attempt_count == job.attempt_no - 1 or True", "tests/sagas/test_settle.py"),
    mutant("settle: never marks", "sagas/settle.py", "    marked = _mark(settled)\n",
           "    marked = settled.keys()\n", SAGAS),
    mutant("settle: logs what another has logged", "sagas/settle.py", "others] if item.job.id in marked]",
           "others]]", LOGS),
    mutant("dispatch: logs what another has started", "sagas/dispatch.py",
           "if changed == len(saga_ids):", "if True:", LOGS),
    Mutant("dead-letter: the dead letter last", "sagas/settle.py", (
        ("    create_dead_letters(\n        [\n            NewDeadLetter(",
         "    late = (\n        [\n            NewDeadLetter("),
        ("\n\n\nMESSAGES = {", "\n    create_dead_letters(late)\n\n\nMESSAGES = {"),
    ), (CRASHES + "undisturbed[settle DeadLettered]",)),
    mutant("retry: not later than the attempt before", "sagas/policy.py",
           "max(at, result.attempt_at + MICROSECOND)", "at", "tests/sagas/test_policy.py"),
    mutant("retry: delays are not spread", "sagas/policy.py", "% (2 * SPREAD + 1) - SPREAD", "* 0",
           "tests/sagas/test_policy.py"),
    mutant("retry: the spread differs between processes", "sagas/policy.py",
           'blake2b(f"{saga_id}:{attempts}".encode(), digest_size=8).digest()',
           'hash(f"{saga_id}:{attempts}").to_bytes(8, "big", signed=True)', "tests/sagas/test_policy.py"),
    mutant("retry: the list of delays is not copied", "sagas/create.py",
           '"retry_delays": new.policy.retry_delays,', '"retry_delays": None,', "tests/sagas/test_create.py"),
    mutant("limit: one attempt more", "sagas/policy.py", "attempts >= policy.max_retry_limit",
           "attempts > policy.max_retry_limit", "tests/sagas/test_policy.py"),
    mutant("route: the inbox is never emptied", "events/routing.py",
           "        delete_each(RoutingInbox, ids)\n        return", "        return",
           "tests/events/test_routing.py"),
    mutant("route: the inbox is emptied without a transaction", "events/routing.py",
           "in_transaction(lambda: self._route(batch_size))", "self._route(batch_size)",
           INTAKE),
    mutant("route: waits for open transactions", "events/routing.py",
           "        delete_each(RoutingInbox, ids)\n        return",
           "        RoutingInbox.objects.filter(event_id__in=ids).delete()\n        return", INTAKE),
    mutant("route: unverified subscriptions too", "subscriptions/models.py",
           "self.filter(active=True, verified=True)", "self.filter(active=True)", "tests/events/test_routing.py"),
    mutant("requeue: without the permission", "deadletters/requeue.py", "        if not by.has_perm(permission):\n",
           "        if False:\n", "tests/deadletters/test_requeue.py"),
    mutant("requeue: the same generation", "deadletters/migrations/0002_triggers.py",
           '("generation", "dead.generation + 1")', '("generation", "dead.generation")', REQUEUES),
    mutant("publish: another body is the same event", "events/intake.py", "    if not same:\n", "    if False:\n",
           "tests/events/test_intake.py"),
]  # fmt: skip

NEVER = 'when="1 = 0",'
SCHEMA = [
    mutant("no key on saga and attempt", "jobs/migrations/0001_initial.py",
           'models.UniqueConstraint(fields=("saga", "attempt_no"), name="uniq_job_saga_attempt_no"),', "",
           DATABASE, SAGAS),
    mutant("no key on saga and time of the attempt", "jobs/migrations/0001_initial.py",
           'models.UniqueConstraint(fields=("saga", "attempt_at"), name="uniq_job_saga_attempt"),', "", DATABASE),
    mutant("no key on active jobs", "jobs/migrations/0001_initial.py",
           'models.UniqueConstraint(fields=("active_saga_id",), name="uniq_job_active_saga"),', "", DATABASE),
    mutant("no generation in the key of sagas", "sagas/migrations/0001_initial.py",
           'fields=("event", "subscription", "generation"), name="uniq_saga_event_subscription"',
           'fields=("event", "subscription"), name="uniq_saga_event_subscription"', REQUEUES),
    mutant("no key on a dead letter's requeue", "deadletters/migrations/0001_initial.py", "models.OneToOneField(",
           "models.ForeignKey(", REQUEUES),
    mutant("no key on a saga's dead letter", "deadletters/migrations/0001_initial.py",
           'constraint=models.UniqueConstraint(fields=("saga",), name="uniq_dead_saga"),',
           'constraint=models.UniqueConstraint(fields=("id",), name="uniq_dead_saga"),', DATABASE),
    mutant("no key on source and external id", "events/migrations/0001_initial.py",
           'fields=("source", "external_id"), name="uniq_event_source_external"',
           'fields=("source", "external_id", "id"), name="uniq_event_source_external"', INTAKE),
    mutant("a saga may wait at its limit", "sagas/migrations/0001_initial.py",
           '("attempt_count__lt", models.F("max_retry_limit")),', '("attempt_count__gte", 0),', DATABASE),
    mutant("no trigger fills the inbox", "events/migrations/0002_triggers.py",
           '                Copy(\n                    "trg_event_inbox",\n                    "events",\n'
           '                    "routing_inbox",\n'
           '                    [("event_id", "id"), ("event_type", "event_type")],\n                ),\n',
           "", "tests/events/test_routing.py"),
    mutant("an event without a correlation id", "events/migrations/0002_triggers.py",
           "                CORRELATION,\n", "", DATABASE),
    mutant("a saga may be created in any state", "sagas/migrations/0002_triggers.py",
           "when=f\"NEW.status <> '{PENDING}' OR NEW.attempt_count <> 0\",", NEVER, STATES),
    mutant("a generation may follow none", "sagas/migrations/0002_triggers.py",
           'when="NEW.generation <> 0",', NEVER, STATES),
    mutant("any transition of a saga", "sagas/migrations/0002_triggers.py",
           'when="OLD.status <> NEW.status",', NEVER, STATES),
    mutant("attempts counted without a result", "sagas/migrations/0002_triggers.py",
           'when=f"NEW.attempt_count <> OLD.attempt_count + {RESULTS}",', NEVER, STATES),
    mutant("DeadLettered without a dead letter", "sagas/migrations/0002_triggers.py",
           "when=f\"NEW.status = '{DEAD_LETTERED}' AND OLD.status <> '{DEAD_LETTERED}'\",", NEVER, STATES),
    mutant("a dead letter of a delivery that goes on", "deadletters/migrations/0002_triggers.py",
           'f"AND saga.status IN ({STATUSES}) "', '""', STATES),
    mutant("a dead letter of another event", "deadletters/migrations/0002_triggers.py",
           '"AND saga.event_id = NEW.event_id "', '""', STATES),
    mutant("a dead letter of another subscription", "deadletters/migrations/0002_triggers.py",
           "AND saga.subscription_id = NEW.subscription_id", "", STATES),
    mutant("dead letter: of a saga that has moved on", "deadletters/create.py",
           'where=f"EXISTS ({ENDING_SAGA})",', 'where="1 = 1",', SAGAS),
    mutant("a subscription without attempts", "subscriptions/migrations/0001_initial.py",
           '("max_retry_limit__gte", 1)', '("max_retry_limit__gte", 0)', DATABASE),
    mutant("a saga without attempts", "sagas/migrations/0001_initial.py",
           'condition=models.Q(("max_retry_limit__gte", 1))', 'condition=models.Q(("max_retry_limit__gte", 0))',
           DATABASE),
    mutant("a job may be created in any state", "jobs/migrations/0002_triggers.py",
           "NEW.status <> 'Pending' OR NEW.settled_at IS NOT NULL OR", "", STATES),
    mutant("a job of any attempt", "jobs/migrations/0002_triggers.py",
           " AND saga.attempt_count + 1 = NEW.attempt_no", "", STATES),
    mutant("a job of an ended saga", "jobs/migrations/0002_triggers.py",
           "saga.status NOT IN ('Completed', 'DeadLettered')", "1 = 1", STATES),
    mutant("ended sagas may change", "sagas/migrations/0002_triggers.py",
           "when=\"OLD.status IN ('Completed', 'DeadLettered')\",", NEVER, DATABASE),
    mutant("finished jobs may change", "jobs/migrations/0002_triggers.py",
           "when=\"OLD.status IN ('Completed', 'Failed')\",", NEVER, DATABASE),
    mutant("settled jobs may be settled again", "jobs/migrations/0002_triggers.py",
           'when="OLD.settled_at IS NOT NULL OR NEW.status', 'when="NEW.status', DATABASE),
    mutant("unfinished jobs may be settled", "jobs/migrations/0002_triggers.py",
           "OLD.settled_at IS NOT NULL OR NEW.status NOT IN ('Completed', 'Failed')", "OLD.settled_at IS NOT NULL",
           DATABASE),
    mutant("a generation may follow one that has not ended", "sagas/migrations/0002_triggers.py",
           "AND previous.status IN ('Completed', 'DeadLettered')", "", "tests/conformance/test_state_machine.py"),
    mutant("verified without a verification", "subscriptions/migrations/0002_triggers.py",
           'when="OLD.verified = 0 AND NEW.verified = 1",', NEVER, "tests/subscriptions/test_models.py"),
    mutant("a flag may have a third value", "subscriptions/migrations/0002_triggers.py",
           'NOT_BOOLEAN = "NEW.verified NOT IN (0, 1) OR NEW.active NOT IN (0, 1)"', 'NOT_BOOLEAN = "1 = 0"',
           "tests/subscriptions/test_models.py"),
    mutant("another address keeps the proof", "subscriptions/migrations/0002_triggers.py",
           'Reset("trg_sub_other_url", "subscriptions", "callback_url", "verified", "0"),', "",
           "tests/subscriptions/test_models.py"),
]  # fmt: skip

EGRESS = "tests/webhookhub/egress"
OUTSIDE = [
    mutant("sent although switched off or unverified", "jobs/worker.py", "if not (job.active and job.verified):",
           "if False:", "tests/jobs/test_worker.py"),
    mutant("sent however often it has killed a worker", "jobs/worker.py",
           "elif job.lease_resets > hub().max_lease_resets:", "elif False:", "tests/jobs/test_worker.py"),
    mutant("results forgotten before they are stored", "jobs/worker.py",
           "        report(self.worker_id, batch)\n"
           "        # After the write: if the database is lost, the results are kept until it is back.\n"
           "        del self._reports[: len(batch)]\n",
           "        del self._reports[: len(batch)]\n        report(self.worker_id, batch)\n",
           "tests/jobs/test_worker.py"),
    mutant("signed with the time of the worker's machine", "jobs/worker.py",
           "now = int(self._clock.now().timestamp())", "now = int(time.time())", "tests/webhookhub/db/test_clock.py"),
    mutant("dns: no last good answer", "webhookhub/egress/dns.py",
           "if self.last_good is None or self.denied:", "if True:", f"{EGRESS}/test_dns.py"),
    mutant("dns: an answer of any age", "webhookhub/egress/dns.py", "late and age < max_age", "late",
           f"{EGRESS}/test_dns.py"),
    mutant("dns: names that hang share the threads of others", "webhookhub/egress/dns.py",
           "(self._late_threads if lookup.suspect else self._threads)", "self._threads", f"{EGRESS}/test_dns.py"),
    mutant("dns: the hub's resolver fails at the cost of attempts", "webhookhub/egress/engine.py",
           " and self._resolver.answers_others(lookup))", ")", f"{EGRESS}/test_dns.py"),
    mutant("dns: waiting for a thread counts", "webhookhub/egress/engine.py",
           "started = min(max(item.since, lookup.started_at), now)", "started = item.since", f"{EGRESS}/test_dns.py"),
    mutant("any address may be reached", "webhookhub/egress/addresses.py", "return may_reach(ip_address(text))",
           "return True", f"{EGRESS}/test_address_check.py"),
    mutant("metadata services may be reached", "webhookhub/egress/addresses.py",
           "if address in METADATA or _embedded_ipv4(address) & METADATA:", "if False:", f"{EGRESS}/test_addresses.py"),
    mutant("redirects are followed", "webhookhub/egress/transfer.py", "(pycurl.FOLLOWLOCATION, 0)",
           "(pycurl.FOLLOWLOCATION, 1)", f"{EGRESS}/test_transfer.py"),
    mutant("libcurl repeats requests", "webhookhub/egress/transfer.py",
           "set_option(pycurl.POSTFIELDSIZE, len(request.body))", "set_option(pycurl.POSTFIELDS, request.body)",
           f"{EGRESS}/test_sent_once.py"),
    mutant("any certificate will do", "webhookhub/egress/transfer.py", "(pycurl.SSL_VERIFYPEER, 1)",
           "(pycurl.SSL_VERIFYPEER, 0)", f"{EGRESS}/test_tls.py"),
    mutant("any name on the certificate will do", "webhookhub/egress/transfer.py", "(pycurl.SSL_VERIFYHOST, 2)",
           "(pycurl.SSL_VERIFYHOST, 0)", f"{EGRESS}/test_tls.py"),
    mutant("the id is not signed", "subscriptions/signing.py",
           'b"%b.%d.%b" % (message_id.encode(), timestamp, body)', 'b"%d.%b" % (timestamp, body)',
           "tests/jobs/test_request.py", "tests/subscriptions/test_signing.py"),
    mutant("the replaced secret signs no more", "subscriptions/signing.py",
           "timestamp < endpoint.previous_secret_until.timestamp()", "False", "tests/subscriptions/test_rotation.py",
           "tests/jobs/test_request.py"),
    mutant("rotate: over another's rotation", "subscriptions/secrets.py",
           "filter(id=subscription.id, secret=subscription.secret)", "filter(id=subscription.id)",
           "tests/subscriptions/test_signing.py"),
    mutant("new key: over another's rotation", "subscriptions/reencryption.py", "filter(id=pk, **stored)",
           "filter(id=pk)", "tests/subscriptions/test_reencryption.py"),
    mutant("verify: an address that was changed meanwhile", "subscriptions/verification.py",
           "filter(id=subscription.id, callback_url=subscription.callback_url)", "filter(id=subscription.id)",
           "tests/subscriptions/test_verification.py", "tests/subscriptions/test_models.py"),
    mutant("verify: any 2xx is a proof", "subscriptions/verification.py",
           "if hmac.compare_digest(_returned(response.body).encode(errors=\"replace\"), challenge.encode()):",
           "if True:", "tests/subscriptions/test_verification.py"),
]  # fmt: skip

ALL = [*PROTOCOL, *SCHEMA, *OUTSIDE]
