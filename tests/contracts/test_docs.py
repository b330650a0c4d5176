"""The documentation is true: options, statuses, formats and links exist, and its sessions run.

A fenced block ``console`` is a session: its lines ``$ ...`` are run, in one folder per page, and every other line
must occur in the output, with numbers and blanks taken as equal. A block with ``file=NAME`` in its info string is a
file of that session.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

import pytest_sgpu
from pytest_sgpu.core import verdict
from pytest_sgpu.core.verdict import Policy
from pytest_sgpu.model import (
    UNKNOWN,
    Census,
    Device,
    Ending,
    Item,
    JUnitFacts,
    Key,
    Mode,
    Notice,
    Plan,
    PlanEntry,
    Scope,
    Status,
    Suite,
)

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
REFERENCE = DOCS / "reference"
PAGES = sorted([*DOCS.rglob("*.md"), ROOT / "README.md", ROOT / "CHANGELOG.md"])
IDS = [page.relative_to(ROOT).as_posix() for page in PAGES]
COMMAND_LIMIT = 60  # seconds for one command of a session

_FENCE = re.compile(r"^(`{3,})([^\n`]*)\n(.*?)^\1`*[ ]*$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
_NUMBER = re.compile(r"\d+(\.\d+)?")


class Block(NamedTuple):
    language: str
    file: str
    text: str


def _read(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def _blocks(text: str) -> Iterator[Block]:
    for _, info, body in _FENCE.findall(text):
        language, _, rest = info.partition(" ")
        yield Block(language, rest.strip().removeprefix("file=") if "file=" in rest else "", body)


def _prose(text: str) -> str:
    return _FENCE.sub("", text)


@cache
def _environment() -> dict[str, str]:
    dropped = re.compile(r"(PYTEST|TE_CI|TEST|SGPU|GITHUB|HIP|ROCR|CUDA)_.*|ZE_AFFINITY_MASK|GPU_DEVICE_ORDINAL|CI")
    env = {name: text for name, text in os.environ.items() if not dropped.fullmatch(name)}
    scripts = os.pathsep.join([sysconfig.get_path("scripts"), str(Path(sys.executable).parent)])
    return env | {"PATH": f"{scripts}{os.pathsep}{env.get('PATH', os.defpath)}", "NO_COLOR": "1"}


# -- the reader of these pages ---------------------------------------------------------------------------


def test_the_reader_of_the_pages():
    text = "a\n```sh file=x/y.sh\n`b`\n```\n````text\n```\ninner\n```\n````\nc\n```console\n$ d\n```\n"
    assert list(_blocks(text)) == [
        Block("sh", "x/y.sh", "`b`\n"),
        Block("text", "", "```\ninner\n```\n"),
        Block("console", "", "$ d\n"),
    ]
    assert _prose(text).split() == ["a", "c"]
    assert _missing("rank 1  key\nother", "  rank 22.5 key  x") == ["other"]


# -- links and house rules -------------------------------------------------------------------------------


def _anchors(page: Path) -> set[str]:
    text = _prose(_read(page))
    titles = re.findall(r"^#+ +(.+)$", text, re.MULTILINE)
    slugs = {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}
    return slugs | set(re.findall(r'<a id="([^"]+)">', text))


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_links_lead_somewhere(page):
    broken = []
    for link in _LINK.findall(_prose(_read(page))):
        path, _, anchor = link.partition("#")
        if re.match(r"[a-z]+:", link):
            continue
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in _anchors(target)):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_a_page_names_no_place_of_one_machine(page):
    found = re.findall(r"(?<![\w./}-])/(?:work|tmp|home|root|Users|mnt)\b[^\s`)]*", _read(page))
    assert found == []


def test_every_page_is_in_the_index():
    linked = {(DOCS / link.partition("#")[0]).resolve() for link in _LINK.findall(_read(DOCS / "README.md"))}
    pages = {page for page in PAGES if page.parent.name in {"tutorial", "how-to", "reference", "explanation"}}
    assert pages - linked == set()


def test_the_readme_is_short():
    assert len(_read(ROOT / "README.md").splitlines()) <= 120


def test_the_changelog_knows_this_version():
    assert f"## {pytest_sgpu.__version__}" in _read(ROOT / "CHANGELOG.md")
    fragment = _read(DOCS / "changelog" / f"{pytest_sgpu.__version__}.md")
    assert fragment.strip() in _read(ROOT / "CHANGELOG.md")


# -- options ---------------------------------------------------------------------------------------------


@cache
def _help() -> str:
    command = [sys.executable, "-m", "pytest", "-p", "sgpu", "-c", os.devnull, "--help"]
    made = subprocess.run(command, cwd=DOCS, env=_environment(), capture_output=True, text=True, timeout=60, check=True)
    return made.stdout


def test_the_page_of_options_has_all_options_and_no_others():
    page = _read(REFERENCE / "options.md")
    there = set(re.findall(r"^ +(--sgpu-[a-z-]+)", _help(), re.MULTILINE))
    assert there
    assert set(re.findall(r"--sgpu-[a-z-]+", page)) == there
    assert set(re.findall(r"^## `(--sgpu-[a-z-]+)", page, re.MULTILINE)) == there


def test_the_page_of_options_has_all_ini_keys_and_no_others():
    page = _read(REFERENCE / "options.md")
    there = set(re.findall(r"^ +(sgpu_[a-z_]+) ?\(", _help(), re.MULTILINE))
    assert there
    assert set(re.findall(r"\bsgpu_[a-z_]+", page)) == there
    for option in re.findall(r"^## `--(sgpu-[a-z-]+)[^\n]*\n\nini: `(\w+)`", page, re.MULTILINE):
        assert option[0].replace("-", "_") == option[1]


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_no_page_invents_an_option(page):
    used = set(re.findall(r"--sgpu-[a-z-]*[a-z]", _read(page)))
    assert used <= set(re.findall(r"--sgpu-[a-z-]+", _help()))
    keys = set(re.findall(r"(?<![\w/-])sgpu_[a-z_]*[a-z]", _read(page)))
    assert keys <= set(re.findall(r"\bsgpu_[a-z_]+", _help()))


# -- outcomes --------------------------------------------------------------------------------------------


def _rows(page: Path) -> list[list[str]]:
    lines = [line for line in _read(page).splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_page_of_outcomes_has_every_status():
    rows = {row[0].strip("`"): row for row in _rows(REFERENCE / "outcomes.md") if len(row) == 4}
    assert {status.name: status.value for status in Status} == {
        name: row[1] for name, row in rows.items() if name.isupper()
    }
    for status in Status:
        assert f"`{status.name}`" in _read(DOCS / "how-to" / "read-a-red-run.md") or not status.failed


@pytest.mark.parametrize(
    ("ending", "status", "code"),
    [
        (Ending(0, None, 0, 1, ran=True), "PASSED", 0),
        (Ending(3, None, 0, 1), "FAILED", 3),
        (Ending(127, None, 0, 1), "FAILED", 127),
        (Ending(0, None, 0, 1), "NO_TESTS", 5),
        (Ending(5, None, 0, 1), "NO_TESTS", 5),
        (Ending(5, None, 0, 1, ran=True), "FAILED", 5),
        (Ending(None, 11, 0, 1), "CRASHED", 139),
        (Ending(139, None, 0, 1), "CRASHED", 139),
        (Ending(129, None, 0, 1), "FAILED", 129),
        (Ending(0, None, 0, 1, killed="stopped"), "STOPPED", 130),
    ],
)
def test_the_page_of_outcomes_is_right(ending, status, code):
    outcome = verdict.judge(Key("s", "t"), ending, JUnitFacts(), Policy(), opaque=False, estimate=UNKNOWN)
    assert (outcome.status.name, verdict.exit_code(outcome)) == (status, code)


# -- formats ---------------------------------------------------------------------------------------------


def _keys(schema: object) -> set[str]:
    if isinstance(schema, dict):
        own = set(schema.get("properties", {}))
        return own.union(*(_keys(value) for value in schema.values()))
    return set()


def _plan_json() -> dict[str, object]:
    from pytest_sgpu.report import plan_text

    item = Item(Key("s", "t"), ("./s.sh",), 1, 0)
    device = Device("gpu0", "0", "HIP_VISIBLE_DEVICES", "amd", "gfx950")
    notices, deselected = [Notice("text", "where")], [Key("s", "u")]
    plan = Plan((PlanEntry(1, item, UNKNOWN),), 1)
    text = plan_text.json(plan, 0.0, Scope("gfx950", "3"), [device], notices, deselected)
    document = json.loads(text)
    assert isinstance(document, dict)
    return document


def _all_keys(value: object) -> set[str]:
    if isinstance(value, dict):
        return set(value).union(*(_all_keys(inner) for inner in value.values()))
    return set().union(*(_all_keys(inner) for inner in value)) if isinstance(value, list) else set()


def test_the_plan_is_documented():
    schema = json.loads(_read(REFERENCE / "plan.schema.json"))
    assert _keys(schema) == _all_keys(_plan_json())
    section = _read(REFERENCE / "formats.md").partition("## Plan JSON")[2]
    assert {key for key in _keys(schema) if f"`{key}`" not in section} == set()


def test_the_journal_is_documented():
    from pytest_sgpu.core import journal

    section = _read(REFERENCE / "formats.md").partition("## Journal")[2].partition("\n## ")[0]
    suite = Suite("s", "s.log", Mode.LIST, ("./s.sh",), "q.conf", 1)
    outcome = verdict.judge(
        Key("s", "t"), Ending(0, None, 0, 1, ran=True), JUnitFacts(), Policy(), opaque=False, estimate=UNKNOWN
    )
    records = [
        journal.run_record(started=0.0, scope=Scope("cpu", "1"), devices=(), suites=[suite], labels=["s"]),
        journal.plan_record(Plan((), 1), 0.0, Census(frozenset(), frozenset(), frozenset())),
        journal.outcome_record(outcome),
        journal.notice_record(Notice("text")),
    ]
    for record in records:
        row = next(line for line in section.splitlines() if line.startswith(f"| `{record['event']}` |"))
        assert {key for key in record if key != "event" and f"`{key}`" not in row} == set()
    written = "".join(path.read_text(encoding="utf-8") for path in Path(pytest_sgpu.__file__).parent.glob("*.py"))
    events = set(re.findall(r'"event": "(\w+)"', written)) | {record["event"] for record in records}
    assert {event for event in events if f"| `{event}` |" not in section} == set()


def test_every_folder_of_a_run_is_documented():
    from pytest_sgpu.engine import store

    page = _read(REFERENCE / "formats.md")
    assert {name for name in store.FOLDERS if f"`{name}/" not in page} == set()


def test_the_shell_library_is_documented():
    library = (Path(pytest_sgpu.__file__).parent / "suite" / "te_ci.sh").read_text(encoding="utf-8")
    there = set(re.findall(r"^(te_ci_[a-z]\w*)\(\)", library, re.MULTILINE))
    assert there
    page = _read(REFERENCE / "suite-protocol.md")
    named = set(re.findall(r"^\| `(te_ci_\w+)[^|]*\|", page, re.MULTILINE)) - {"te_ci_dir"}
    assert named == there


def test_what_items_do_not_inherit_is_documented():
    from pytest_sgpu.engine import environment

    page = _read(REFERENCE / "suite-protocol.md")
    names = set(re.findall(r"`((?:TE_CI|JUNITXML|PYTEST|TEST|SGPU)_[A-Z_]+)", page))
    env = dict.fromkeys(names, "x")
    kept = set(environment.base(env)) & names
    passed = {"TEST_LEVEL", "TEST_SGPU", "TEST_MGPU", "PYTEST_TIMEOUT", "TE_CI_PYTHON", "PYTEST_PLUGINS", "SGPU_COOKIE"}
    # Not addressed to the script by the queue, or set anew.
    passed |= {"PYTEST_ADDOPTS", "PYTEST_SGPU_ITEM", "TE_CI_ITEM", "TE_CI_RAN"}
    assert kept - passed == set()


# -- sessions --------------------------------------------------------------------------------------------


def _same(text: str) -> str:
    return " ".join(_NUMBER.sub("#", text).split())


def _missing(expected: str, output: str) -> list[str]:
    """Give the expected lines that are no part of any line of the output."""
    there = [_same(line) for line in output.splitlines()]
    return [line for line in expected.splitlines() if line.strip() and not any(_same(line) in one for one in there)]


def _commands(block: str) -> Iterator[tuple[str, str]]:
    """Give each command with the output that the page shows for it."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        yield command, shown


SESSIONS = [page for page in PAGES if any(block.language == "console" for block in _blocks(_read(page)))]


def test_the_tutorial_is_a_session():
    assert DOCS / "tutorial" / "first-queue.md" in SESSIONS


@pytest.mark.slow
@pytest.mark.parametrize("page", SESSIONS, ids=lambda page: page.stem)
def test_what_the_page_shows_happens(page, tmp_path):
    for block in _blocks(_read(page)):
        if block.file:
            path = tmp_path / block.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
        if block.language != "console":
            continue
        assert block.text.startswith("$ ")
        for command, shown in _commands(block.text):
            made = subprocess.run(
                ["sh", "-c", command],
                cwd=tmp_path,
                env=_environment(),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=COMMAND_LIMIT,
                check=False,
            )
            output = made.stdout + made.stderr
            assert made.returncode == 0, f"{command}\n{output}"
            assert _missing(shown, output) == [], f"{command}\n{output}"
