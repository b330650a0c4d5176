"""Conf text to suites; every error names its place and what to do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sgpu.core import conf
from pytest_sgpu.errors import ConfError, OptionError
from pytest_sgpu.model import Mode, Suite

PUBLISHED = """\
# label  log        mode    command
torch    torch.log  list    ci/torch.sh

jax      jax.log    list    ci/jax.sh --level 3   # a comment
core\tcore.log\topaque\t"ci/core tests.sh" 'a b' c\\ d e#f '#g' ""
"""


def parse(text: str, name: str = "q.conf") -> tuple[Suite, ...]:
    return conf.parse_all([(name, text)])


def error(text: str) -> ConfError:
    with pytest.raises(ConfError) as caught:
        parse(text)
    return caught.value


def test_published_form():
    torch, jax, core = parse(PUBLISHED)
    assert torch == Suite("torch", "torch.log", Mode.LIST, ("ci/torch.sh",), "q.conf", 2)
    assert jax.command == ("ci/jax.sh", "--level", "3")
    assert core.mode is Mode.OPAQUE
    assert core.command == ("ci/core tests.sh", "a b", "c d", "e#f", "#g", "")
    assert conf.place(core) == "q.conf:5"


def test_line_ends_and_byte_order_mark_do_not_matter():
    assert parse("\ufeff" + PUBLISHED.replace("\n", "\r\n")) == parse(PUBLISHED)
    assert parse("a a.log list ./a.sh") == parse("a a.log list ./a.sh\r\n\r\n  \r\n")


def test_several_files_make_one_queue():
    suites = conf.parse_all([("1.conf", "a a.log list x"), ("2.conf", "# nothing"), ("3.conf", "\nb b.log opaque y")])
    assert [(suite.label, conf.place(suite)) for suite in suites] == [("a", "1.conf:1"), ("b", "3.conf:2")]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("torch", "missing column: log file and mode and command (found 'torch')"),
        ("torch t.log", "missing column: mode and command (found 'torch t.log')"),
        ("torch t.log list", "missing column: command (found 'torch t.log list')"),
        ("torch t.log lst", "missing column: command (found 'torch t.log lst')"),
        ("torch t.log ./run.sh", "missing column: mode (found 'torch t.log ./run.sh')"),
        ("torch t.log list # ./run.sh", "missing column: command"),
        ("torch t.log lsit ./run.sh", "unknown mode 'lsit', did you mean list?"),
        ("torch t.log Opaque ./run.sh", "unknown mode 'Opaque', did you mean opaque?"),
        ("torch t.log ./run.sh arg", "unknown mode './run.sh'"),
        ("a/b t.log list x", "label 'a/b' has characters that a label cannot have"),
        ("-a t.log list x", "label '-a' has"),
        ("'' t.log list x", "label '' has"),
        ("'a\x1bb' t.log list x", r"label 'a\x1bb' has"),
        ("é t.log list x", "label 'é' has"),
        ("a" * 201 + " t.log list x", "label '" + "a" * 175 + " ... [26 characters cut]' has 201 characters"),
        ("a ../t.log list x", "log name '../t.log' is a path, a bare name is expected"),
        ("a .. list x", "log name '..' has characters that it cannot have"),
        ("a t* list x", "log name 't*' has characters"),
        ("a t.log list ''", "the command is empty"),
        ("a t.log list 'x", "a quote that does not close, or a backslash at the end: 'a t.log list 'x'"),
        ('a t.log list x"# y', "a quote that does not close"),
        ("a t.log list x \\", "a quote that does not close, or a backslash at the end"),
        ("a t.log list x\0", "a NUL byte"),
    ],
)
def test_bad_lines_name_their_place(line, said):
    caught = error(f"# first\nok ok.log list x\n{line}\n")
    assert caught.message.startswith(f"q.conf:3: {said}")
    assert caught.hint


def test_unknown_mode_says_what_was_expected():
    assert "expected list or opaque" in error("a a.log zzz x").hint


def test_names_are_used_once_in_all_files_together():
    with pytest.raises(ConfError, match=r"^2.conf:1: label 'a' is used twice, first at 1.conf:2") as caught:
        conf.parse_all([("1.conf", "\na a.log list x"), ("2.conf", "a b.log list x")])
    assert "its own" in caught.value.hint
    with pytest.raises(ConfError, match=r"^2.conf:1: log name 'a.log' is used twice, first at 1.conf:2"):
        conf.parse_all([("1.conf", "\na a.log list x"), ("2.conf", "b a.log list x")])


def test_one_file_named_twice():
    with pytest.raises(ConfError) as caught:
        conf.parse_all([("1.conf", "a a.log list x")] * 2)
    assert caught.value.hint == "the same conf file is named twice"


@pytest.mark.parametrize(("first", "second"), [("x", "x.rc"), ("x.rc", "x")])
def test_log_names_that_meet_through_rc(first, second):
    caught = error(f"a {first} list x\nb {second} list x")
    assert caught.message.startswith(
        f"q.conf:2: log name '{second}' and '{first}' at q.conf:1 both need the file 'x.rc'"
    )


def test_no_suite_at_all():
    with pytest.raises(ConfError, match=r"^a.conf, b.conf: no suite at all"):
        conf.parse_all([("a.conf", "# none\n"), ("b.conf", "")])
    with pytest.raises(ConfError, match=r"^conf: no suite at all"):
        conf.parse_all([])


def test_file_names_are_shown_safely():
    with pytest.raises(ConfError, match=r"^a\\x1b.conf:1: "):
        parse("a", "a\x1b.conf")


def test_command_error():
    (suite,) = parse("a a.log list ./a.sh x")
    caught = conf.command_error(suite, "not found")
    assert caught.message == "q.conf:1: suite a: command './a.sh': not found"
    assert "root directory" in caught.hint


def test_select_keeps_the_order_of_the_conf():
    suites = parse(PUBLISHED)
    assert [suite.label for suite in conf.select(suites, [" core", "torch"])] == ["torch", "core"]


@pytest.mark.parametrize(
    ("labels", "said", "hint"),
    [
        (["trch"], "no suite 'trch'", "did you mean torch? the suites are: torch, jax, core"),
        (["xyz"], "no suite 'xyz'", "the suites are: torch, jax, core"),
        (["torch", ""], "an empty label", "the suites are: torch, jax, core"),
        (["torch", "torch"], "'torch' is named twice", "name each suite once"),
        ([], "names no suite", "the suites are: torch, jax, core"),
    ],
)
def test_select_refuses(labels, said, hint):
    with pytest.raises(OptionError) as caught:
        conf.select(parse(PUBLISHED), labels)
    assert said in caught.value.message
    assert caught.value.hint == hint


@given(st.text() | st.text(alphabet="ab.'\"\\# \t\r\nlistopaque/"))
def test_only_declared_errors(text):
    try:
        suites = parse(text)
    except ConfError as caught:
        assert caught.message.startswith("q.conf")  # noqa: PT017
    else:
        assert len({suite.label for suite in suites}) == len(suites)


@given(st.lists(st.text(alphabet=st.characters(exclude_characters="\0\n", exclude_categories=["Cs"])), max_size=4))
def test_quoted_arguments_come_back(arguments):
    import shlex

    (suite,) = parse(f"a a.log list {shlex.join(['x', *arguments])} # end")
    assert suite.command == ("x", *arguments)


@pytest.mark.parametrize("text", ["s s.log list ./a.sh\rt t.log list ./b.sh\r", "# old\rs s.log list ./a.sh\r\n"])
def test_line_ends_of_old_macs_hide_no_suite(text):
    with pytest.raises(ConfError, match=r"q\.conf:1: a carriage return inside the line"):
        conf.parse_all([("q.conf", text)])


def test_an_endless_line_is_refused_at_once():
    with pytest.raises(ConfError, match=r"q\.conf:1: a line of 200014 characters"):
        conf.parse_all([("q.conf", "s s.log list ./" + "a" * 199_999)])
