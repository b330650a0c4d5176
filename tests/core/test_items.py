"""Listings to items and census, and globs, against the shells themselves."""

from __future__ import annotations

import fnmatch
import shutil
import subprocess
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sgpu.core.items import Listing, build, filter_matches, glob_escape, glob_match, parse_listing
from pytest_sgpu.errors import ListingError
from pytest_sgpu.model import Census, Item, Key, Mode, Notice, Suite

SUITE = Suite("s", "s.log", Mode.LIST, ("./s.sh", "x"), "q.conf", 3)
OPAQUE = Suite("o", "o.log", Mode.OPAQUE, ("./o.sh",), "q.conf", 4)
WHO = "q.conf:3: suite s: './s.sh'"

NOISY = """\
Loading toolchain 7.0 ... done
this script prints TE_CI_ITEM lines, see the docs
 TE_CI_ITEM indented
\x1b[32mTE_CI_ITEM coloured\x1b[0m
TE_CI_ITEMS are listed below
TE_CI_ITEM: no

50%\rTE_CI_ITEM drawn over
TE_CI_ITEM alpha
TE_CI_ITEM\tbeta\t 3
TE_CI_ITEM $(x);"../*'[a] 02\r
all done, bye"""


def test_noise_is_ignored():
    assert parse_listing(NOISY, SUITE) == (("alpha", 1), ("beta", 3), ("$(x);\"../*'[a]", 2))


def test_windows_line_ends():
    assert parse_listing("TE_CI_ITEM alpha\r\nTE_CI_ITEM beta 1\r\n", SUITE) == (("alpha", 1), ("beta", 1))


ODD_TAG = (
    "its tag holds a control character, an invisible one, a blank, a byte that is no UTF-8, or an order to a CI service"
)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("TE_CI_ITEM", "it has no tag: 'TE_CI_ITEM'"),
        ("TE_CI_ITEM  \r", r"it has no tag: 'TE_CI_ITEM  \x0d'"),
        ("TE_CI_ITEM a 0", "'0' is no number of GPUs: 'TE_CI_ITEM a 0'"),
        ("TE_CI_ITEM a two", "'two' is no number of GPUs"),
        ("TE_CI_ITEM a -1", "'-1' is no number of GPUs"),
        ("TE_CI_ITEM a 1.5", "'1.5' is no number of GPUs"),
        ("TE_CI_ITEM a +1", "'+1' is no number of GPUs"),
        ("TE_CI_ITEM a ²", "'²' is no number of GPUs"),
        ("TE_CI_ITEM a " + "9" * 5000, "is no number of GPUs"),
        ("TE_CI_ITEM a 1 more", "it has more than a tag and a number of GPUs: 'TE_CI_ITEM a 1 more'"),
        (
            "TE_CI_ITEM a\x1b[0m",
            rf"{ODD_TAG}: 'TE_CI_ITEM a\x1b",
        ),
        (
            "TE_CI_ITEM a\0b",
            rf"{ODD_TAG}: 'TE_CI_ITEM a\x00b'",
        ),
        (
            "TE_CI_ITEM a\udcff",
            rf"{ODD_TAG}: 'TE_CI_ITEM a\xff'",
        ),
        ("TE_CI_ITEM ##[error]b", rf"{ODD_TAG}: 'TE_CI_ITEM #\x23[error]b'"),
        ("TE_CI_ITEM a\u200bb", rf"{ODD_TAG}: 'TE_CI_ITEM a\u200bb'"),
        ("TE_CI_ITEM a\xa0b", ODD_TAG),
    ],
)
def test_malformed_lines_are_named(line, said):
    with pytest.raises(ListingError) as caught:
        parse_listing(f"TE_CI_ITEM good\n{line}\nTE_CI_ITEM more\n", SUITE)
    assert caught.value.message.startswith(f"{WHO} printed a malformed item line, ")
    assert said in caught.value.message
    assert len(caught.value.message) < 400
    assert "TE_CI_ITEM <tag>[ <gpus>]" in caught.value.hint


def test_a_tag_printed_twice_is_named():
    with pytest.raises(ListingError) as caught:
        parse_listing("TE_CI_ITEM a\nTE_CI_ITEM b\nTE_CI_ITEM a 2\n", SUITE)
    assert caught.value.message == f"{WHO} printed the tag 'a' twice in list mode"


def test_a_long_listing_is_fast():
    start = time.perf_counter()
    tags = parse_listing("".join(f"noise {n}\nTE_CI_ITEM dir.test_{n}.ck 1\n" for n in range(100_000)), SUITE)
    assert len(tags) == 100_000
    assert time.perf_counter() - start < 5  # a quarter of a second; linear is what counts


@given(st.lists(st.sampled_from(["TE_CI_ITEM", " ", "a", "1", "\n", "\r", "\t", "\x1b", "0"])).map("".join) | st.text())
def test_only_declared_errors(text):
    try:
        tags = parse_listing(text, SUITE)
    except ListingError:
        return
    assert all(tag and tag.split() == [tag] and gpus >= 1 for tag, gpus in tags)
    assert len(dict(tags)) == len(tags)


def keys(*texts: str) -> frozenset[Key]:
    return frozenset(map(Key.parse, texts))


def test_items_of_all_suites_in_listing_order():
    other = Suite("t", "t.log", Mode.LIST, ("./t.sh",), "q.conf", 5)
    listings = {
        "s": Listing((("b", 1), ("a", 1)), (("a", 1), ("b", 1), ("skipped", 4))),
        "t": Listing((("new", 1),), (("old", 1),)),
    }
    items, census, notices = build([SUITE, OPAQUE, other], listings)
    assert items == (
        Item(Key("s", "b"), ("./s.sh", "x"), 1, 0),
        Item(Key("s", "a"), ("./s.sh", "x"), 1, 1),
        Item(Key("o"), ("./o.sh",), 1, 2),
        Item(Key("t", "new"), ("./t.sh",), 1, 3),
    )
    assert census == Census(
        keys("s/a", "s/b", "o", "t/new"),
        keys("s/a", "s/b", "s/skipped", "o", "t/new", "t/old"),
        frozenset({"s", "o", "t"}),
    )
    assert notices == ()


def test_a_suite_with_nothing_to_run_here_is_told():
    items, census, notices = build([SUITE], {"s": Listing((), (("a", 1), ("b", 2)))})
    assert items == ()
    assert census == Census(keys(), keys("s/a", "s/b"), frozenset("s"))
    told = "suite s has nothing to run here: its probes leave out all of its items (2)"
    assert notices == (Notice(told, "q.conf:3"),)


def test_a_failed_second_listing_is_told_and_prunes_nothing():
    items, census, notices = build([SUITE], {"s": Listing((("a", 1),), None, "exit code 3")})
    told = (
        "suite s: its second listing (TE_CI_SKIP_CHECK_SUPPORTED=1) failed: exit code 3; none of its weights are pruned"
    )
    assert [item.key for item in items] == [Key("s", "a")]
    assert census == Census(keys("s/a"), keys("s/a"), frozenset())
    assert list(map(str, notices)) == [f"q.conf:3: {told}"]


@pytest.mark.parametrize(
    ("listing", "said"),
    [
        (Listing((), ()), f"{WHO} printed no item line in list mode"),
        (Listing((), None), f"{WHO} printed no item line in list mode, and its second listing failed"),
    ],
)
def test_a_script_that_knows_no_list_mode(listing, said):
    with pytest.raises(ListingError) as caught:
        build([SUITE], {"s": listing})
    assert caught.value.message == said
    assert "TE_CI_LIST_ITEMS=1" in caught.value.hint
    assert "'opaque'" in caught.value.hint


def test_items_for_several_gpus_are_refused_by_name():
    with pytest.raises(ListingError) as caught:
        build([SUITE], {"s": Listing((("a", 1), ("pair", 2)), (("a", 1), ("pair", 2)))})
    assert caught.value.message == f"{WHO}: item s/pair asks for 2 GPUs: items wider than one device cannot run yet"
    assert caught.value.hint


TAGS = st.text(st.sampled_from("ab*?[]\\!^-:.'\"$();/é漢 &|~#") | st.characters(), min_size=0, max_size=8)


@given(TAGS, TAGS)
def test_escaped_globs_are_exact(tag, other):
    pattern = glob_escape(tag)
    assert glob_match(pattern, tag)
    assert fnmatch.fnmatchcase(tag, pattern)
    assert glob_match(pattern, other) == (tag == other)
    assert fnmatch.fnmatchcase(other, pattern) == (tag == other)


NASTY = (
    *(
        "plain",
        "a*",
        "a?",
        "[a]",
        "a",
        "[!a]",
        "[^a]",
        "]",
        "[",
        "[]",
        "[]]",
        "[[]",
        "\\",
        "\\\\",
        "\\*",
        "a\\",
        "[\\]",
    ),
    *(
        "[a-c]",
        "b",
        "[[:alpha:]]",
        "[:alpha:]",
        "[.a.]",
        "[[=a=]]",
        "[*]",
        "[?]",
        "[[]]",
        "[\\\\]",
        "*",
        "**",
        "?",
        "??",
    ),
    *("$(x)", "`x`", ";", "'", '"', "../x", "/etc/*", "~", "!", "^", "-", "--", ".", "..", ".*", "#", "{a,b}", "a|b"),
    *(
        "@(a|b)",
        "?(a)",
        "+(a)",
        "!(a)",
        "&",
        "<",
        "é",
        "漢[字]",
        "%2A",
        "a=b",
        "$HOME",
        "${x}",
        "\\n",
        "test_x.ck[1-2]",
    ),
)
CASE = "while IFS= read -r glob && IFS= read -r text; do case $text in $glob) echo 1;; *) echo 0;; esac; done"
SELECTED = (
    "set -f; while IFS= read -r filter && IFS= read -r text; do found=0; for glob in $filter; do "
    "case $text in $glob) found=1;; esac; done; echo $found; done"
)
SHELLS = [name for name in ("dash", "bash", "busybox", "sh") if shutil.which(name)]


def ask(shell: str, script: str, pairs: list[tuple[str, str]], locale: str = "C.UTF-8") -> list[bool]:
    command = ["busybox", "sh"] if shell == "busybox" else [shell]
    lines = "".join(f"{glob}\n{text}\n" for glob, text in pairs)
    env = {"LC_ALL": locale, "PATH": "/usr/local/bin:/usr/bin:/bin"}
    done = subprocess.run([*command, "-c", script], input=lines.encode(), capture_output=True, env=env, check=True)
    return [line == b"1" for line in done.stdout.split()]


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
@pytest.mark.parametrize("shell", SHELLS)
def test_shells_find_exactly_the_escaped_tag(shell, locale):
    pairs = [(tag, other) for tag in NASTY for other in NASTY]
    wanted = [tag == other for tag, other in pairs]
    escaped = [(glob_escape(tag), other) for tag, other in pairs]
    assert ask(shell, CASE, escaped, locale) == wanted
    assert ask(shell, SELECTED, escaped, locale) == wanted


GLOBS = (
    *(
        "*",
        "a*",
        "*a",
        "*a*",
        "a*b*c",
        "*.ck",
        ".*",
        "?",
        "??",
        "a?c",
        "[abc]",
        "[a-c]x",
        "[!a]",
        "[!a-c]",
        "[c-a]",
        "[]]",
    ),
    *("[!]]", "[]a]", "[a-]", "[-a]", "[]-a]", "[a", "[]", "[!]", "[", "]", "\\*", "\\a", "\\\\", "[\\]]", "[a\\-c]"),
    *("[[:alpha:]]", "[![:digit:]]", "[x[:digit:]-]", "[[:punct:]]", "[[:upper:][:space:]]", "[[-]", "[a[]", "[--/]"),
    *(
        "[a-c-e]",
        "*[*]*",
        "a**b",
        "[*",
        "test_*.c?[.a]*",
        "a[/]b",
        "*/*",
        "[:a]",
        "[[:alpha:]",
        "a\\",
        "",
        "[a\\]",
        "[b-]*",
    ),
)
TEXTS = (
    *(
        "",
        "a",
        "b",
        "abc",
        "ab",
        "aXbYc",
        "x.ck",
        ".ck",
        "a/b",
        "a]",
        "]",
        "[",
        "-",
        "^",
        "!",
        "*",
        "\\",
        "ax",
        "dx",
        "A",
    ),
    *(
        "5",
        "_",
        "[a",
        "[]",
        "[!]",
        "a*b",
        "test_x.ck.a",
        "test_x.c[.a]",
        "/",
        ".",
        "e",
        "d",
        ":",
        "aab",
        "a\\",
        "[abc",
        "b-",
    ),
)


@pytest.mark.parametrize("shell", SHELLS)
def test_globs_match_as_in_the_shell(shell):
    pairs = [(glob, text) for glob in GLOBS for text in TEXTS]
    if shell == "busybox":  # does not take a backslash at the very end for itself
        pairs = [pair for pair in pairs if pair[0] != "a\\"]
    found = ask(shell, CASE, pairs)
    assert [pair for pair, one in zip(pairs, found, strict=True) if one != glob_match(*pair)] == []


def test_caret_negates_as_in_bash():
    assert glob_match("[^a]", "b")
    assert not glob_match("[^a]", "a")
    assert glob_match("[a^]", "^")


@pytest.mark.parametrize(
    ("name", "inside", "outside"),
    [
        ("alnum", "aZ5é", "_- "),
        ("alpha", "aZé", "5_"),
        ("blank", " \t", "\na"),
        ("cntrl", "\x01\x7f", "a "),
        ("digit", "09", "a²"),
        ("graph", "a!é", " \x01\t"),
        ("lower", "az", "A5"),
        ("print", "a !é", "\x01\x7f"),
        ("punct", "!_~[\\]^`-", "a5 "),
        ("space", " \n\v", "a_"),
        ("upper", "AZ", "a5"),
        ("xdigit", "09afAF", "g_"),
    ],
)
def test_character_classes(name, inside, outside):
    assert all(glob_match(f"[[:{name}:]]", character) for character in inside)
    assert not any(glob_match(f"[[:{name}:]]", character) for character in outside)


def test_an_unknown_class_is_its_characters():
    assert glob_match("[[:foo:]]", "o]")
    assert not glob_match("[[:foo:]]", "x")


@given(st.text("ab*?[]\\!^-:.x"), st.text("ab*[]\\-x.!"))
def test_any_text_is_a_glob(pattern, text):
    assert isinstance(glob_match(pattern, text), bool)
    assert glob_match("*", text)
    assert glob_match(f"*{glob_escape(text)}*", f"x{text}y")


@given(st.text("ab?*"), st.text("ab", max_size=12))
def test_stars_agree_with_fnmatch(pattern, text):
    assert glob_match(pattern, text) == fnmatch.fnmatchcase(text, pattern)


def test_many_stars_are_fast():
    start = time.perf_counter()
    assert not glob_match("*a" * 50 + "b", "a" * 5000)
    assert time.perf_counter() - start < 2


def test_filters():
    assert filter_matches("", "x")
    assert not filter_matches(" \t\n", "x")
    assert filter_matches("a*  x\nb", "x")
    assert filter_matches("test_*.ck", "test_a/b.ck")
    assert not filter_matches("a* y", "x")
    assert not filter_matches("x\xa0y", "x")


def test_what_a_shell_said_while_it_listed_is_told():
    listings = {"s": Listing((("a", 1),), (("a", 1),), complaint="s.sh: 4: te_ci_tset: not found")}
    _, _, (notice,) = build([SUITE], listings)
    assert "its shell said 's.sh: 4: te_ci_tset: not found'; a line that it cannot run is missing" in notice.text
