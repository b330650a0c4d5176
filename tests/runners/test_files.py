"""Outputs, state and summary: what is written is read back as it was, whatever it holds."""

from __future__ import annotations

import os
import threading

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_sgpu.errors import SgpuError
from pytest_sgpu.runners.report import files
from pytest_sgpu.runners.report.files import OUTPUT, STATE, SUMMARY, SUMMARY_LIMIT


def read_commands(text: str) -> dict[str, str]:
    """Read a file of commands as GitHub's runner does: lines end at a line feed and nowhere else."""
    values: dict[str, str] = {}
    lines = text.split("\n")
    position = 0
    while position < len(lines):
        line = lines[position]
        position += 1
        if not line:
            continue
        equals, heredoc = line.find("="), line.find("<<")
        if equals >= 0 and (heredoc < 0 or equals < heredoc):
            values[line[:equals]] = line[equals + 1 :]
        elif heredoc >= 0:
            end = lines.index(line[heredoc + 2 :], position)  # ValueError: no end, and GitHub refuses the file
            values[line[:heredoc]] = "\n".join(lines[position:end])
            position = end + 1
        else:
            raise ValueError(f"neither form: {line!r}")
    return values


def read(path):
    return path.read_bytes().decode("utf-8")


def test_the_reader_of_commands():
    assert read_commands("a=1\n\nb<<E\nx\n\nE=\nE\nc==<<\na=2\n") == {"a": "2", "b": "x\n\nE=", "c": "=<<"}
    for bad in ("a\n", "a<<E\nx\n"):
        with pytest.raises(ValueError):
            read_commands(bad)


@pytest.mark.parametrize("variable", [OUTPUT, STATE])
def test_plain_values_are_one_line_each(tmp_path, variable):
    path = tmp_path / "commands"
    files.append({variable: str(path)}, variable, {"run-id": "7", "run-url": "https://x/y?a=b", "empty": ""})
    files.append({variable: str(path)}, variable, {"run-id": ""})
    assert read(path) == "run-id=7\nrun-url=https://x/y?a=b\nempty=\nrun-id=\n"


HOSTILE = [
    "a\nb",
    "\n",
    "a\n",
    "\n\nEOF\n",
    "x\nrun-id=666",
    "x\nrun-id<<EOF\n666\nEOF",
    "a\rb",
    "a\r\nb\r\n",
    "a\x85b",
    "a\u2028b\u2029c",
    "a\x0bb\x0cc\x1cd",
    "tab\there",
    "<<EOF",
    "=<<=",
    "  blanks  ",
    "::error::no",
    '{"group":"g","labels":"l"}',
    "\N{SNOWMAN}\U0001f600",
    "x" * 100_000,
]


@pytest.mark.parametrize("value", HOSTILE)
def test_hostile_values_come_back_and_bring_nothing_else(tmp_path, value):
    path = tmp_path / "commands"
    files.append({OUTPUT: str(path)}, OUTPUT, {"before": "1", "value": value, "after": "2"})
    assert read_commands(read(path)) == {"before": "1", "value": value, "after": "2"}


@given(st.lists(st.text(st.characters(codec="utf-8")), max_size=4))
@example(["end_\n", "end_"])
def test_any_values_come_back(tmp_path_factory, values):
    path = tmp_path_factory.mktemp("f") / "commands"
    expected = {f"v{number}": value for number, value in enumerate(values)}
    for name, value in expected.items():
        files.append({OUTPUT: str(path)}, OUTPUT, {name: value})
    files.append({OUTPUT: str(path)}, OUTPUT, expected)
    assert (read_commands(read(path)) if expected else {}) == expected


@pytest.mark.parametrize("value", ["a\x85b", "a\u2028b", "a\rb", "a\x0cb"])
def test_whatever_may_pass_for_a_line_end_is_fenced(tmp_path, value):
    path = tmp_path / "commands"
    files.append({OUTPUT: str(path)}, OUTPUT, {"value": value})
    first, body, last = read(path).removesuffix("\n").split("\n")
    assert body == value
    assert first == f"value<<{last}"


def test_each_delimiter_is_new(tmp_path):
    path = tmp_path / "commands"
    for _ in range(3):
        files.append({OUTPUT: str(path)}, OUTPUT, {"value": "a\nb"})
    firsts = {line for line in read(path).splitlines() if "<<" in line}
    assert len(firsts) == 3


def test_what_utf8_cannot_say_is_replaced(tmp_path):
    path = tmp_path / "commands"
    files.append({OUTPUT: str(path)}, OUTPUT, {"value": "a\ud800b"})
    assert read(path) == "value=a?b\n"


def test_names_are_ours(tmp_path):
    with pytest.raises(AssertionError):
        files.append({OUTPUT: str(tmp_path / "f")}, OUTPUT, {"a=b\nc": "1"})
    assert not (tmp_path / "f").exists()


@pytest.mark.parametrize("env", [{}, {OUTPUT: ""}])
def test_without_the_variable_nothing_happens(env, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files.append(env, OUTPUT, {"a": "b"})
    files.summary({}, "text")
    files.append({OUTPUT: str(tmp_path / "f")}, OUTPUT, {})
    assert list(tmp_path.iterdir()) == []


def test_others_lines_are_kept(tmp_path):
    path = tmp_path / "commands"
    path.write_text("theirs=1\n")
    files.append({STATE: str(path)}, STATE, {"ours": "2"})
    assert read(path) == "theirs=1\nours=2\n"


@pytest.mark.parametrize("variable", [OUTPUT, STATE, SUMMARY])
@pytest.mark.parametrize(
    ("there", "kept"), [("theirs=1", "theirs=1\n"), ("theirs=1\n", "theirs=1\n"), ("a\n\nb", "a\n\nb\n"), ("", "")]
)
def test_a_last_line_without_an_end_gets_one(tmp_path, variable, there, kept):
    path = tmp_path / "commands"
    path.write_text(there)
    files.check({variable: str(path)}, variable)
    assert read(path) == there, "a look changes nothing"
    for _ in range(2):
        if variable == SUMMARY:
            files.summary({variable: str(path)}, "a=b")
        else:
            files.append({variable: str(path)}, variable, {"a": "b"})
    assert read(path) == f"{kept}a=b\na=b\n"


def test_a_file_that_can_only_be_written_is_written(tmp_path, monkeypatch):
    path = tmp_path / "commands"
    path.write_text("theirs=1\n")

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr("pathlib.Path.open", refuse)
        files.append({OUTPUT: str(path)}, OUTPUT, {"a": "b"})
    assert read(path) == "theirs=1\na=b\n"


def test_a_replaced_file_begins_with_what_is_written(tmp_path):
    path = tmp_path / "file"
    path.write_text("theirs")
    files.replace(str(path), "ours\n")
    assert read(path) == "ours\n"


def test_a_summary_without_an_end_is_cut_within_the_limit(tmp_path):
    path = tmp_path / "summary"
    path.write_text("x" * (SUMMARY_LIMIT - 3))
    files.summary({SUMMARY: str(path)}, "ab")
    assert path.stat().st_size <= SUMMARY_LIMIT
    path.write_text("x" * (SUMMARY_LIMIT - 4))
    files.summary({SUMMARY: str(path)}, "ab")
    assert read(path).endswith("x\nab\n")


def test_appends_from_several_threads_do_not_mix(tmp_path):
    path = tmp_path / "commands"
    names = [f"n{number}" for number in range(8)]

    def write(name: str) -> None:
        for _ in range(50):
            files.append({OUTPUT: str(path)}, OUTPUT, {name: f"{name}\n{name}", f"{name}x": name})

    threads = [threading.Thread(target=write, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = {name: f"{name}\n{name}" for name in names} | {f"{name}x": name for name in names}
    assert read_commands(read(path)) == expected
    assert read(path).count("<<") == 400


@pytest.mark.parametrize("variable", [OUTPUT, STATE, SUMMARY])
def test_a_file_that_cannot_be_written_is_one_line(tmp_path, variable):
    def write(path: str) -> None:
        if variable == SUMMARY:
            files.summary({variable: path}, "text")
        else:
            files.append({variable: path}, variable, {"a": "b"})

    os.mkfifo(tmp_path / "pipe")
    for path in (str(tmp_path), str(tmp_path / "no" / "such"), "a\0b", str(tmp_path / "pipe"), "x\ny/z"):
        with pytest.raises(SgpuError, match="cannot be written") as caught:
            write(path)
        assert caught.value.message.startswith(f"{variable}: ")
        assert "\n" not in str(caught.value)


def test_the_summary_is_appended_and_ends_its_line(tmp_path):
    path = tmp_path / "summary"
    files.summary({SUMMARY: str(path)}, "# One")
    files.summary({SUMMARY: str(path)}, "two\n")
    files.summary({SUMMARY: str(path)}, "")
    assert read(path) == "# One\ntwo\n"


def test_a_summary_over_the_limit_is_cut_at_a_line(tmp_path):
    path = tmp_path / "summary"
    files.summary({SUMMARY: str(path)}, "begin\n")
    files.summary({SUMMARY: str(path)}, "\N{SNOWMAN} line\n" * 150_000)
    text = read(path)
    assert SUMMARY_LIMIT - 200 < path.stat().st_size <= SUMMARY_LIMIT
    assert text.startswith("begin\n\N{SNOWMAN} line\n")
    kept, _, note = text.partition("\n\n... ")
    assert set(kept.splitlines()) == {"begin", "\N{SNOWMAN} line"}
    assert note == "cut here: a summary holds at most 1 MiB.\n"
    files.summary({SUMMARY: str(path)}, "more\n" * 100)
    assert path.stat().st_size <= SUMMARY_LIMIT
