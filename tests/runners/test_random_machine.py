"""The machine of one worker against an API that need not be right, on time, or of one mind.

Nothing here knows how the machine works: a witness sees what it asks for and what it is told, and knows the rules.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import get_args

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from pytest_sgpu.runners.acquire import Acquisition
from pytest_sgpu.runners.candidates import Candidate
from pytest_sgpu.runners.machine.actions import (
    Cancel,
    Dispatch,
    Dispatched,
    Failure,
    FindRuns,
    Note,
    Observation,
    ReadDefinition,
    ReadJobs,
    ReadRun,
    ReadSource,
    Save,
    Trouble,
    Wait,
)
from pytest_sgpu.runners.machine.sightings import JobSeen, JobsSeen, RunSeen
from pytest_sgpu.runners.ports import Kind
from pytest_sgpu.runners.settings.inputs import Parent, Settings

# A machine takes some two milliseconds.
MORE = settings(max_examples=20 * settings().max_examples)
PARENT, WORKFLOW, SHA, DEFINITION = 7, "child.yml", "a" * 40, "d" * 40
WINDOW = 120.0
LONGEST = 300.0  # seconds that an effect takes at most, all tries and their pauses included
OVERSLEPT = 5.0  # seconds that a wait lasts too long at most
KINDS = frozenset(get_args(Kind)) - {"config"}  # inputs are read before the machine begins
REFUSED = set(Trouble) - {Trouble.AMBIGUOUS}


# -- what the machine may take at most ---------------------------------------------------------------------


def _most_seconds(given_):
    """Give the time after which it is over, whatever comes; L = LONGEST, s = OVERSLEPT.

    parent 120+L+s; per candidate: preflight 3L, dispatch L, start-up 120+2L+s, the queue twice (not yet queued, then
    queued) q+6L+s (a wait, two reads, two checks, and a fresh look of two), giving up 120+3L+s; once: execution
    e+6L+s; recovery 120+L+s, and per run that has to be ended 120+2L+s, and 45+2L+2s more when that is forced.
    """
    long, slept = LONGEST, OVERSLEPT
    queues = sum(10 * long + 240 + 2 * slept + 2 * (one.queue_seconds + 6 * long + slept) for one in given_.candidates)
    ends = 3 * (165 + 4 * long + 3 * slept)
    return 120 + long + slept + queues + given_.execution_seconds + 6 * long + slept + 120 + long + slept + ends


def _most_effects(given_):
    """Give the effects after which it is over: a look every 5 s in a window, every 60 s (adaptive: 15 s) else.

    A window of 120 s has 25 looks, one more for the rounding of times.
    """
    window, distance = 26, 15.0 if given_.adaptive else 60.0

    def phase(seconds):
        return 5 * (seconds / distance + 2)

    queues = sum(4 + 3 * window + 2 * phase(one.queue_seconds) + 3 * window + 1 for one in given_.candidates)
    return 2 * window + queues + phase(given_.execution_seconds) + 2 * window + 3 * (3 * window + 1 + 3 * 11)


# -- an API --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fate:
    """What becomes of a child when nothing odd happens."""

    runner_after: float | None
    runs_for: float = 30.0
    conclusion: str = "success"
    cancel_takes: float | None = 3.0
    race: bool = False  # a runner comes while it is being cancelled


FATES = st.builds(
    Fate,
    runner_after=st.sampled_from([None, None, None, 20.0, 65.0, 100.0]),
    runs_for=st.sampled_from([5.0, 200.0, 1e6]),
    conclusion=st.sampled_from(["success", "success", "success", "failure", "cancelled", "skipped", "timed_out"]),
    cancel_takes=st.sampled_from([3.0, 0.0, 3.0, 40.0, 119.0, None]),
    race=st.sampled_from([False, False, False, True]),
)
STATUSES: list[object] = ["queued", "in_progress", "completed", "requested", "waiting", "pending", "", "other"]
CONCLUSIONS: list[object] = ["", "success", "cancelled", "failure", "neutral", "skipped"]
RUN: dict[str, list[object]] = {
    "id": [0, 1, PARENT, 999_999],
    "attempt": [0, 2],
    "event": ["push", ""],
    "path": [".github/workflows/other.yml", "", f".github/workflows/{WORKFLOW}@main"],
    "head_sha": ["e" * 40, "", DEFINITION.upper()],
    "title": ["", "other"],
    "status": STATUSES,
    "conclusion": CONCLUSIONS,
}
JOB: dict[str, list[object]] = {
    "id": [0, 5],
    "run_id": [0, 1, PARENT],
    "attempt": [0, 2],
    "name": ["", "other"],
    "status": STATUSES,
    "conclusion": CONCLUSIONS,
    "runner": ["", "r1"],
    "begun": [True, False],
}


def _changes(known):
    return st.one_of([st.fixed_dictionaries({name: st.sampled_from(values)}) for name, values in known.items()])


ENDED = {"status": "completed", "conclusion": "cancelled"}
ANY = st.one_of(
    st.tuples(st.just("trouble"), st.sampled_from(Trouble)),
    st.tuples(st.just("takes"), st.sampled_from([1.0, 31.0, 119.0, 121.0, LONGEST])),
)
AGAIN = st.tuples(st.just("again"), st.just(None))  # the answer before, once more
RUN_TWISTS = ANY | AGAIN | st.tuples(st.just("run"), _changes(RUN) | st.just(ENDED))
JOBS_TWISTS = (
    ANY
    | AGAIN
    | st.tuples(st.just("job"), _changes(JOB) | st.just(ENDED))
    | st.tuples(st.just("jobs"), st.sampled_from(["none", "two", "more"]))
)
# What decides whether a cancelled child is proven to have run nothing.
DECISIVE = {name: JOB[name] for name in ("status", "conclusion", "runner", "begun")}
EVIDENCE = [{"runner": "r1"}, {"begun": True}, {"status": "in_progress"}, {"conclusion": "success"}]
SHA_TWISTS = ANY | st.tuples(st.just("sha"), st.sampled_from(["f" * 40, "", SHA.upper(), DEFINITION.upper()]))
TWISTS = {
    "run": RUN_TWISTS,
    "jobs": JOBS_TWISTS,
    "confirming run": RUN_TWISTS,
    "confirming jobs": JOBS_TWISTS | st.tuples(st.just("job"), _changes(DECISIVE)),
    "cancel": ANY,
    "force": ANY,
    "parent": RUN_TWISTS,
    "source": SHA_TWISTS,
    "definition": SHA_TWISTS,
    "find": ANY | st.tuples(st.just("found"), st.sampled_from([0, 1, 2, 3])),
    "dispatch": ANY | st.tuples(st.just("number"), st.sampled_from([1, 101])),
}
KIND_OF = {
    ReadJobs: "jobs",
    ReadSource: "source",
    ReadDefinition: "definition",
    Dispatch: "dispatch",
    FindRuns: "find",
}


def _surprise(kind):
    """Where, how many pass before, how many it is for, and what is odd about them."""
    skips, times = [0, 0, 0, 1, 2, 3, 5, 8, 13], [1, 1, 2, 5, 30, 10_000]
    return st.tuples(st.just(kind), st.sampled_from(skips), st.sampled_from(times), TWISTS[kind])


SURPRISES = st.lists(st.one_of([_surprise(kind) for kind in TWISTS]), max_size=4)


@dataclass
class Real:
    """A child that there really is."""

    number: int
    title: str
    at: float
    fate: Fate
    cancelled_at: float | None = None
    asked: bool = False

    def _times(self):
        fate = self.fate
        stop = None
        if self.cancelled_at is not None and fate.cancel_takes is not None:
            stop = self.cancelled_at + fate.cancel_takes
        runner = None if fate.runner_after is None else self.at + fate.runner_after
        if fate.race and self.cancelled_at is not None and runner is None:
            runner = self.cancelled_at + 0.5 * (fate.cancel_takes or 2.0)
        if runner is not None and stop is not None and stop <= runner:
            runner = None
        natural = None if runner is None else runner + fate.runs_for
        return runner, natural, stop

    def seen(self, now):
        """Give the run and the job."""
        runner, natural, stop = self._times()
        end = min((at for at in (natural, stop) if at is not None), default=None)
        has = runner is not None and runner <= now
        status, conclusion = ("in_progress" if has else "queued"), ""
        if end is not None and end <= now:
            status, conclusion = "completed", "cancelled" if end == stop else self.fate.conclusion
        path = f".github/workflows/{WORKFLOW}"
        run = RunSeen(
            self.number, 1, "workflow_dispatch", path, DEFINITION, self.title, status, conclusion, "https://x"
        )
        job = JobSeen(
            10 * self.number, self.number, 1, "worker", status, conclusion, "r1" if has else "", has, "https://x/j"
        )
        return run, job


class World:
    """Answers every effect; ``twist`` says what is odd about the answer to it."""

    def __init__(self, fates, twist, twin=Fate(None)):
        self.twin = twin  # of what something on the way has sent twice
        self.fates = list(fates)
        self.twist = twist
        self.now = 5000.0
        self.children = {}
        self.before = {}
        self.number = 100

    def answer(self, effect):
        began = self.now
        if isinstance(effect, Wait):
            self.now = max(self.now, effect.until) + self.twist("wait")
            return Observation(self.now, self.now)
        kind = self.kind(effect)
        twists = self.twist(kind)
        took = min(LONGEST, sum((value for what, value in twists if what == "takes"), 0.1))
        # What takes long was tried before; the answer is that of the last try.
        began += took / 2 if took > 30 else 0.0
        answer = self._right(effect, began)
        self.now += took
        failure = None
        for what, value in twists:
            if what == "trouble":
                failure = Failure(value, f"{kind}: {value.value}")
            else:
                answer = self._odd(answer, what, value, effect)
        if failure is None:
            self.before[_question(effect)] = answer
        return Observation(began, self.now, None if failure else answer, failure)

    def kind(self, effect):
        if isinstance(effect, Cancel):
            return "force" if effect.force else "cancel"
        kind = KIND_OF.get(type(effect), "run")
        if not isinstance(effect, ReadRun | ReadJobs):
            return kind
        if effect.run_id == PARENT:
            return "parent"
        real = self.children.get(effect.run_id)
        return f"confirming {kind}" if real and real.asked else kind

    def _right(self, effect, now):
        if isinstance(effect, ReadRun | ReadJobs):
            return self._shown(effect, now)
        if isinstance(effect, Dispatch):
            self.number += 1
            fate = self.fates.pop(0) if self.fates else Fate(None)
            self.children[self.number] = Real(self.number, effect.inputs["request-id"], now, fate)
            return Dispatched(self.number, "https://x")
        if isinstance(effect, FindRuns):
            found = [real for real in self.children.values() if real.title == effect.title]
            return tuple(real.seen(now)[0] for real in found)
        if isinstance(effect, Cancel) and effect.run_id in self.children:
            real = self.children[effect.run_id]
            real.asked = True
            real.cancelled_at = now if real.cancelled_at is None else real.cancelled_at
        return {ReadSource: SHA, ReadDefinition: DEFINITION}.get(type(effect))

    def _shown(self, effect, now):
        if effect.run_id == PARENT:
            return RunSeen(PARENT, 1, "push", "p", SHA, "parent", "in_progress", "", "https://p")
        real = self.children.get(effect.run_id) or Real(effect.run_id, "?", now, Fate(None))
        run, job = real.seen(now)
        return run if isinstance(effect, ReadRun) else JobsSeen(1, (job,))

    def _odd(self, answer, what, value, effect):
        if what == "again":
            return self.before.get(_question(effect), answer)
        if isinstance(answer, JobsSeen) and what in ("job", "jobs"):
            return self._odd_jobs(answer, value)
        if (isinstance(answer, RunSeen) and what == "run") or (isinstance(answer, Dispatched) and what == "number"):
            return replace(answer, **(value if what == "run" else {"run_id": value}))
        if what == "found" and isinstance(answer, tuple):  # what is found has that very title: the client saw to it
            twins = [replace(run, id=run.id + 1000 * n) for n in range(value) for run in answer[:1]]
            for twin in twins[1:]:
                self.children.setdefault(twin.id, Real(twin.id, twin.title, self.now, self.twin))
            return tuple(twins)
        return value if what == "sha" and isinstance(answer, str) else answer

    def _odd_jobs(self, answer, value):
        if isinstance(value, dict):
            return replace(answer, jobs=tuple(replace(job, **value) for job in answer.jobs))
        jobs = {"none": (), "two": answer.jobs * 2, "more": answer.jobs}[value]
        return JobsSeen(2 if jobs else 0, jobs)


def _question(effect):
    return type(effect), getattr(effect, "run_id", 0)


# -- the witness ---------------------------------------------------------------------------------------------


def _evidence(jobs):
    return any(
        job.runner or job.begun or job.status == "in_progress" or job.conclusion == "success" for job in jobs.jobs
    )


@dataclass
class Sent:
    """What the answers so far say about one dispatch."""

    name: str
    candidate: Candidate
    definition: str
    runs: list[int] = field(default_factory=list)
    refused: bool = False
    ambiguous: bool = False
    run: RunSeen | None = None
    jobs: JobsSeen | None = None
    looks: Counter[str] = field(default_factory=Counter)  # since its cancellation was asked for, and in time
    over: dict[int, bool] = field(default_factory=dict)
    cancelled_at: float | None = None
    refused_at: float | None = None  # by a conflict
    queued_at: float | None = None
    looked_at: float = 0.0  # when the last look at its jobs began
    evidence: bool = False

    @property
    def ended(self):
        return self.refused or (bool(self.runs) and all(self.over.get(number) for number in self.runs))

    def looks_exact(self):
        run = self.run
        return run is not None and (
            (run.id, run.attempt, run.event, run.title) == (self.runs[0], 1, "workflow_dispatch", self.name)
            and run.path.split("@")[0] == f".github/workflows/{WORKFLOW}"
            and run.head_sha.lower() == self.definition.lower()
        )

    def job(self):
        assert self.jobs is not None
        assert self.jobs.total == 1
        (job,) = self.jobs.jobs
        assert (job.name, job.run_id) == ("worker", self.runs[0])
        return job

    def proven(self):
        """Say that it was cancelled, in time, before anything ran."""
        assert not self.refused
        assert not self.ambiguous
        assert self.cancelled_at is not None
        assert not self.evidence
        assert self.looks["run"]
        assert self.looks["jobs"]
        assert self.looks["last late"] == 0
        assert self.looks_exact()
        assert self.run is not None
        assert (self.run.status, self.run.conclusion) == ("completed", "cancelled")
        job = self.job()
        assert (job.status, job.conclusion) == ("completed", "cancelled")


class Witness:
    def __init__(self, given_, now):
        self.given = given_
        self.sent: list[Sent] = []
        self.saved: dict[str, str] = {}
        self.now = now
        self.error = False
        self.definition = ""

    def remark(self, action):
        if isinstance(action, Save):
            self.saved = dict(action.state)
        elif action.event == "error":
            self.error = True

    @property
    def last(self):
        return self.sent[-1] if self.sent else None

    def asked(self, effect):
        """Look at what the machine wants, before it is done."""
        own = [number for sent in self.sent for number in sent.runs]
        if isinstance(effect, Dispatch):
            self._dispatched(effect)
        elif isinstance(effect, FindRuns):
            assert self.last
            assert self.last.ambiguous
            assert effect.title == self.last.name
        elif isinstance(effect, Cancel):
            assert effect.run_id in own, "not ours"
            self._cancelled(effect)
        elif isinstance(effect, ReadJobs):
            assert effect.run_id in own
        elif isinstance(effect, ReadRun):
            assert effect.run_id in (*own, PARENT)
        if self.last and not self.last.ended:
            # Whatever ends the process now, what is kept finds the child (R114).
            assert self.saved.get("request-id") == self.last.name
            assert self.saved.get("workflow") == WORKFLOW
            if not self.last.ambiguous and self.last.runs:
                assert self.saved.get("run-id") == str(self.last.runs[0])

    def _dispatched(self, effect):
        for sent in self.sent:
            sent.proven()
        name = effect.inputs["request-id"]
        assert name not in [sent.name for sent in self.sent]
        assert len(self.sent) < len(self.given.candidates)
        assert self.saved.get("request-id") == name
        assert not self.error
        self.sent.append(Sent(name, self.given.candidates[len(self.sent)], self.definition))

    def _cancelled(self, effect):
        sent = self._of(effect.run_id)
        if not self.error and not sent.ambiguous:
            assert not effect.force, "never of a fallback"
            assert not sent.evidence
            assert sent.queued_at is None or sent.looked_at >= sent.queued_at + sent.candidate.queue_seconds
            assert all(job.status != "completed" for job in sent.jobs.jobs), "it is over, and not by our doing (R93)"
            assert sent.run.status != "completed", "it is over, and not by our doing (R93)"
            if sent.cancelled_at is not None:  # asked for again, since it was refused: within the same window
                assert sent.refused_at is not None
                assert sent.refused_at + 25 <= self.now <= sent.cancelled_at + WINDOW
            sent.cancelled_at = self.now if sent.cancelled_at is None else sent.cancelled_at
            sent.refused_at = None
        if effect.force:
            assert self.given.force_cancel
            assert self.error or sent.ambiguous

    def told(self, effect, seen):
        """Take what it is told."""
        self.now = seen.ended
        failed = seen.failure
        if isinstance(effect, Dispatch):
            sent = self.sent[-1]
            sent.refused = bool(failed and failed.trouble in REFUSED)
            sent.ambiguous = bool(failed and not sent.refused)
            sent.runs += [seen.answer.run_id] if seen.answer else []
        elif failed:
            if isinstance(effect, Cancel) and failed.trouble is Trouble.CONFLICT:
                self._of(effect.run_id).refused_at = seen.ended
        elif isinstance(effect, FindRuns):
            self.sent[-1].runs += [run.id for run in seen.answer]
        elif isinstance(effect, ReadDefinition):
            self.definition = seen.answer
        elif isinstance(effect, ReadRun | ReadJobs) and effect.run_id != PARENT:
            self._looked(self._of(effect.run_id), effect, seen)

    def _of(self, number):
        """Give whose run it is; an API that is beside itself may give two dispatches the same run."""
        return [sent for sent in self.sent if number in sent.runs][-1]

    def _looked(self, sent, effect, seen):
        late = sent.cancelled_at is not None and seen.ended > sent.cancelled_at + WINDOW
        sent.looks["last late"] = int(late)
        if isinstance(seen.answer, JobsSeen):
            sent.jobs = seen.answer
            sent.looked_at = seen.began
            sent.evidence |= _evidence(seen.answer)
            sent.looks["jobs"] += sent.cancelled_at is not None
            if sent.queued_at is None and any(job.status == "queued" for job in seen.answer.jobs):
                sent.queued_at = seen.ended
            return
        sent.run = seen.answer
        sent.looks["run"] += sent.cancelled_at is not None
        if seen.answer.id == effect.run_id:
            sent.over[effect.run_id] = seen.answer.status == "completed"

    def ended(self, end, machine):
        assert end.kind in KINDS
        assert [one.request_id for one in end.attempts] == [sent.name for sent in self.sent]
        assert machine.attempts() == end.attempts
        assert end.cleanup in ("", "confirmed", "unconfirmed")
        assert (end.cleanup == "unconfirmed") == bool(end.state)
        assert self.saved == end.state
        for sent in self.sent[:-1]:
            sent.proven()
        if self.last and not self.last.ended:
            assert end.cleanup == "unconfirmed", f"{self.last.name} may be live: {self.last.over}"
            assert end.state["request-id"] == self.last.name
        assert self.last or end.cleanup == ""
        if end.kind == "cancel_unconfirmed":
            assert self.last
            (job,) = self.last.jobs.jobs
            both = [self.last.run, job]
            over = all(seen.status == "completed" and seen.conclusion for seen in both)
            assert end.cleanup == ("" if over else "unconfirmed"), "it has ended, or it may go on"
        if end.kind == "queue_exhausted":
            assert len(self.sent) == len(self.given.candidates)
            self.sent[-1].proven()
        if end.kind == "":
            assert self.last
            assert self.last.looks_exact()
            assert (self.last.run.status, self.last.run.conclusion) == ("completed", "success")
            job = self.last.job()
            assert (job.status, job.conclusion) == ("completed", "success")
            assert not end.cleanup


def _settings(queues, execution, *, pinned=False, adaptive=False, force=False):
    return Settings(
        repository="o/r",
        server_url="https://github.com",
        parent=Parent(PARENT, 1),
        workflow=WORKFLOW,
        workflow_ref="main",
        source_ref="refs/heads/x",
        source_sha=SHA,
        runner_type="cpu-amd64",
        candidates=tuple(Candidate("g", f"pool-{n}", seconds) for n, seconds in enumerate(queues)),
        execution_seconds=execution,
        pinned=pinned,
        workloads=("{}",),
        max_parallel=1,
        history=False,
        conditional=False,
        adaptive=adaptive,
        force_cancel=force,
        timeline="",
    )


SETTINGS = st.builds(
    _settings,
    st.lists(st.sampled_from([60.0, 61.0, 1.0, 600.0]), min_size=1, max_size=3),
    st.sampled_from([60.0, 1000.0]),
    pinned=st.booleans(),
    adaptive=st.booleans(),
    force=st.booleans(),
)


def _play(given_, world):
    """Run one machine to its end under the eyes of a witness."""
    begun = world.now
    witness = Witness(given_, begun)
    machine = Acquisition(given_, "{}", lambda number: f"id-{number}")
    actions, effects = machine.start(begun), 0
    while machine.end is None:
        *remarks, effect = actions
        for one in remarks:
            assert isinstance(one, Note | Save)
            witness.remark(one)
        witness.asked(effect)
        effects += 1
        assert effects <= _most_effects(given_)
        seen = world.answer(effect)
        witness.told(effect, seen)
        actions = machine.handle(seen)
    for one in actions:
        assert isinstance(one, Note | Save)
        witness.remark(one)
    assert world.now - begun <= _most_seconds(given_)
    witness.ended(machine.end, machine)
    return machine.end


class Scripted:
    """Twists as ``SURPRISES`` say."""

    def __init__(self, surprises, slept):
        self.left = [[kind, skip, times, twist] for kind, skip, times, twist in surprises]
        self.slept = slept

    def __call__(self, kind):
        if kind == "wait":
            return self.slept
        twists = []
        for one in self.left:
            if one[0] != kind or not one[2]:
                continue
            if one[1]:
                one[1] -= 1
                continue
            one[2] -= 1
            twists.append(one[3])
        return twists


class Wild:
    """Twists without any plan; each answer is odd with a chance."""

    def __init__(self, rnd, chance):
        self.rnd = rnd
        self.chance = chance

    def __call__(self, kind):
        rnd = self.rnd
        if kind == "wait":
            return rnd.choice([0.0, 0.0, OVERSLEPT])
        if rnd.random() >= self.chance:
            return []
        name = rnd.choice(["run", "job", "jobs", "again", "trouble", "takes", "sha", "found", "number"])
        values = {"trouble": list(Trouble), "takes": [1.0, 40.0, LONGEST], "found": [0, 1, 2, 3], "number": [1, 101]}
        if name in ("run", "job"):
            known = RUN if name == "run" else JOB
            field_ = rnd.choice(sorted(known))
            value = rnd.choice([{field_: rnd.choice(known[field_])}, ENDED])
        elif name == "jobs":
            value = rnd.choice(["none", "two", "more"])
        elif name == "sha":
            value = rnd.choice(["f" * 40, SHA.upper()])
        else:
            value = rnd.choice(values.get(name, [None]))
        return [(name, value)]


@MORE
@given(SETTINGS, st.lists(FATES, max_size=3), SURPRISES, st.sampled_from([0.0, OVERSLEPT]))
def test_the_rules_hold_whatever_the_api_answers(given_, fates, surprises, slept):
    end = _play(given_, World(fates, Scripted(surprises, slept)))
    event(f"{end.kind or 'success'} {end.cleanup}")
    event(f"dispatches: {len(end.attempts)}")


@MORE
@given(SETTINGS, st.lists(FATES, max_size=3), st.integers(0, 2**32), st.sampled_from([0.01, 0.03, 0.1, 0.5]))
def test_the_rules_hold_when_nothing_makes_sense(given_, fates, seed, chance):
    rnd = random.Random(seed)
    end = _play(given_, World(fates, Wild(rnd, chance)))
    event(f"{end.kind or 'success'} {end.cleanup}")


@MORE
@given(
    given_=SETTINGS,
    fates=st.lists(FATES, max_size=3),
    twin=FATES,
    at=st.sampled_from([0, 0, 1, 2]),
    found=st.sampled_from([1, 1, 0, 2, 3]),
    surprises=SURPRISES,
)
def test_a_dispatch_whose_answer_is_lost_is_found_and_ended_or_reported(given_, *, fates, twin, at, found, surprises):
    lost = [("dispatch", at, 1, ("trouble", Trouble.AMBIGUOUS)), ("find", 0, 10_000, ("found", found))]
    fates = [*(Fate(None) for _ in range(at)), *fates]
    end = _play(given_, World(fates, Scripted([*lost, *surprises], 0.0), twin))
    event(f"{end.kind or 'success'} {end.cleanup}")
    assert end.kind or len(end.attempts) <= at
    heard = [*fates, Fate(None)][at].cancel_takes is not None
    if end.kind == "dispatch_ambiguous" and found == 1 and heard and not surprises:
        assert end.cleanup == "confirmed"


HARMLESS = ({"path": f".github/workflows/{WORKFLOW}@main"}, {"head_sha": DEFINITION.upper()}, {"attempt": 0})
CHANGES: dict[str, dict[str, list[object]]] = {"run": RUN, "jobs": JOB}
INEXACT = [
    (kind, {name: value})
    for kind, known in CHANGES.items()
    for name, values in known.items()
    for value in values
    if (name, value) not in (("conclusion", "cancelled"), ("status", "completed"), ("begun", False), ("runner", ""))
]


@pytest.mark.parametrize("takes", [0.0, 10.0])
@pytest.mark.parametrize(("kind", "change"), INEXACT, ids=lambda value: str(value)[:40])
def test_r84_a_confirmation_that_differs_in_anything_is_none(kind, change, takes):
    twist = (f"confirming {kind}", 0, 10_000, ("run" if kind == "run" else "job", change))
    given_ = _settings([60.0, 60.0], 60.0)
    end = _play(given_, World([Fate(None, cancel_takes=takes), Fate(20.0)], Scripted([twist], 0.0)))
    harmless = change in HARMLESS and (kind, change) != ("run", {"attempt": 0})
    assert len(end.attempts) == (2 if harmless else 1)


@pytest.mark.parametrize("job", [*CONCLUSIONS, "timed_out"])
@pytest.mark.parametrize("run", [*CONCLUSIONS, "timed_out"])
def test_r96_only_success_of_run_and_job_is_success(run, job):
    twists = [("run", 0, 10_000, ("run", {"conclusion": run})), ("jobs", 0, 10_000, ("job", {"conclusion": job}))]
    end = _play(_settings([60.0, 60.0], 600.0), World([Fate(20.0), Fate(20.0)], Scripted(twists, 0.0)))
    kind = "execution_timeout" if "" in (run, job) else "worker_failed"
    assert end.kind == ("" if run == job == "success" else kind)
    assert len(end.attempts) == 1


@pytest.mark.parametrize("looks", [0, 1])
@pytest.mark.parametrize("conclusion", ["cancelled", "failure", "skipped", "neutral", "timed_out"])
def test_r93_what_ends_without_our_doing_has_failed(conclusion, looks):
    """Also without a trace of a runner, and also when it says that it was cancelled."""
    ended = {"status": "completed", "conclusion": conclusion}
    twists = [("run", looks, 10_000, ("run", ended)), ("jobs", looks, 10_000, ("job", ended))]
    end = _play(_settings([120.0, 60.0], 600.0), World([Fate(None), Fate(20.0)], Scripted(twists, 0.0)))
    assert (end.kind, len(end.attempts)) == ("worker_failed", 1)


@pytest.mark.parametrize("looks", [0, 1])
@pytest.mark.parametrize("kind", ["run", "jobs"])
@pytest.mark.parametrize("conclusion", ["", "cancelled", "success"])
def test_r79_what_has_ended_in_run_or_job_alone_at_the_deadline_has_failed(conclusion, kind, looks):
    """The witness sees that nothing is cancelled before the failure."""
    ended = {"status": "completed", "conclusion": conclusion}
    twist = (kind, looks, 10_000, ("run" if kind == "run" else "job", ended))
    end = _play(_settings([120.0, 60.0], 600.0), World([Fate(None), Fate(20.0)], Scripted([twist], 0.0)))
    evidence = kind == "jobs" and conclusion == "success"  # a job that passed was run by somebody
    assert (end.kind, len(end.attempts)) == ("execution_timeout" if evidence else "worker_failed", 1)


CONFIRMING = st.lists(
    st.one_of([_surprise(kind) for kind in ("confirming run", "confirming jobs", "cancel")]), min_size=1, max_size=3
)


@MORE
@given(SETTINGS, st.sampled_from([3.0, 3.0, 50.0, None]), CONFIRMING)
def test_only_an_exact_confirmation_leads_to_a_fallback(given_, takes, surprises):
    fates = [Fate(None, cancel_takes=takes), Fate(20.0)]
    end = _play(given_, World(fates, Scripted(surprises, 0.0)))
    event(f"{end.kind or 'success'} {end.cleanup}")


@given(
    SETTINGS,
    st.integers(0, 12),
    st.sampled_from(EVIDENCE),
    st.sampled_from(["jobs", "jobs", "confirming jobs"]),
    st.sampled_from([3.0, 20.0, None]),
)
def test_r92_evidence_in_one_look_is_for_good(given_, at, evidence, kind, takes):
    """Whatever later looks say, nothing is dispatched any more; the witness knows the look."""
    world = World([Fate(None, cancel_takes=takes)] * 3, Scripted([(kind, at, 1, ("job", evidence))], 0.0))
    end = _play(given_, world)
    event(f"{end.kind or 'success'} {end.cleanup}")


@MORE
@given(
    SETTINGS,
    st.lists(FATES, min_size=3, max_size=3),
    st.integers(0, 40),
    st.sampled_from(sorted(TWISTS)).flatmap(_surprise),
)
def test_one_odd_answer_anywhere_breaks_no_rule(given_, fates, at, surprise):
    """The first candidates get no runner, so that the odd answer often comes where a fallback is due."""
    fates = [replace(fates[0], runner_after=None, race=False), replace(fates[1], runner_after=None), fates[2]]
    _play(given_, World(fates, Scripted([(surprise[0], at, 1, surprise[3])], 0.0)))


@given(SETTINGS, st.lists(FATES, max_size=3))
def test_without_anything_odd_the_fates_decide(given_, fates):
    """The witness is no use if the machine never gets anywhere: what is to succeed does, and what is to fail fails."""
    end = _play(given_, World(fates, Scripted([], 0.0)))
    number = len(end.attempts)
    fate = (fates + [Fate(None)] * 3)[number - 1]
    if end.kind == "":
        assert fate.conclusion == "success"
    if end.kind == "queue_exhausted":
        assert number == len(given_.candidates)
    if end.kind == "race":
        assert fate.race or fate.runner_after is not None
    if end.kind == "cancel_unconfirmed":
        assert fate.cancel_takes is None or fate.cancel_takes > 100
    assert end.kind in ("", "queue_exhausted", "race", "cancel_unconfirmed", "worker_failed", "execution_timeout")
