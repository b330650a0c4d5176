"""A defect, here or in a transport, is told in full; but first what it would leave behind is ended."""

from __future__ import annotations

import json

import pytest

from pytest_sgpu.runners import coordinator

WORK = json.dumps([{"suite": "a"}, {"suite": "b"}])


class Broken:
    """A transport with a defect that shows at its ``number``-th request, before it is sent or after."""

    def __init__(self, github, number, *, sent=False):
        self._github, self._left, self._sent = github, number, sent

    def request(self, method, path, **rest):
        self._left -= 1
        if self._left == 0 and not self._sent:
            raise RuntimeError("a defect")
        answer = self._github.request(method, path, **rest)
        if self._left == 0:
            raise RuntimeError("a defect")
        return answer


@pytest.mark.parametrize("sent", [False, True])
@pytest.mark.parametrize("number", range(1, 20))
def test_a_defect_leaves_no_child(number, sent, github, go, lines):
    github.plan(runner_after=20, runs_for=1000)
    with pytest.raises(RuntimeError, match="a defect"):
        go(Broken(github, number, sent=sent))
    assert "internal error, a report is welcome; the traceback follows" in lines
    github.assert_all_ended()
    assert len(github.children) == (number + sent > 5)  # the fifth request is the dispatch


def test_a_defect_beside_one_worker_leaves_no_child_of_another(github, go):
    github.max_live = 2
    github.plan(runner_after=20, runs_for=1000)
    github.plan(runner_after=20, runs_for=1000)
    with pytest.raises(RuntimeError, match="a defect"):
        go(Broken(github, 30), workload="", workloads=WORK, max_parallel="2")
    assert len(github.children) == 2
    github.assert_all_ended()


def test_the_state_stays_for_the_post_step_when_the_cleanup_meets_the_defect_too(github, go, kept, env, clock):
    github.plan(runner_after=20, runs_for=1000)

    class Worse(Broken):
        def request(self, method, path, **rest):
            if self._left <= 1:
                raise RuntimeError("a defect")
            return super().request(method, path, **rest)

    with pytest.raises(RuntimeError, match="a defect"):
        go(Worse(github, 8))
    (child,) = github.children
    assert kept()["run-id"] == str(child.run_id)
    assert coordinator.cleanup(kept(), env, github, clock).ok
    github.assert_all_ended()
