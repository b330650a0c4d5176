"""The summary of an acquisition: Markdown for the page of the coordinator's job."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from pytest_sgpu.runners.candidates import Candidate
from pytest_sgpu.runners.links import FALLBACK, LOGS, URL, run_url, worker_link
from pytest_sgpu.runners.ports import Attempt, Result
from pytest_sgpu.runners.text import duration, markdown

ROWS = 400
"""So many dispatches are listed: GitHub takes no summary of more than 1 MiB."""

_SENTENCE = re.compile(rf"\.? ?{LOGS}: {URL}( {re.escape(FALLBACK)})?")
_STATE = re.compile(r"run-id(-[0-9]+)?")
_OUTCOMES = {
    "success": "success",
    "worker_failed": "worker failed",
    "no_runner": "no runner in time, cancelled",
    "parent_cancelled": "interrupted",
    "": "interrupted",
}


def render(
    result: Result,
    candidates: Sequence[Candidate],
    *,
    repository: str,
    server_url: str,
    cleanup: str,
    workers: int,
) -> str:
    """Give the whole summary (R125, R127). ``cleanup``: "confirmed", "unconfirmed", or "" when none was needed."""
    page = _Page(repository, server_url)
    parts = [
        _head(result, workers),
        page.ends(result.attempts, workers),
        _cleanup(result.state, cleanup),
        page.attempts(result.attempts, workers),
        _candidates(candidates, result.attempts),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _head(result: Result, workers: int) -> str:
    many = f", {workers} workers" if workers > 1 else ""
    told = result.message.replace("\n  hint: ", "; hint: ")
    message = markdown(_SENTENCE.sub("", told), 2000)  # the link itself comes below
    if result.ok:
        title = f"### Runner: success{many}"
        return f"{title}\n\n{message}" if message else title
    kind = markdown(result.kind) if result.kind else "failed"
    return f"### Runner: failed ({kind}){many}\n\n**Error:** {message or 'no message'}"


def _cleanup(state: Mapping[str, str], cleanup: str) -> str:
    if not cleanup:
        return ""
    if cleanup == "confirmed":
        return "**Cleanup:** confirmed, no child of this job goes on."
    which = "; ".join(_left(state)) or "the runs below"
    return f"**Cleanup:** {markdown(cleanup)}. A child may still be active, look for it and cancel it: {which}."


def _left(state: Mapping[str, str]) -> list[str]:
    """Name the children that a state names: by their runs, or by their names while these are not known."""
    names = []
    for name, value in state.items():
        match = _STATE.fullmatch(name)
        if match and value:
            names.append(f"run {markdown(value, 40)}")
        elif name.startswith("request-id") and value and not state.get(name.replace("request-id", "run-id")):
            names.append(f"the run named {markdown(value, 120)}")
    return names


class _Page:
    """The parts with links: they need the server and the repository."""

    def __init__(self, repository: str, server_url: str) -> None:
        self._repository = repository
        self._server = server_url

    def ends(self, attempts: Sequence[Attempt], workers: int) -> str:
        """Give the links of the last dispatch of each worker (R124, R125)."""
        last = {attempt.worker: attempt for attempt in attempts}
        lines = [self._end(last[worker], named=workers > 1) for worker in sorted(last)[:ROWS]]
        return "\n".join(line for line in lines if line)

    def _end(self, attempt: Attempt, *, named: bool) -> str:
        run = run_url(attempt, repository=self._repository, server_url=self._server)
        artifacts = f" · [Artifacts of the run]({run}#artifacts)" if run else ""
        name = f"Worker {attempt.worker}, {_outcome(attempt)}: " if named else ""
        logs = self._logs(attempt)
        return f"- {name}{logs}{artifacts}" if logs else ""

    def _logs(self, attempt: Attempt) -> str:
        link = worker_link(attempt, repository=self._repository, server_url=self._server)
        if link is None:
            return ""
        return f"[{LOGS}]({link.url}){' ' + FALLBACK if link.fallback else ''}"

    def attempts(self, attempts: Sequence[Attempt], workers: int) -> str:
        """Give a row for each dispatch: where, how long it waited and ran, how it ended."""
        if not attempts:
            return "No child was dispatched."
        shown = _most_telling(attempts)
        head = ["#", "Runner", "Waited", "Ran", "Outcome", "Child run"]
        rows = [["Worker", *head] if workers > 1 else head]
        for attempt in shown:
            row = self._row(attempt)
            rows.append([str(attempt.worker), *row] if workers > 1 else row)
        left = len(attempts) - len(shown)
        return _table(rows) + (f"\n\n{left} more dispatches are not shown." if left else "")

    def _row(self, attempt: Attempt) -> list[str]:
        run = run_url(attempt, repository=self._repository, server_url=self._server)
        name = str(attempt.run_id) if attempt.run_id > 0 else "run"
        return [
            str(attempt.number),
            markdown(attempt.runner.get("labels", "")),
            duration(attempt.queued_seconds),
            duration(attempt.executed_seconds) if attempt.executed_seconds > 0 else "",
            _outcome(attempt),
            f"[{name}]({run})" if run else f"none, request id {markdown(attempt.request_id)}",
        ]


def _candidates(candidates: Sequence[Candidate], attempts: Sequence[Attempt]) -> str:
    if not candidates:
        return ""
    asked = max((attempt.number for attempt in attempts), default=0)
    rows = [["#", "Candidate", "Group", "Deadline", "Note"]]
    for number, one in enumerate(candidates, 1):
        notes = ["re-wait"] if one.rewait else []
        notes += ["not asked"] if number > asked else []
        cells = [str(number), markdown(one.labels), markdown(one.group), duration(one.queue_seconds), ", ".join(notes)]
        rows.append(cells)
    return "#### Candidates\n\n" + _table(rows)


def _most_telling(attempts: Sequence[Attempt]) -> list[Attempt]:
    """Keep what went wrong before what was only waiting, in the old order."""
    if len(attempts) <= ROWS:
        return list(attempts)
    ranked = sorted(range(len(attempts)), key=lambda i: attempts[i].outcome in ("no_runner", "success"))
    return [attempts[index] for index in sorted(ranked[:ROWS])]


def _outcome(attempt: Attempt) -> str:
    return _OUTCOMES.get(attempt.outcome, markdown(attempt.outcome))


def _table(rows: Sequence[Sequence[str]]) -> str:
    head, *body = (f"| {' | '.join(row)} |" for row in rows)
    return "\n".join([head, "|" + " --- |" * len(rows[0]), *body])
