"""What the runner tools are, and what they keep their hands off: R1, R5, R6."""

from __future__ import annotations

import re
from pathlib import Path

from pytest_sgpu.runners import coordinator

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


def test_r1_the_examples_are_a_parent_that_calls_the_action_and_a_dispatched_child():
    parent = (EXAMPLES / "runner-check.yml").read_text(encoding="utf-8")
    assert "/ci/actions/runner-fallback@" in parent
    (child,) = re.findall(r"^ +workflow: (\S+)$", parent, re.MULTILINE)
    text = (EXAMPLES / child).read_text(encoding="utf-8")
    assert re.search(r"^on:\n  workflow_dispatch:$", text, re.MULTILINE)
    assert re.findall(r"^  ([\w-]+):$", text.partition("\njobs:\n")[2], re.MULTILINE) == ["worker"]


def test_r5_r6_nothing_but_dispatches_and_cancellations_is_posted(github, clock, inputs, env):
    github.never()
    github.plan(conclusion="failure")
    assert coordinator.run(inputs, env, github, clock).kind == "worker_failed"
    assert [request.endpoint for request in github.posts()] == ["dispatch", "cancel", "dispatch"]
    assert {request.method for request in github.requests} == {"GET", "POST"}
