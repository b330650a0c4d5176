"""A view without secrets: every text in it that came from elsewhere goes through one function, before any is cut."""

from __future__ import annotations

from dataclasses import replace

from pytest_sgpu.core.redact import Clean, unchanged
from pytest_sgpu.core.text import decoded
from pytest_sgpu.core.timeline import Timeline
from pytest_sgpu.model import Key, Leftover, Notice, Outcome
from pytest_sgpu.report.view import RunView


def cleaned(view: RunView, clean: Clean) -> RunView:
    """Give the view with ``clean`` over its texts. A key that it changes is changed wherever it stands."""
    if clean is unchanged:
        return view
    known: dict[int, Outcome] = {}

    def outcome(one: Outcome) -> Outcome:
        made = known.get(id(one))
        if made is None:
            made = known[id(one)] = clean_outcome(one, clean)
        return made

    return replace(
        view,
        outcomes=tuple(map(outcome, view.outcomes)),
        verdicts=tuple(
            replace(one, suite=clean(one.suite), outcomes=tuple(map(outcome, one.outcomes))) for one in view.verdicts
        ),
        timeline=_timeline(view.timeline, clean),
        notices=tuple(Notice(clean(one.text), clean(one.where)) for one in view.notices),
        log_of={clean(key): clean(path) for key, path in view.log_of.items()},
        tail_of={clean(key): clean(decoded(tail)) for key, tail in view.tail_of.items()},
        rerun_of={clean(key): clean(command) for key, command in view.rerun_of.items()},
        interrupted=clean(view.interrupted),
        attempts={clean(key): tuple(map(outcome, some)) for key, some in view.attempts.items()},
        attempt_log_of={(clean(key), number): clean(path) for (key, number), path in view.attempt_log_of.items()},
        quarantines=tuple(
            replace(one, worker=clean(one.worker), devices=tuple(map(clean, one.devices)), reason=clean(one.reason))
            for one in view.quarantines
        ),
        health_log_of={clean(worker): clean(path) for worker, path in view.health_log_of.items()},
        parts=tuple(replace(one, commit=clean(one.commit)) for one in view.parts),
        title=clean(view.title),
    )


def clean_outcome(one: Outcome, clean: Clean) -> Outcome:
    """Give an outcome with ``clean`` over its key, its reason and what its JUnit files and processes said."""
    facts = one.junit
    return replace(
        one,
        key=_key(one.key, clean),
        worker=clean(one.worker),
        reason=clean(one.reason),
        left=tuple(Leftover(left.pid, clean(left.command)) for left in one.left),
        junit=replace(
            facts,
            failing=tuple((clean(name), clean(said)) for name, said in facts.failing),
            damage=clean(facts.damage),
            warnings=tuple(map(clean, facts.warnings)),
        ),
    )


def _key(key: Key, clean: Clean) -> Key:
    text = clean(str(key))
    return key if text == str(key) else Key.parse(text)


def _timeline(line: Timeline, clean: Clean) -> Timeline:
    lanes = (
        replace(lane, spans=tuple(replace(span, key=_key(span.key, clean)) for span in lane.spans))
        for lane in line.lanes
    )
    errors = (replace(one, key=_key(one.key, clean)) for one in line.estimate_errors)
    return replace(line, lanes=tuple(lanes), estimate_errors=tuple(errors))
