"""The job ``worker`` of a child workflow, and its steps."""

from __future__ import annotations

import re

from pytest_sgpu.runners.lint.findings import Findings
from pytest_sgpu.runners.lint.yaml_text import Mapping, Sequence, Text, Value
from pytest_sgpu.runners.text import one_line

JOB = "worker"
GUARD_INPUTS = ("request-id", "parent-run-id", "parent-run-attempt", "source-ref", "source-sha")

_RUNS_ON = re.compile(r"\$\{\{\s*(?i:fromjson)\(\s*inputs\.runner\s*\)\s*\}\}")
_GUARD = re.compile(r"(?P<path>[^\s@]+/(?:[\w.-]+-)?guard)(@(?P<ref>\S+))?")  # whoever hosts it names its folder
_PINNED = "OWNER/REPOSITORY/PATH@COMMIT"
_OWN_TOKEN = re.compile(r"\s*\$\{\{\s*(github\.token|secrets\.GITHUB_TOKEN)\s*\}\}\s*|\s*")
_CHECKOUT = re.compile(r"[^\s@]+/checkout@\S+")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_UNFILLED = "<commit>"  # of the example, as its OWNER
_PASSED_OVER = ("runner", "workload", "source-policy")  # a child may hand on all that it got
_GUARD_HINT = "uses: OWNER/pytest-sgpu/ci/actions/runner-guard@COMMIT, with five of the inputs"
_PASTED = re.compile(r"\$\{\{[^{}]*\b(inputs|github\.event\.inputs)\b")  # without {: each part is looked at once
_MINUTES = re.compile(r"[1-9][0-9]*|\$\{\{.*\}\}")

_FORBIDDEN = {
    "strategy": ("a matrix makes several jobs of it", "use a matrix in the parent, and one child for each"),
    "needs": ("it could wait or be skipped for another job", "prepare everything before the coordinator"),
    "environment": ("an approval could hold it back", "approve before the coordinator"),
    "if": ("a job that is skipped must not look like one that passed", "take the condition out"),
    "concurrency": ("another run could cancel it or hold it back", "limit the coordinators"),
    "uses": ("a called workflow has jobs of its own", "give the steps here"),
}


def check(key: Text, job: Mapping, found: Findings) -> None:
    """Check the job whose name stands at ``key``."""
    name = job.get("name")
    if name is not None and not (isinstance(name, Text) and name.text == JOB):
        found.error(name, f"the job is shown as {name}, expected {JOB}: the coordinator looks for that name")
    for word, (why, hint) in _FORBIDDEN.items():
        if there := job.key(word):
            found.error(there, f"{word} at the job: {why}", hint)
    _never_excused(job, "the job", found)
    runs_on = job.get("runs-on")
    if not (isinstance(runs_on, Text) and _RUNS_ON.fullmatch(runs_on.text)):
        what = f"runs-on is {runs_on}" if runs_on else "no runs-on"
        found.error(runs_on or key, f"{what}, expected what was asked for", "runs-on: ${{ fromJSON(inputs.runner) }}")
    minutes = job.get("timeout-minutes")
    if minutes is None:
        found.error(key, "no timeout-minutes: it bounds a worker whose coordinator is lost", "timeout-minutes: 30")
    elif not (isinstance(minutes, Text) and _MINUTES.fullmatch(minutes.text)):
        found.error(minutes, f"timeout-minutes is {minutes}, expected a whole number from 1")
    _steps(key, job.get("steps"), found)


def _never_excused(where: Mapping, what: str, found: Findings) -> None:
    value = where.get("continue-on-error")
    if value is not None and not (isinstance(value, Text) and value.text.lower() == "false"):
        found.error(value, f"continue-on-error at {what}: a failure would pass", "take it out")


def _steps(key: Text, value: Value | None, found: Findings) -> None:
    steps = value.items if isinstance(value, Sequence) else ()
    if not steps:
        found.error(value or key, "no steps", "the guard first, then checkout, then the work")
        return
    uses = [_uses(step) for step in steps]
    guards = [position for position, text in enumerate(uses) if _GUARD.fullmatch(text)]
    if not guards:
        found.error(steps[0], "no guard: the first step has to use runner-guard", _GUARD_HINT)
    elif guards[0]:
        found.error(steps[guards[0]], "the guard is not the first step: what runs before it is not guarded")
    for position, step in enumerate(steps):
        if not isinstance(step, Mapping):
            found.error(step, "a step that is no mapping")
            continue
        _never_excused(step, "a step", found)
        if position in guards:
            _guard(step, uses[position], found)
        elif _CHECKOUT.fullmatch(uses[position]):
            _checkout(step, found)
        run = step.get("run")
        if isinstance(run, Text) and _PASTED.search(run.text):
            hint = "give it to the step as a variable (env:), and use that"
            found.warning(run, "an input is pasted into the text of a script, where it could be a command", hint)


def _uses(step: Value) -> str:
    value = step.get("uses") if isinstance(step, Mapping) else None
    return value.text if isinstance(value, Text) else ""


def _guard(step: Mapping, uses: str, found: Findings) -> None:
    place = step.get("uses") or step
    _guard_source(place, uses, found)
    if condition := step.key("if"):
        found.error(condition, "a condition at the guard: it has to run always", "take it out")
    given = step.get("with")
    _guard_inputs(place, given if isinstance(given, Mapping) else Mapping(step.line, step.column, ()), found)


def _guard_source(place: Value, uses: str, found: Findings) -> None:
    made = _GUARD.fullmatch(uses)
    ref = made["ref"] if made else None
    if uses.startswith("."):
        found.error(place, "a guard from the workspace: nothing is checked out yet", _PINNED)
    elif uses.startswith("docker:"):
        found.error(place, "a guard in an image: expected the action", _PINNED)
    elif ref is None:
        found.error(place, "the guard is taken at no commit", _PINNED)
    elif _UNFILLED in ref or uses.startswith("OWNER/"):
        words = [word for word in ("OWNER", _UNFILLED) if word in uses]
        verb = "is" if len(words) == 1 else "are"
        hint = "who hosts or forks the repository, and the full SHA of a commit that you have read"
        found.warning(place, f"{' and '.join(words)} {verb} still to be replaced", hint)
    elif not _COMMIT.fullmatch(ref):
        found.warning(
            place, f"the guard is taken at {one_line(ref, 60)}, which can move", "pin it to a full commit SHA"
        )


def _guard_inputs(place: Value, values: Mapping, found: Findings) -> None:
    for name in GUARD_INPUTS:
        value = values.get(name)
        expected = f"{name}: ${{{{ inputs.{name} }}}}"
        if value is None:
            found.error(place, f"the guard does not get {name}", expected)
        elif not isinstance(value, Text) or not re.fullmatch(rf"\$\{{\{{\s*inputs\.{name}\s*\}}\}}", value.text):
            found.error(value, f"the guard gets {value} as {name}, expected the input of that name", expected)
    token = values.get("token")
    if token is not None and not (isinstance(token, Text) and _OWN_TOKEN.fullmatch(token.text)):
        hint = "leave it out, or token: ${{ github.token }}"
        found.warning(token, "the guard gets a token of somebody's own; that of the job reads all that it needs", hint)
    for key, _ in values:
        if key.text not in (*GUARD_INPUTS, "token", *_PASSED_OVER):
            found.error(key, f"the guard has no input {key}")


def _checkout(step: Mapping, found: Findings) -> None:
    place = step.get("uses") or step
    given = step.get("with")
    values = given if isinstance(given, Mapping) else Mapping(step.line, step.column, ())
    kept = values.get("persist-credentials")
    if not (isinstance(kept, Text) and kept.text.lower() == "false"):
        found.warning(
            kept or place, "checkout leaves the token where the work can read it", "persist-credentials: false"
        )
    ref = values.get("ref")
    own = ref is not None or values.get("repository") is None
    if own and not (isinstance(ref, Text) and re.search(r"\binputs\.source-sha\b", ref.text)):
        hint = "ref: ${{ inputs.source-sha }}"
        found.warning(ref or place, "checkout takes another commit than the one that was approved", hint)
