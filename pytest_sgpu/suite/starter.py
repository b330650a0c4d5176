"""What ``sgpu init`` writes into a repository, given what is there.

Pure. A file that exists is never replaced. A ``pytest.ini`` comes along only where pytest has no settings
in that folder yet: the commands of a conf file are relative to pytest's root directory, so there must be one,
and not that of some folder above.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Step:
    """One file. ``template`` is its source; "" when nothing is written, and ``note`` says why."""

    target: str
    template: str = ""
    executable: bool = False
    note: str = ""


CONF = "conf/ci_sgpu_queue.conf"
FILES = (
    Step("ci/suites/example.sh", "example.sh", executable=True),
    Step("ci/suites/test_example.py", "test_example.py.in"),
    Step(CONF, "ci_sgpu_queue.conf"),
    Step(".github/workflows/gpu-tests.yml", "gpu-tests.yml"),
)

# In pytest's order. The first four hold its settings whatever is in them, the others only with this section.
_SECTIONS = {
    "pytest.toml": None,
    ".pytest.toml": None,
    "pytest.ini": None,
    ".pytest.ini": None,
    "pyproject.toml": re.compile(r"""^[ \t]*\[\s*tool\s*\.\s*["']?pytest["']?\s*[.\]]""", re.MULTILINE),
    "tox.ini": re.compile(r"^\[pytest\]", re.MULTILINE),
    "setup.cfg": re.compile(r"^\[tool:pytest\]", re.MULTILINE),
}
SETTINGS = tuple(_SECTIONS)
"""The files that may hold pytest's settings."""


def settings_file(texts: Mapping[str, str]) -> str:
    """Give the file that holds pytest's settings, "" when none does; ``texts`` by name, of those that exist."""
    for name, section in _SECTIONS.items():
        if name in texts and (section is None or section.search(texts[name])):
            return name
    return ""


def steps(existing: Container[str], texts: Mapping[str, str]) -> tuple[Step, ...]:
    """Give one step per file, in order. ``existing`` holds the targets that are there."""
    done = [Step(file.target, note="exists, left as it is") if file.target in existing else file for file in FILES]
    holder = settings_file(texts)
    if not holder:
        done.append(Step("pytest.ini", "pytest.ini"))
    elif holder == "pytest.ini":
        done.append(Step("pytest.ini", note="exists, left as it is"))
    else:
        done.append(Step("pytest.ini", note=f"not needed: {holder} holds pytest's settings"))
    return tuple(done)


def next_steps(place: str) -> str:
    """Give what to do after ``sgpu init``; ``place`` is the folder as a shell word, "" for the present one."""
    go = f"  cd {place}\n" if place else ""
    return (
        "Next:\n"
        f"{go}"
        "  export TEST_LEVEL=1   # the level of the workflow; unset means every line\n"
        f"  pytest -p sgpu --sgpu-conf={CONF} --sgpu-gpus=2 --sgpu-plan   # shows the queue, runs nothing\n"
        f"  pytest -p sgpu --sgpu-conf={CONF} --sgpu-gpus=2               # runs it on 2 virtual devices\n"
        f"  pytest -p sgpu --sgpu-conf={CONF}                             # runs it on the GPUs of this machine\n"
        "Keep test-results/ and ci-weights/ out of version control.\n"
    )
