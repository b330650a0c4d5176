"""Learned waits: what past jobs say, whatever shape they have, and what it may change."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sgpu.runners import instants
from pytest_sgpu.runners.candidates import Candidate
from pytest_sgpu.runners.forecast import history
from pytest_sgpu.runners.forecast.history import Past, PoolHistory

NOW = 1_780_000_000.0


def at(seconds: float) -> str:
    return instants.utc(NOW + seconds)


def job(**changes):
    plain = {
        "name": "worker",
        "run_id": 7,
        "status": "completed",
        "conclusion": "success",
        "created_at": at(-1000),
        "started_at": at(-700),
        "completed_at": at(-100),
        "labels": ["linux-amd64-cpu16"],
        "runner_id": 12,
        "runner_name": "r-12",
        "runner_group_name": "nv-cpu-general",
        "steps": [{"status": "completed"}],
    }
    return plain | changes


def run(**changes):
    return {"id": 7, "run_attempt": 1, "status": "completed", "created_at": at(-1001), "updated_at": at(-90)} | changes


def read(one=None, whole=None):
    return history.past(run() if whole is None else whole, {"total_count": 1, "jobs": [job() if one is None else one]})


def cancelled(**changes):
    bare = {"runner_id": 0, "runner_name": "", "runner_group_name": "", "steps": [], "conclusion": "cancelled"}
    return job(**(bare | changes))


class TestPast:
    def test_a_job_that_ran(self):
        known = read()
        assert known == Past(
            "linux-amd64-cpu16", NOW - 1000, NOW - 700, NOW - 100, allocated=True, group="nv-cpu-general"
        )
        assert (known.wait, known.exhausted) == (300, False)

    def test_a_job_that_got_no_runner(self):
        known = read(cancelled())
        assert known is not None
        assert (known.allocated, known.exhausted, known.wait, known.started) == (False, True, None, None)

    def test_started_at_of_a_queued_job_is_no_evidence(self):
        known = read(cancelled(status="queued", conclusion=None, completed_at=None), run(status="queued"))
        assert known is not None
        assert (known.allocated, known.started, known.ended, known.exhausted) == (False, None, None, False)

    @pytest.mark.parametrize(
        "changes",
        [
            {"runner_id": 5},
            {"runner_id": -1},  # as the coordinator takes it (R75)
            {"runner_name": "r"},
            {"steps": [{"status": "queued"}, {"status": "in_progress"}]},
            {"steps": [{"status": "queued", "started_at": "2026-11-20T10:00:00Z"}]},
        ],
    )
    def test_any_sign_of_a_runner_counts(self, changes):
        known = read(cancelled(**changes))
        assert known is not None
        assert (known.allocated, known.exhausted) == (True, False)

    @pytest.mark.parametrize("runner", [None, 0, True, "12", [], 1.5])
    def test_what_is_no_runner(self, runner):
        known = read(cancelled(runner_id=runner, runner_name=None, steps=None))
        assert known is not None
        assert (known.allocated, known.exhausted) == (False, True)

    def test_steps_that_only_wait_prove_nothing_either_way(self):
        known = read(cancelled(steps=[{"status": "queued"}]))
        assert known is not None
        assert (known.allocated, known.exhausted) == (False, False)

    @pytest.mark.parametrize("conclusion", ["failure", "success", "timed_out", None, ["cancelled"]])
    def test_only_a_cancelled_job_says_that_the_pool_was_exhausted(self, conclusion):
        known = read(cancelled(conclusion=conclusion))
        assert known is not None
        assert not known.exhausted

    @pytest.mark.parametrize(
        ("one", "whole"),
        [
            (job(name="build"), run()),
            (job(run_id=8), run()),
            (job(labels=[]), run()),
            (job(labels=["a", "b"]), run()),
            (job(labels="linux"), run()),
            (job(labels=[3]), run()),
            (job(labels=[""]), run()),
            (job(created_at="yesterday"), run(created_at=None)),
            (job(), run(run_attempt=2)),
            (job(), []),
            (None, run()),
        ],
    )
    def test_what_tells_nothing(self, one, whole):
        assert history.past(whole, {"jobs": [one]}) is None

    @pytest.mark.parametrize("jobs", [None, [], {}, {"jobs": None}, {"jobs": []}, {"jobs": [job(), job()]}])
    def test_not_one_job(self, jobs):
        assert history.past(run(), jobs) is None

    def test_clocks_that_differ_make_no_negative_wait(self):
        known = read(job(started_at=at(-1002)))
        assert known is not None
        assert known.wait == 0

    @given(st.data())
    def test_hostile_shapes_never_raise(self, data):
        texts = st.sampled_from(
            ["", "worker", "completed", "cancelled", "2026-02-30T00:00:00Z", at(0), "\x00", "9" * 50]
        )
        leaf = st.none() | st.booleans() | st.integers() | st.floats() | texts
        shapes = st.recursive(
            leaf, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2)
        )
        broken = {key: data.draw(shapes) for key in data.draw(st.sets(st.sampled_from(sorted(job()))))}
        whole = {key: data.draw(shapes) for key in data.draw(st.sets(st.sampled_from(sorted(run()))))}
        known = history.past(run(**whole), {"jobs": [job(**broken)]})
        history.past(data.draw(shapes), data.draw(shapes))
        if known is not None:
            assert not (known.allocated and known.exhausted)
            learned = history.learn([known])
            history.arrange([Candidate("g", known.labels, 600.0), Candidate("g", "other", 600.0)], learned, NOW)


class TestInstants:
    @pytest.mark.parametrize(
        ("text", "seconds"),
        [
            ("1970-01-01T00:00:00Z", 0),
            ("2026-03-10T12:00:00Z", 1773144000),
            ("2026-03-10T12:00:00.250Z", 1773144000.25),
            ("2026-03-10T14:00:00+02:00", 1773144000),
            ("2026-03-10T10:30:00-01:30", 1773144000),
            ("2026-13-10T12:00:00Z", None),
            ("2026-03-10T12:00:00", None),
            ("2026-03-10", None),
            ("0000-00-00T00:00:00Z", None),
            (17, None),
            (None, None),
        ],
    )
    def test_reading(self, text, seconds):
        assert instants.epoch(text) == seconds

    @given(st.floats(min_value=-6e10, max_value=2e11))
    def test_what_is_written_can_be_read(self, seconds):
        again = instants.epoch(instants.utc(seconds))
        assert again is not None
        assert abs(again - seconds) <= 0.0011

    @pytest.mark.parametrize("seconds", [1e300, -1e300, float("inf"), float("nan")])
    def test_what_no_calendar_holds(self, seconds):
        assert instants.utc(seconds) == ""


waits = st.lists(st.floats(min_value=0, max_value=1e6), min_size=1, max_size=30)


class TestLearn:
    def test_nearest_rank(self):
        pasts = [Past("a", 0.0, wait, wait, allocated=True) for wait in (50.0, 15.0, 40.0, 20.0, 35.0)]
        known = history.learn(pasts)["a"]
        assert (known.samples, known.p50, known.p90) == ((15, 20, 35, 40, 50), 35, 50)
        assert known.last_allocated_at == 50

    def test_only_jobs_with_a_runner_are_waits(self):
        pasts = [Past("a", 0.0, None, 600.0, cancelled=True), Past("a", 0.0, None, None)]
        assert history.learn(pasts) == {"a": PoolHistory(last_exhausted_at=600.0)}

    def test_nothing(self):
        assert history.learn([]) == {}

    @given(waits)
    def test_percentiles_are_samples(self, values):
        known = history.learn([Past("a", 0.0, value, None, allocated=True) for value in values])["a"]
        assert known.p50 in known.samples
        assert known.p90 in known.samples
        assert known.p50 <= known.p90
        assert sum(value <= known.p90 for value in known.samples) >= 0.9 * len(values)


def three():
    return [Candidate("g", name, 600.0) for name in ("a", "b", "c")]


def exhausted(age: float, given_after: float | None = None) -> PoolHistory:
    given = None if given_after is None else NOW - age + given_after
    return PoolHistory(last_exhausted_at=NOW - age, last_allocated_at=given)


class TestArrange:
    def test_an_exhausted_pool_is_tried_later_and_shorter(self):
        after, reasons = history.arrange(three(), {"a": exhausted(720)}, NOW)
        assert [(one.labels, one.queue_seconds) for one in after] == [("b", 600), ("c", 600), ("a", 300)]
        since = "a: exhausted 12 minutes ago, and no runner came since"
        assert reasons == (f"{since}: tried after the others, for 5 min instead of 10 min",)

    def test_not_below_a_minute(self):
        short = [Candidate("g", "a", 90.0), Candidate("g", "b", 90.0), Candidate("g", "c", 30.0)]
        after, _ = history.arrange(short, {"a": exhausted(0), "c": exhausted(0)}, NOW)
        assert [(one.labels, one.queue_seconds) for one in after] == [("b", 90), ("a", 60), ("c", 30)]

    def test_a_deadline_of_its_own_stays(self):
        own = [Candidate("g", "a", 900.0, own_deadline=True), *three()[1:]]
        after, reasons = history.arrange(own, {"a": exhausted(60)}, NOW)
        assert after[-1] == own[0]
        assert reasons == (
            "a: exhausted 1 minute ago, and no runner came since: tried after the others, its deadline stays",
        )

    @pytest.mark.parametrize("known", [exhausted(1801), exhausted(600, given_after=1), PoolHistory((3.0,), 3.0, 3.0)])
    def test_what_does_not_count(self, known):
        assert history.arrange(three(), {"a": known}, NOW) == (tuple(three()), ())

    def test_a_runner_before_it_was_exhausted_does_not_help(self):
        after, _ = history.arrange(three(), {"a": exhausted(600, given_after=-1)}, NOW)
        assert after[-1].labels == "a"

    def test_when_all_are_exhausted_nothing_changes(self):
        known = {name: exhausted(60) for name in "abc"}
        after, reasons = history.arrange(three(), known, NOW)
        assert after == tuple(three())
        assert reasons == ("every pool was exhausted a short while ago: order and deadlines stay",)

    def test_a_clock_that_is_a_little_behind(self):
        after, reasons = history.arrange(three(), {"a": exhausted(-60)}, NOW)
        assert after[-1].labels == "a"
        assert "just now" in reasons[0]

    def test_one_candidate_stays(self):
        one = three()[:1]
        assert history.arrange(one, {"a": exhausted(1)}, NOW)[0] == tuple(one)

    def test_none(self):
        assert history.arrange([], {}, NOW) == ((), ())

    @given(
        st.lists(st.tuples(st.floats(min_value=1, max_value=3600), st.booleans()), min_size=1, max_size=6),
        st.sets(st.integers(0, 5)),
        st.booleans(),
        st.floats(min_value=-4000, max_value=4000),
    )
    def test_the_invariants(self, shapes, busy, repeated, age):
        """A permutation; a re-wait stays last, as it was; no deadline grows; the order of the others is kept."""
        before = [Candidate("g", f"l{n}", seconds, own_deadline=own) for n, (seconds, own) in enumerate(shapes)]
        if repeated:
            before.append(Candidate("g", "l0", 3600.0, own_deadline=True, rewait=True))
        known = {f"l{n}": exhausted(age) for n in busy}
        after, reasons = history.arrange(before, known, NOW)
        deadlines = {(one.labels, one.rewait): one.queue_seconds for one in before}
        assert sorted((one.labels, one.rewait) for one in after) == sorted(deadlines)
        for one in after:
            old = deadlines[one.labels, one.rewait]
            assert min(old, 60.0) <= one.queue_seconds <= old
            assert one.queue_seconds == old or not one.own_deadline
        if repeated:
            assert after[-1] == before[-1]
            assert not after[0].rewait
        free = [one for one in before if one.labels not in known]
        assert [one for one in after if one.labels not in known] == free
        assert bool(reasons) or after == tuple(before)
