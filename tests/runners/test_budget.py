"""How long it may take: the figures of the rules, and what they must never say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sgpu.runners.candidates import Candidate
from pytest_sgpu.runners.forecast.budget import HOSTED_MINUTES, budget, refusal, warning


def queues(*minutes: float, rewait: float = 0) -> list[Candidate]:
    made = [Candidate("g", f"l{n}", wait * 60.0) for n, wait in enumerate(minutes)]
    return made + ([Candidate("g", "l0", rewait * 60.0, own_deadline=True, rewait=True)] if rewait else [])


class TestBudget:
    def test_r136_extended_gpu_with_15_minutes_needs_195(self):
        spent = budget(queues(*[15] * 6, rewait=60), 15 * 60)
        assert (spent.queue_seconds, spent.execution_seconds) == (150 * 60, 15 * 60)
        assert (spent.overhead_seconds, spent.parent_minutes) == (120 + 7 * 240, 195)
        assert spent.fits

    def test_r136_extended_cpu_with_15_minutes_is_within_135(self):
        assert budget(queues(10, 10, 10, rewait=60), 15 * 60).parent_minutes == 123

    def test_the_extended_gpu_default_just_fits(self):
        spent = budget(queues(*[15] * 6, rewait=60), 180 * 60)
        assert (spent.parent_minutes, spent.fits) == (360, True)
        assert refusal(spent, ()) is None

    def test_a_part_of_a_minute_is_a_minute(self):
        assert budget([Candidate("g", "l", 1.0)], 1.0).parent_minutes == 7

    def test_workers_one_after_the_other(self):
        candidates = queues(10)
        one = budget(candidates, 600)
        assert budget(candidates, 600, workers=4, max_parallel=4) == one
        three = budget(candidates, 600, workers=5, max_parallel=2)
        assert three.rounds == 3
        assert three.parent_minutes == 3 * (10 + 10 + 4) + 2

    @given(
        st.lists(st.floats(min_value=1, max_value=3600), min_size=1, max_size=7),
        st.floats(min_value=1, max_value=432_000),
        st.integers(1, 50),
        st.integers(1, 20),
    )
    def test_the_parent_outlasts_its_parts(self, waits, execution, workers, parallel):
        candidates = [Candidate("g", f"l{n}", wait) for n, wait in enumerate(waits)]
        spent = budget(candidates, execution, workers=workers, max_parallel=parallel)
        parts = spent.queue_seconds + spent.execution_seconds + spent.overhead_seconds
        assert parts <= spent.parent_minutes * 60 < parts + 61
        assert spent.parent_minutes >= budget(candidates, execution).parent_minutes
        assert (refusal(spent, candidates) is None) == spent.fits == (spent.parent_minutes <= HOSTED_MINUTES)

    def test_amounts_are_of_one_type(self):
        spent = budget(queues(10), 600.0)
        assert {type(amount) for amount in (spent.queue_seconds, spent.execution_seconds, spent.overhead_seconds)} == {
            float
        }


class TestWarning:
    @pytest.mark.parametrize(
        ("minutes", "said"),
        [
            (344, ""),
            (345, "9 of the 360 minutes of a hosted job are left, and its other steps take time too"),
            (353, "1 of the 360 minutes of a hosted job is left, and its other steps take time too"),
            (354, "0 of the 360 minutes of a hosted job are left, and its other steps take time too"),
            (355, ""),
        ],
    )
    def test_little_that_is_left_is_told_and_a_refusal_is_enough(self, minutes, said):
        spent = budget([Candidate("g", "l", 0.0)], minutes * 60.0)
        assert warning(spent) == said
        assert spent.fits == (minutes < 355)


class TestRefusal:
    def test_it_says_what_would_fit(self):
        candidates = queues(*[60] * 6)
        message, ways = refusal(budget(candidates, 15 * 60), candidates) or ("", ())
        assert message == "it may take 401 minutes, and a job on a hosted runner ends after 360"
        assert "queue-timeout-minutes: at most 53 (it counts for 6 of the candidates)" in ways
        assert not any("execution" in way or "re-wait" in way for way in ways)
        assert budget(queues(*[53] * 6), 15 * 60).fits

    def test_a_shorter_execution_that_fits_is_named(self):
        candidates = queues(*[15] * 6, rewait=60)
        _, ways = refusal(budget(candidates, 400 * 60), candidates) or ("", ())
        assert "execution-timeout-minutes: at most 180" in ways
        assert any("re-wait" in way for way in ways)

    def test_many_workers(self):
        candidates = queues(10)
        _, ways = refusal(budget(candidates, 100 * 60, workers=9, max_parallel=2), candidates) or ("", ())
        assert any(way.startswith("workloads:") for way in ways)
        assert "execution-timeout-minutes: at most 57" in ways
        assert budget(candidates, 57 * 60, workers=9, max_parallel=2).fits
        assert not budget(candidates, 58 * 60, workers=9, max_parallel=2).fits

    @pytest.mark.parametrize("execution", [361, 7200])
    def test_there_is_always_something_to_do(self, execution):
        candidates = queues(10)
        _, ways = refusal(budget(candidates, execution * 60), candidates) or ("", ())
        assert ways
