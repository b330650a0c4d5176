"""Whether a child workflow is what the coordinator and the guard count on, from its file alone."""

from __future__ import annotations

import re

from pytest_sgpu.runners.lint import job, yaml_text
from pytest_sgpu.runners.lint.findings import Finding, Findings
from pytest_sgpu.runners.lint.yaml_text import Mapping, Sequence, Text, Value

__all__ = ["INPUTS", "Finding", "lint"]

INPUTS = ("request-id", "parent-run-id", "parent-run-attempt", "source-ref", "source-sha", "runner", "workload")

_TRIGGER = "workflow_dispatch"
_RUN_NAME = re.compile(r"\$\{\{\s*inputs\.request-id\s*\}\}")
_PERMISSIONS = ("contents", "actions")


def lint(text: str, name: str) -> tuple[Finding, ...]:
    """Check the text of a child workflow; ``name`` is its file, for messages.

    Holds what a file can show of the contract: the seven inputs (R48), the run-name (R47), runs-on (R51), one job
    ``worker`` that nothing can hold back, repeat or excuse (R52, R53), read permissions (R3), the guard as the first
    step (R130, R135), a time-out (R117). No finding of severity "error" means that the coordinator can work with it;
    a "warning" is advice. In the order of the lines. Raises SgpuError when ruamel.yaml is not installed.
    """
    found = Findings()
    try:
        root = yaml_text.parse(text, name)
    except yaml_text.PlacedError as error:
        return (Finding(error.line, error.column, "error", str(error), "correct the file first"),)
    if not isinstance(root, Mapping):
        place = root or Value(1, 1)
        return (Finding(place.line, place.column, "error", "no workflow: expected a mapping with on: and jobs:"),)
    _run_name(root, found)
    _triggers(root, found)
    _jobs(root, found)
    if key := root.key("concurrency"):
        found.error(key, "concurrency: another run could cancel this one or hold it back", "take it out of the child")
    return found.sorted()


def _run_name(root: Mapping, found: Findings) -> None:
    hint = "run-name: ${{ inputs.request-id }}"
    value = root.get("run-name")
    if value is None:
        found.error(root, "no run-name: a dispatch whose answer is lost could not be found again", hint)
    elif not isinstance(value, Text) or not _RUN_NAME.fullmatch(value.text):
        found.error(value, f"run-name is {value}, expected exactly the request id", hint)


def _triggers(root: Mapping, found: Findings) -> None:
    hint = f"on: only {_TRIGGER}, with the seven inputs"
    value = root.get("on")
    triggers: list[tuple[Text, Value | None]] = []
    if isinstance(value, Text):
        triggers = [(value, None)]
    elif isinstance(value, Sequence):
        triggers = [(item, None) for item in value.items if isinstance(item, Text)]
    elif isinstance(value, Mapping):
        triggers = list(value)
    for key, _ in triggers:
        if key.text != _TRIGGER:
            found.error(key, f"on: {key} starts the child without a coordinator", hint)
    dispatch = [(key, trigger) for key, trigger in triggers if key.text == _TRIGGER]
    if not dispatch:
        found.error(root.key("on") or root, f"on: no {_TRIGGER}, so nothing can dispatch the child", hint)
    for key, trigger in dispatch:
        inputs = trigger.get("inputs") if isinstance(trigger, Mapping) else None
        _inputs(key, inputs, found)


def _inputs(place: Text, inputs: Value | None, found: Findings) -> None:
    given = inputs if isinstance(inputs, Mapping) else Mapping(place.line, place.column, ())
    for name in INPUTS:
        if given.get(name) is None:
            found.error(place, f"the input {name} is missing", "each of the seven: required: true, type: string")
    for key, value in given:
        if key.text not in INPUTS:
            found.error(key, f"unknown input {key}: the coordinator sends exactly seven", "put it into workload")
        else:
            _input(key, value, found)


def _input(key: Text, value: Value, found: Findings) -> None:
    attributes = value if isinstance(value, Mapping) else Mapping(key.line, key.column, ())
    kind, required = attributes.get("type"), attributes.get("required")
    if kind is None:
        found.warning(key, f"the input {key} has no type", "type: string")
    elif not isinstance(kind, Text) or kind.text != "string":
        found.error(kind, f"the input {key} has the type {kind}, expected string", "type: string")
    if not isinstance(required, Text) or required.text.lower() != "true":
        found.error(required or key, f"the input {key} is not required", "required: true")
    if default := attributes.key("default"):
        found.warning(default, f"the input {key} has a default, though the coordinator sends it always", "leave it out")


def _jobs(root: Mapping, found: Findings) -> None:
    jobs = root.get("jobs")
    if not isinstance(jobs, Mapping) or not jobs.entries:
        found.error(root.key("jobs") or root, "no jobs", "expected exactly one job, worker")
        return
    for key, _ in jobs:
        if key.text != job.JOB:
            found.error(key, f"the job {key}: a child has exactly one job, {job.JOB}", "move it into the parent")
    worker, place = jobs.get(job.JOB), jobs.key(job.JOB)
    if worker is None or place is None:
        found.error(root.key("jobs") or root, f"no job {job.JOB}", "name the only job so")
    elif not isinstance(worker, Mapping):
        found.error(place, f"the job {job.JOB} is no mapping")
    else:
        job.check(place, worker, found)
    _permissions(root, worker, found)


def _permissions(root: Mapping, worker: Value | None, found: Findings) -> None:
    """Check what counts: what the job says, else what the workflow says."""
    hint = "permissions: contents: read and actions: read, nothing else"
    own = worker if isinstance(worker, Mapping) and worker.get("permissions") else root
    value, key = own.get("permissions"), own.key("permissions")
    if value is None or key is None:
        found.error(root, "no permissions: the token could be able to write", hint)
        return
    if not isinstance(value, Mapping):
        found.error(value, f"permissions is {value}, expected exactly two of them", hint)
        return
    for name in _PERMISSIONS:
        if value.get(name) is None:
            found.error(key, f"permissions: {name}: read is missing, which the guard needs", hint)
    for scope, access in value:
        text = access.text if isinstance(access, Text) else ""
        if scope.text in _PERMISSIONS and text != "read":
            found.error(access, f"permissions: {scope} is {access}, expected read", hint)
        elif scope.text not in _PERMISSIONS and text != "none":
            found.error(scope, f"permissions: {scope} is more than the child may have", hint)
