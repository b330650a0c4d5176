"""Secrets out of text: by the names of variables, in URLs, in every form that a line may give them."""

from __future__ import annotations

import shlex
import time
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sgpu.core.redact import ANYWHERE, LEAST, MASK, Redactor, secret_names, unchanged
from pytest_sgpu.core.text import one_line, printable, shown

LONG = "ghp_16C7e42F292c6912E7"
TEXT = st.text(st.characters(codec=None), max_size=60)
SECRET = st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S"]), min_size=ANYWHERE, max_size=30).filter(
    lambda text: text.strip("*") and text.isprintable()
)


def redacted(text: str, **env: str) -> str:
    return Redactor(env).text(text)


@pytest.mark.parametrize(
    "name", ["GITHUB_TOKEN", "token", "Client_Secret", "PGPASSWORD", "AWS_SECRET_ACCESS_KEY", "sshKey", "KEYS"]
)
def test_a_variable_is_known_by_its_name_in_any_case(name):
    assert redacted(f"a {LONG} b{LONG}c", **{name: LONG}) == f"a {MASK} b{MASK}c"


@pytest.mark.parametrize("name", ["TO_KEN", "HOME", "PASS", "SEC", "PATH"])
def test_other_variables_are_shown(name):
    assert redacted(LONG, **{name: LONG}) == LONG


@pytest.mark.parametrize(
    ("value", "text", "right"),
    [
        ("12345", "12345", "12345"),
        ("123456", "123456", MASK),
        ("torch1", "torch1/x torch10 xtorch1 torch1_a", f"{MASK}/x torch10 xtorch1 torch1_a"),
        ("a.b.c1", "a.b.c1, axb.c1", f"{MASK}, axb.c1"),
        ("/a/b/c", "x/a/b/c y/a/b/cd", f"x{MASK} y/a/b/cd"),
        ("hunter2hunt", "xhunter2hunt", "xhunter2hunt"),
        ("hunter2hunts", "xhunter2huntsx", f"x{MASK}x"),
        ("  padded value\n", "padded value", MASK),
        ("", "", ""),
        ("      ", "      ", "      "),
        ("******", "******", "******"),
    ],
)
def test_how_long_a_value_is_decides_where_it_is_looked_for(value, text, right):
    assert redacted(text, A_KEY=value) == right


def test_the_longest_of_several_goes_first():
    assert redacted("abcdefghijklmnop abcdefghijkl", A_KEY="abcdefghijkl", B_KEY="abcdefghijklmnop") == f"{MASK} {MASK}"


def test_each_long_line_of_a_value_is_hidden_by_itself():
    key = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBg\nshort\n-----END PRIVATE KEY-----\n"
    assert redacted("got MIIEvQIBADANBg, short", DEPLOY_KEY=key) == f"got {MASK}, short"
    assert redacted(f"<{key.strip()}>", DEPLOY_KEY=key) == f"<{MASK}>"


@pytest.mark.parametrize(
    "value", ['it\'s a "secret" of mine', "back\\slash and more", "two\nlines of a secret", "a b&c=d/e%f?"]
)
def test_quoted_and_escaped_values_are_found(value):
    env = {"MY_SECRET": value}
    forms = [value, shlex.quote(value), shlex.join(["x", f"--token={value}"]), quote(value, safe="")]
    forms.append(value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"'))
    for form in forms:
        assert MASK in redacted(f"run {form} now", **env)
        assert value not in redacted(f"run {form} now", **env)


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("https://me:pa55@host/x", "https://***@host/x"),
        ("clone https://me:p@ss@host.org:8080/x?y=1 now", "clone https://***@host.org:8080/x?y=1 now"),
        ("git+https://ghp_abc@github.com/o/r.git", "git+https://***@github.com/o/r.git"),
        ("HTTP://token@host", "HTTP://***@host"),
        ("ssh://git@host/r", "ssh://git@host/r"),
        ("postgres://u:p/w@h/db", "postgres://***@h/db"),
        ("redis://:pa55word@h:6379/0", "redis://***@h:6379/0"),
        ("http://host:8080/a@b", "http://host:8080/a@b"),
        ("http://[::1]:80/a@b", "http://[::1]:80/a@b"),
        ("http://host/path?mail=a@b.org", "http://host/path?mail=a@b.org"),
        ("see https://host and mail a:b@c", "see https://host and mail a:b@c"),
        ("'https://a:b@c' \"https://d:e@f\"", "'https://***@c' \"https://***@f\""),
        ("https://h/?token=abc", "https://h/?token=***"),
        ("https://h/?a=1&access_token=abc&b=2#frag", "https://h/?a=1&access_token=***&b=2#frag"),
        (
            "https://h/?X-Amz-Signature=ab%2F&X-Amz-Credential=c/d",
            "https://h/?X-Amz-Signature=***&X-Amz-Credential=***",
        ),
        ("https://h/?sig=x&se=y", "https://h/?sig=***&se=y"),
        ("https://h/#access_token=abc", "https://h/#access_token=***"),
        ("https://h/?apikey=1;auth=2&amp;key=3", "https://h/?apikey=***;auth=***&amp;key=***"),
        ("curl 'https://h/?password=x' -o y", "curl 'https://h/?password=***' -o y"),
        ("/relative?client_secret=x", "/relative?client_secret=***"),
        ("https://h/?design=1&monkey=2&author=3&keyword=4", "https://h/?design=1&monkey=2&author=3&keyword=4"),
        ("token=abc", "token=abc"),
        ("?token=", "?token="),
        ("://", "://"),
        ("https://@host", "https://***@host"),
    ],
)
def test_what_urls_carry(text, right):
    assert redacted(text) == right


def test_what_a_url_of_the_environment_carries_is_hidden_everywhere():
    env = {"PIP_INDEX_URL": "https://me:hunter2!@pypi.org/s", "HOOK": "https://h/?token=abcdef123", "X": "http://u:p@h"}
    assert redacted("password hunter2! and abcdef123, u:p", **env) == f"password {MASK} and {MASK}, u:p"
    assert redacted("me@pypi.org", **env) == "me@pypi.org"


def test_without_secrets_a_text_stays():
    assert redacted("a = b; c://d ? e # f & g", HOME="/root", A_TOKEN="abc") == "a = b; c://d ? e # f & g"
    assert unchanged("x") == "x"


@given(TEXT, SECRET, TEXT, st.sampled_from(["A_TOKEN", "my_password"]))
def test_no_long_secret_is_left_and_a_second_call_changes_nothing(before, secret, after, name):
    redactor = Redactor({name: secret})
    shown = redactor.text(f"{before} {secret} {after}")
    assert secret not in shown
    assert MASK in shown
    assert redactor.text(shown) == shown


@given(st.dictionaries(st.sampled_from(["A_KEY", "B_TOKEN", "C", "D_SECRET"]), TEXT), TEXT)
def test_any_environment_and_any_text_are_taken(env, text):
    assert isinstance(Redactor(env).text(text), str)


@given(st.text(st.characters(codec=None, exclude_characters=":=@?&#;"), max_size=80))
def test_text_without_urls_and_secrets_is_never_touched(text):
    assert Redactor({"A_TOKEN": LONG}).text(text) == text.replace(LONG, MASK)


@pytest.mark.parametrize("piece", ["://", "?a=", "://a:", "&token", "://a:b@", "?k=v&"])
def test_a_long_hostile_text_takes_linear_time(piece):
    redactor = Redactor({"A_KEY": "x" * LEAST, "B_KEY": LONG})
    start = time.perf_counter()
    redactor.text(piece * 200_000)
    redactor.text("://" + piece[-1] * 1_000_000)
    assert time.perf_counter() - start < 10  # a tenth of a second; linear is what counts


ODD = "tok\x1b[1m en\t\udcff\udc80 'q' \"e\" \\ä\u202e 1234567890"


@pytest.mark.parametrize(
    "form",
    [
        ODD,
        printable(ODD),
        one_line(ODD),
        repr(ODD)[1:-1],
        ODD.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace"),
        printable(ODD.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")),
        ODD.encode("utf-8", "surrogateescape").decode("utf-8", "replace"),
        one_line(ODD.encode("utf-8", "surrogateescape").decode("utf-8", "replace")),
        ODD.encode("utf-8", "replace").decode("utf-8"),
        quote(ODD.encode("utf-8", "surrogateescape"), safe=""),
        "".join(letter for letter in ODD if letter.isprintable()),
    ],
)
def test_a_secret_is_known_in_the_forms_that_showing_gives_it(form):
    assert redacted(f"<{form}>", A_TOKEN=ODD) == f"<{MASK}>"


def test_a_value_that_no_system_can_have_is_known_too():
    assert redacted("<abcdef\ud800ghijkl>", A_TOKEN="abcdef\ud800ghijkl") == f"<{MASK}>"


@pytest.mark.parametrize("value", ["\x01\x02\x03\x04a ", "\udcff\udcfe\udcfd\udcfc\udcfb\udcfa", "*\t*\t*\t*"])
def test_what_little_is_left_of_a_value_in_a_form_hides_nothing_else(value):
    text = "a ?????? \ufffd\ufffd\ufffd\ufffd\ufffd\ufffd * * * * a"
    assert redacted(text, A_TOKEN=value) == text


@pytest.mark.parametrize("limit", [46, 50, 52, 66])
def test_the_beginning_of_a_secret_is_hidden_where_a_text_was_cut(limit):
    cut = shown("so it said " + 3 * LONG, limit)
    assert LONG[:6] in cut.replace(LONG, "")
    hidden = redacted(f"a {cut}; b {cut}", A_TOKEN=LONG)
    assert LONG[:6] not in hidden
    assert hidden.count(f"{MASK} ... [") == 2
    assert redacted(hidden, A_TOKEN=LONG) == hidden


def test_a_long_text_may_have_been_cut_without_a_note():
    words = "x" * 200 + " "
    assert redacted(words + LONG[:15], A_TOKEN=LONG) == words + MASK
    assert redacted(words + LONG[:11], A_TOKEN=LONG) == words + LONG[:11]
    assert redacted(words + LONG[:14] + LONG[:15], A_TOKEN=LONG) == words + LONG[:14] + MASK
    assert redacted(words + LONG[:14] + "!", A_TOKEN=LONG) == words + LONG[:14] + "!"


def test_the_folder_of_a_secret_path_is_no_secret():
    assert redacted("/home/runner/work", SSH_KEY="/home/runner/work/_temp/id_rsa") == "/home/runner/work"


def test_the_variables_with_secrets_are_named_and_their_values_are_not():
    env = {
        "Z_TOKEN": LONG,
        "API_KEY": "abcdef",
        "SHORT_KEY": "abc",
        "EMPTY_TOKEN": "",
        "INDEX_URL": "https://me:password@host/simple",
        "SITE": "https://host/simple",
        "HOME": LONG,
    }
    assert secret_names(env) == ("API_KEY", "INDEX_URL", "Z_TOKEN")
    assert Redactor(env).names == secret_names(env)
    assert secret_names({}) == ()
