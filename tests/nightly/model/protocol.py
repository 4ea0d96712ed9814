"""One event and one subscription, and every order in which the hub's processes can do their statements.

Each process is a position in its program and the values it has read; a step is one statement, or one transaction where
the code has one. The process may die before any statement. Leases may expire and retries may be due at any time, so
time is not part of the state. Writes have the same guards as in the code; `without` names the guards to remove.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from sagas.transitions import (
    COMPLETED,
    DEAD_LETTERED,
    IN_PROGRESS,
    PENDING,
    PENDING_RETRY,
    TERMINAL,
    WAITING,
)

# What has become of the event.
UNPUBLISHED, OPEN, INBOX, ROUTED, UNMATCHED, ROLLED_BACK = range(6)


class Saga(NamedTuple):
    generation: int
    status: str = PENDING
    attempts: int = 0
    due: bool = True
    parked: bool = False
    applied: tuple[int, ...] = ()  # the attempts whose results it has taken
    received: bool = False  # by the endpoint
    asked: bool = False  # a person has asked to abandon it
    marked: bool = False  # abandoned_by is set


class Job(NamedTuple):
    saga: int
    attempt: int
    status: str = "Pending"
    token: int = 0
    settled: bool = False
    told_by: int = 0  # the token of the worker whose word it holds
    gone: bool = False  # the endpoint has responded with 410


class Process(NamedTuple):
    kind: str
    place: str = ""  # the statement that comes next; none while it is idle
    knows: tuple[int, ...] = ()
    word: str = ""


class State(NamedTuple):
    event: int
    on: bool
    sagas: tuple[Saga, ...]
    jobs: tuple[Job, ...]
    letters: tuple[int, ...]
    requeues: tuple[int, ...]
    disabled: bool  # by a 410, at any time
    processes: tuple[Process, ...]


Step = tuple[str, State]


@dataclass(frozen=True)
class Protocol:
    """How many processes of each kind there are, what may happen, and which guards are missing."""

    routers: int = 0
    orchestrators: int = 1
    workers: int = 1
    cleaners: int = 1
    people: int = 0
    limit: int = 2  # attempts
    generations: int = 1
    switching: bool = False
    abandoning: bool = False
    gone: bool = False
    without: frozenset[str] = frozenset()

    def start(self) -> State:
        kinds = {
            "router": self.routers,
            "orchestrator": self.orchestrators,
            "worker": self.workers,
            "cleaner": self.cleaners,
            "person": self.people,
        }
        processes = tuple(sorted(Process(kind) for kind, count in kinds.items() for _ in range(count)))
        if self.routers:
            return State(UNPUBLISHED, True, (), (), (), (), False, processes)
        return State(ROUTED, True, (Saga(0),), (), (), (), False, processes)

    def steps(self, state: State) -> Iterator[Step]:
        yield from self._world(state)
        seen = set()
        for number, process in enumerate(state.processes):
            if process in seen:
                continue  # two processes of a kind at the same place are the same process
            seen.add(process)
            others = state.processes[:number] + state.processes[number + 1 :]
            if process.place:
                yield f"the {process.kind} dies", _with(state, others, Process(process.kind))
            for label, after, become in getattr(self, f"_{process.kind}")(state, process):
                yield f"{process.kind}: {label}", _with(after, others, become)

    # What nobody decides

    def _world(self, state: State) -> Iterator[Step]:
        match state.event:
            case 0:
                yield "the producer inserts the event", state._replace(event=OPEN)
            case 1:
                # The trigger has filled the inbox in the same transaction.
                inbox = UNMATCHED if "inbox trigger" in self.without else INBOX
                yield "the producer commits", state._replace(event=inbox)
                yield "the producer rolls back", state._replace(event=ROLLED_BACK)
        if self.switching:
            yield f"{SWITCH} {'off' if state.on else 'on'}", state._replace(on=not state.on)
        for number, saga in enumerate(state.sagas):
            if not saga.due and not saga.parked and saga.status in WAITING:
                yield "its time comes", _saga(state, number, saga._replace(due=True))
            if self.abandoning and not saga.asked:
                yield "a person asks to abandon it", _saga(state, number, saga._replace(asked=True))

    # The loops, statement by statement

    def _router(self, state: State, me: Process) -> Iterator[tuple[str, State, Process]]:
        idle = Process("router")
        if not me.place and (state.event == INBOX or (state.event == OPEN and "committed" in self.without)):
            # SKIP LOCKED: nobody else takes the row while a transaction holds it.
            held = any(other.kind == "router" and other.place for other in state.processes)
            if not held or "inbox lock" in self.without:
                yield "takes the event", state, Process("router", "subscriptions")
            if state.event == INBOX:
                # By a hint: without a lock and without a transaction, the subscriptions in the same statement.
                yield "reads the event by a hint", state, Process("router", "hinted births", (int(state.on),))
        elif me.place == "hinted births":
            after = self._born(state, 0) if me.knows[0] else state
            yield "makes the saga", after, Process("router", "remove", me.knows)
        elif me.place == "subscriptions":
            place = "remove" if "births first" in self.without else "births"
            yield "reads the subscriptions", state, Process("router", place, (int(state.on),))
        elif me.place == "births" and "routing transaction" not in self.without:
            after = self._born(state, 0) if me.knows[0] else state
            yield "makes the saga, removes the event, commits", _routed(after, me.knows[0]), idle
        elif me.place == "births":
            after = self._born(state, 0) if me.knows[0] else state
            place = "" if "births first" in self.without else "remove"
            yield "makes the saga", after, Process("router", place, me.knows) if place else idle
        elif me.place == "remove":
            become = Process("router", "births", me.knows) if "births first" in self.without else idle
            yield "removes the event", _routed(state, me.knows[0]), become

    def _orchestrator(self, state: State, me: Process) -> Iterator[tuple[str, State, Process]]:
        yield from self._dispatch(state, me)
        yield from self._settle(state, me)
        yield from self._abandon(state, me)

    def _abandon(self, state: State, me: Process) -> Iterator[tuple[str, State, Process]]:
        idle = Process("orchestrator")
        if not me.place:
            for number, saga in enumerate(state.sagas):
                if saga.asked and saga.status not in TERMINAL:
                    marked = saga if "abandon mark" in self.without else saga._replace(marked=True)
                    become = Process("orchestrator", "abandon: look", (number,))
                    yield "marks the saga as abandoned", _saga(state, number, marked), become
            return
        if not me.place.startswith("abandon: "):
            return
        number = me.knows[0]
        saga = state.sagas[number]
        has_job = any(job.saga == number and job.attempt == saga.attempts + 1 for job in state.jobs)
        waits = saga.status in WAITING
        match me.place.removeprefix("abandon: "):
            case "look":
                doomed = waits and (not has_job or "abandon job" in self.without)
                become = Process("orchestrator", "abandon: letter", me.knows) if doomed else idle
                yield "looks at the abandoned saga and its job", state, become
            case "letter":
                # The statement and the trigger look at the saga and its job again.
                there = number in state.letters
                accepted = waits and (not has_job or "abandon letter" in self.without) and not there
                written = state._replace(letters=(*state.letters, number)) if accepted else state
                yield "writes the dead letter", written, Process("orchestrator", "abandon: end", me.knows)
            case "end":
                if waits and number not in state.letters and "saga trigger" not in self.without:
                    yield "is refused the end", state, Process("orchestrator", "refused saga", me.knows)
                    return
                ends = waits or "abandon status" in self.without
                ended_saga = saga._replace(status=DEAD_LETTERED, due=False, parked=False)
                yield "buries the abandoned saga", _saga(state, number, ended_saga) if ends else state, idle

    def _dispatch(self, state: State, me: Process) -> Iterator[tuple[str, State, Process]]:
        idle = Process("orchestrator")

        def then(place: str) -> Process:
            return Process("orchestrator", place, me.knows, me.word)

        if not me.place:
            for number, saga in enumerate(state.sagas):
                if saga.due and saga.status in WAITING:
                    become = Process("orchestrator", "subscription", (number, saga.attempts), saga.status)
                    yield "reads the due saga", state, become
                first = saga.status == PENDING and saga.attempts == 0 and saga.due and state.on
                first = first and (not saga.marked or "not abandoned" in self.without)
                if first and not any(job.saga == number for job in state.jobs):
                    made = state._replace(jobs=(*state.jobs, Job(number, 1)))
                    yield "inserts the job by a hint", made, Process("orchestrator", "start", (number, 0), PENDING)
                if saga.parked and saga.status in WAITING and state.on and "admission" not in self.without:
                    become = Process("orchestrator", "admit", (number, saga.attempts), saga.status)
                    yield "reads the parked saga", state, become
            return
        if me.place not in ("subscription", "begun", "park", "admit", "job", "start"):
            return
        number, count = me.knows
        saga = state.sagas[number]
        has_job = any(job.saga == number and job.attempt == count + 1 for job in state.jobs)
        match me.place:
            case "subscription":
                if state.on:
                    yield "reads the subscription, the window is open", state, then("job")
                yield "reads the subscription, nothing may go", state, then("begun")
            case "begun":
                yield "looks for the job", state, then("start" if has_job and "begun" not in self.without else "park")
            case "park":
                ok = saga.due and saga.status == me.word
                parked = saga._replace(due=False, parked=True)
                yield "parks the saga", _saga(state, number, parked) if ok else state, idle
            case "admit":
                ok = saga.parked and saga.status in WAITING
                admitted = saga._replace(due=True, parked=False)
                yield "makes the saga due", _saga(state, number, admitted) if ok else state, then("job")
            case "job":
                # The statement itself reads the saga: one that has moved on gets no job. The trigger would refuse it.
                awaits = saga.status == me.word and saga.attempts == count and saga.due
                awaits = awaits and (not saga.marked or "not abandoned" in self.without)
                if not awaits and "insert if unchanged" not in self.without:
                    # Only sagas that have a job go on.
                    yield "inserts no job", state, then("start") if has_job else idle
                    return
                refused = saga.status in TERMINAL or saga.attempts != count
                if refused and "job trigger" not in self.without:
                    yield "is refused a job", state, then("refused")
                    return
                active = any(job.saga == number and job.status in ("Pending", "Leased") for job in state.jobs)
                if active and "active key" not in self.without and (not has_job or "attempt key" in self.without):
                    # Not the key that a repetition meets: an error, which ends the process.
                    yield "is refused a second active job", state, idle if has_job else then("refused")
                    return
                there = has_job and "attempt key" not in self.without
                made = state if there else state._replace(jobs=(*state.jobs, Job(number, count + 1)))
                yield "inserts the job", made, then("start")
            case "start":
                ok = (saga.status == me.word or "start status" in self.without) and (
                    saga.attempts == count or "start count" in self.without
                )
                next_job = any(job.saga == number and job.attempt == saga.attempts + 1 for job in state.jobs)
                if ok and not next_job and "saga trigger" not in self.without:
                    yield "is refused the start", state, then("refused saga")
                    return
                after = _saga(state, number, saga._replace(status=IN_PROGRESS)) if ok else state
                yield "sets the saga InProgress", after, idle

    def _settle(self, state: State, me: Process) -> Iterator[tuple[str, State, Process]]:
        idle = Process("orchestrator")

        def then(place: str) -> Process:
            return Process("orchestrator", place, me.knows)

        if not me.place:
            for number, job in enumerate(state.jobs):
                if job.status in ("Completed", "Failed") and not job.settled:
                    yield "reads a result", state, Process("orchestrator", "view", (number,))
                saga = state.sagas[job.saga]
                awaited = (saga.status == IN_PROGRESS or "apply status" in self.without) and (
                    saga.attempts == job.attempt - 1 or "apply count" in self.without
                )
                counted = self._has_result(state, job.saga, "complete")
                if job.status == "Completed" and awaited and counted and "success" not in self.without:
                    done = saga._replace(
                        status=COMPLETED, attempts=saga.attempts + 1, applied=(*saga.applied, job.attempt)
                    )
                    yield "completes the saga by a hint", _saga(state, job.saga, done), idle
            return
        ending = ("complete", "retry", "letter", "bury", "late letter")
        if me.place not in ("view", "follow", *ending, "again", "gone", "mark"):
            return
        number = me.knows[0]
        job = state.jobs[number]
        saga = state.sagas[job.saga]
        awaits = (saga.status == IN_PROGRESS or "apply status" in self.without) and (
            saga.attempts == job.attempt - 1 or "apply count" in self.without
        )

        def applied(status: str) -> State:
            if not awaits:
                return state
            taken = (*saga.applied, job.attempt)
            changed = saga._replace(
                status=status, attempts=saga.attempts + 1, applied=taken, due=status != PENDING_RETRY, parked=False
            )
            return _saga(state, job.saga, changed)

        if awaits and me.place in ("complete", "retry", "bury") and not self._has_result(state, job.saga, me.place):
            yield "is refused the result", state, then("refused saga")
            return
        match me.place:
            case "view":
                lags = saga.status in WAITING and saga.attempts == job.attempt - 1
                if saga.status == IN_PROGRESS and saga.attempts == job.attempt - 1:
                    yield "decides", state, then(self._decision(job))
                elif lags and "follow" not in self.without:
                    yield (
                        "finds that the saga lags behind",
                        state,
                        Process("orchestrator", "follow", me.knows, saga.status),
                    )
                else:
                    # What the first look has shown is trusted when nothing was to be applied.
                    yield "finds nothing to apply", state, self._marking(saga, job, then, idle)
            case "follow":
                ok = saga.status == me.word and saga.attempts == job.attempt - 1
                after = _saga(state, job.saga, saga._replace(status=IN_PROGRESS)) if ok else state
                yield "sets the saga InProgress", after, then("view")
            case "complete":
                # The number of rows that were changed tells whether anybody else was at it; only then is it read again.
                yield "completes the saga", applied(COMPLETED), then("mark" if awaits else "again")
            case "retry":
                yield "lets the saga wait for a retry", applied(PENDING_RETRY), then("again")
            case "letter":
                last_failed = awaits and job.status == "Failed" and job.attempt == self.limit
                if not (last_failed or saga.status == DEAD_LETTERED) and "letter trigger" not in self.without:
                    yield "is refused the dead letter", state, then("refused letter")
                    return
                there = job.saga in state.letters and "letter key" not in self.without
                written = state if there else state._replace(letters=(*state.letters, job.saga))
                yield "writes the dead letter", written, then("bury")
            case "bury":
                late = "letter first" in self.without
                yield "buries the saga", applied(DEAD_LETTERED), then("late letter" if late else "again")
            case "late letter":
                there = job.saga in state.letters
                written = state if there else state._replace(letters=(*state.letters, job.saga))
                yield "writes the dead letter, late", written, then("again")
            case "again":
                yield "looks again", state, self._marking(saga, job, then, idle)
            case "gone":
                disabled = state._replace(disabled=True, on=False)
                yield "disables the endpoint", disabled, idle if "gone first" in self.without else then("mark")
            case "mark":
                become = then("gone") if job.gone and "gone first" in self.without else idle
                yield "marks the result settled", _job(state, number, job._replace(settled=True)), become

    def _has_result(self, state: State, number: int, place: str) -> bool:
        """The trigger on sagas: the job of the attempt that is counted has the result that the saga takes."""
        saga, wanted = state.sagas[number], "Completed" if place == "complete" else "Failed"
        result = Job(number, saga.attempts + 1, wanted)[:3]
        at_limit = place != "bury" or saga.attempts + 1 == self.limit
        return (at_limit and any(job[:3] == result for job in state.jobs)) or "saga trigger" in self.without

    def _decision(self, job: Job) -> str:
        if job.status == "Completed" and "success" not in self.without:
            return "complete"
        if (job.attempt < self.limit and "patience" not in self.without) or "limit" in self.without:
            return "retry"
        return "bury" if "letter first" in self.without else "letter"

    def _marking(self, saga: Saga, job: Job, then: object, idle: Process) -> Process:
        applied = saga.attempts >= job.attempt or "settled if applied" in self.without
        place = "gone" if job.gone and "gone first" not in self.without else "mark"
        return then(place) if applied else idle  # type: ignore[operator]

    def _worker(self, state: State, me: Process) -> Iterator[tuple[str, State, Process]]:
        idle = Process("worker")
        if not me.place:
            known = {job.token for job in state.jobs} | {p.knows[1] for p in state.processes if len(p.knows) > 1}
            token = next(number for number in range(1, 99) if number not in known)
            for number, job in enumerate(state.jobs):
                if job.status == "Pending":
                    leased = _job(state, number, job._replace(status="Leased", token=token))
                    yield "leases the job", leased, Process("worker", "read", (number, token))
            return
        number, token = me.knows
        job = state.jobs[number]
        saga = state.sagas[job.saga]
        mine = (job.status == "Leased" or "report status" in self.without) and (
            job.token == token or "report token" in self.without
        )
        match me.place:
            case "read":
                if job.token != token:
                    yield "finds the lease gone", state, idle
                else:
                    yield "reads the job", state, Process("worker", "send" if state.on else "release", me.knows)
            case "send":
                received = _saga(state, job.saga, saga._replace(received=True))
                yield "sends: answered 2xx", received, Process("worker", "report", me.knows, "Completed")
                yield "sends: received, no answer", received, Process("worker", "report", me.knows, "Failed")
                yield "sends: not received", state, Process("worker", "report", me.knows, "Failed")
                if self.gone:
                    yield "sends: answered 410", received, Process("worker", "report", me.knows, "Gone")
            case "report":
                gone = me.word == "Gone"
                status = "Failed" if gone else me.word
                told = _job(state, number, job._replace(status=status, told_by=token, gone=gone))
                yield f"reports {me.word}", told if mine else state, idle
            case "release":
                own = (job.status == "Leased" or "release status" in self.without) and job.token == token
                yield "gives the job back", _job(state, number, job._replace(status="Pending")) if own else state, idle

    def _cleaner(self, state: State, me: Process) -> Iterator[tuple[str, State, Process]]:
        if not me.place:
            for number, job in enumerate(state.jobs):
                if job.status == "Leased":
                    yield "finds the lease expired", state, Process("cleaner", "reset", (number, job.token))
            return
        number, token = me.knows
        job = state.jobs[number]
        ok = (job.status == "Leased" or "clean status" in self.without) and job.token == token
        yield (
            "resets the lease",
            _job(state, number, job._replace(status="Pending")) if ok else state,
            Process("cleaner"),
        )

    def _person(self, state: State, me: Process) -> Iterator[tuple[str, State, Process]]:
        if not me.place:
            for number in dict.fromkeys(state.letters):
                if state.sagas[number].generation + 1 < self.generations:
                    yield "asks for a requeue", state, Process("person", "record", (number,))
            return
        number = me.knows[0]
        if me.place == "record":
            there = number in state.requeues and "requeue key" not in self.without
            recorded = state if there else state._replace(requeues=(*state.requeues, number))
            yield "is recorded", recorded, Process("person", "birth", me.knows)
        elif me.place == "birth":
            after = self._born(state, state.sagas[number].generation + 1)
            made = any(saga.generation == state.sagas[number].generation + 1 for saga in after.sagas)
            yield "makes the new saga", after, Process("person") if made else Process("person", "in vain")

    def _born(self, state: State, generation: int) -> State:
        clash = any(saga.generation == generation or "generation" in self.without for saga in state.sagas)
        if clash and "saga key" not in self.without:
            return state
        return state._replace(sagas=(*state.sagas, Saga(generation)))


SWITCH = "the subscription is switched"


def _with(state: State, others: tuple[Process, ...], process: Process) -> State:
    """Processes of a kind are interchangeable: their order does not make another state."""
    return State(*state[:-1], tuple(sorted((*others, process))))


def _saga(state: State, number: int, saga: Saga) -> State:
    return state._replace(sagas=(*state.sagas[:number], saga, *state.sagas[number + 1 :]))


def _job(state: State, number: int, job: Job) -> State:
    return state._replace(jobs=(*state.jobs[:number], job, *state.jobs[number + 1 :]))


def _routed(state: State, matched: int) -> State:
    # Two routers may have seen two answers: one that matched has the last word.
    return state._replace(event=ROUTED if matched or state.sagas else UNMATCHED)


def ended(state: State) -> bool:
    """Nothing is left to do, but for what waits for its subscription to be switched on."""
    if state.event in (UNPUBLISHED, OPEN, INBOX):
        return False
    for job in state.jobs:
        if job.status in ("Completed", "Failed") and not job.settled:
            return False
        if job.status == "Leased" or (job.status == "Pending" and state.on):
            return False
    for number, saga in enumerate(state.sagas):
        if saga.status in TERMINAL:
            continue
        job_waits = any(job.saga == number and job.status == "Pending" for job in state.jobs)
        if state.on or (saga.status == IN_PROGRESS and not job_waits):
            return False
        if saga.asked and saga.status in WAITING and not job_waits:
            return False  # it is abandoned although its subscription is off
    return all(not process.place for process in state.processes)
