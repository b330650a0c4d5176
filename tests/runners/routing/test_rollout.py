"""The rollout text: where it is cut, what each field and user line means, and what a fault costs."""

from __future__ import annotations

import pytest

pytest.importorskip("ruamel.yaml")

from pytest_sgpu.runners.routing.rollout import Experiment, Rollout, User, format_rollout, parse_rollout
from pytest_sgpu.runners.routing.sections import MOST_LINES
from pytest_sgpu.runners.routing.settings import LARGEST
from pytest_sgpu.runners.routing.users import MOST_PROBLEMS

SETTINGS = """\
experiments:
  lf:
    rollout_perc: 25
  arc:
    rollout_perc: 50
    all_branches: true
    default: false
    workflows: pull,trunk
"""
LF = Experiment("lf", 25.0)
ARC = Experiment("arc", 50.0, all_branches=True, default=False, workflows=("pull", "trunk"))
BOTH = {"lf": LF, "arc": ARC}
ALICE = {"alice": User("alice", {"lf": 100.0})}


def parse(text: str) -> Rollout:
    rollout = parse_rollout(text, "rollout.txt")
    lines = text.count("\n") + 1
    for problem in rollout.problems:
        assert problem.source == "rollout.txt"
        assert 0 <= problem.line <= lines
        assert str(problem).isprintable()
    assert rollout.usable is not bool(rollout.why)
    return rollout


def severities(rollout: Rollout) -> str:
    """Give E and W for each problem, in order."""
    return "".join(one.severity[0].upper() for one in rollout.problems)


def one_experiment(body: str) -> tuple[Experiment | None, str]:
    """Read the experiment ``x``, whose body is in flow style; give it and its problems' severities."""
    rollout = parse(f"experiments:\n  lf: {{rollout_perc: 25}}\n  x: {body}\n---\n")
    assert rollout.usable
    assert rollout.experiments["lf"] == LF
    return rollout.experiments.get("x"), severities(rollout)


def one_user(line: str) -> tuple[User | None, str]:
    """Read one user line between two good ones; give the user and the problems' severities."""
    rollout = parse(f"{SETTINGS}---\n@first,lf\n{line}\n@last,lf")
    names = list(rollout.users)
    assert names[0] == "first"
    assert names[-1] == "last"
    assert len(names) <= 3
    assert {one.line for one in rollout.problems} <= {11}
    return (rollout.users[names[1]] if len(names) == 3 else None), severities(rollout)


TICKS = "`" * 3
DOCUMENTS = [  # text, experiments, users, severities of the problems
    ("plain", f"{SETTINGS}---\n@alice,lf\n", BOTH, ALICE, ""),
    ("blanks around the separator", f"{SETTINGS} \t--- \n@alice,lf", BOTH, ALICE, ""),
    ("carriage returns", f"{SETTINGS}---\n@alice,lf\n".replace("\n", "\r\n"), BOTH, ALICE, ""),
    ("byte order mark", f"\ufeff{SETTINGS}---\n@alice,lf\n", BOTH, ALICE, ""),
    ("byte order mark behind blanks", f" \n\t\r\n\ufeff\ufeff{SETTINGS}---\n@alice,lf\n", BOTH, ALICE, ""),
    ("byte order mark in a fence", f"\ufeff{TICKS}\n{SETTINGS}{TICKS}\n---\n@alice,lf\n", BOTH, ALICE, ""),
    ("separator in a comment", f"# --- fleets ---\n{SETTINGS}---\n@alice,lf", BOTH, ALICE, "W"),
    ("separator after a value", SETTINGS.replace("25", "25 # --- was 20") + "---\n@alice,lf", BOTH, ALICE, "W"),
    ("a comment of dashes alone", f"#---\n{SETTINGS}---\n@alice,lf", BOTH, ALICE, "W"),
    ("a second separator", f"{SETTINGS}---\n@bob\n---\n@alice,lf", BOTH, {"bob": User("bob", {}), **ALICE}, "WW"),
    ("a second separator of more dashes", f"{SETTINGS}---\n-----\n@alice,lf", BOTH, ALICE, "W"),
    ("a separator of more dashes", f"{SETTINGS}-----\n@alice,lf", BOTH, ALICE, "W"),
    ("blanks around more dashes", f"{SETTINGS} ---------- \n@alice,lf", BOTH, ALICE, "W"),
    ("two dashes", f"# --\n{SETTINGS}---\n--\n@alice,lf", BOTH, ALICE, ""),
    ("words between dashes", f"# --- users ---\n{SETTINGS}---\n@alice,lf", BOTH, ALICE, "W"),
    ("a third separator", f"{SETTINGS}---\n---\n---\n@alice,lf", BOTH, ALICE, "W"),
    ("no separator, settings", SETTINGS, BOTH, {}, "W"),
    ("no separator, settings in another case", "# us\nexperiments: {}\nEXPERIMENTS: {}\n", {}, {}, "WWW"),
    ("no separator, users", "@alice,lf\n", {}, ALICE, "WWW"),
    ("no users", f"{SETTINGS}---", BOTH, {}, ""),
    ("no settings", "---\n@alice,lf", {}, ALICE, "WW"),
    ("bare fence", f"{TICKS}\n{SETTINGS}{TICKS}\n---\n@alice,lf", BOTH, ALICE, ""),
    ("fence with yaml", f"{TICKS}yaml\n{SETTINGS}{TICKS}\n---\n@alice,lf", BOTH, ALICE, ""),
    ("fence with YAML", f"{TICKS} YAML\n{SETTINGS}{TICKS}\n---\n@alice,lf", BOTH, ALICE, ""),
    ("fence with another word", f"{TICKS}toml\n{SETTINGS}{TICKS}\n---\n@alice,lf", BOTH, ALICE, "W"),
    ("fence of tildes", f"~~~yaml\n{SETTINGS}~~~\n\n---\n@alice,lf", BOTH, ALICE, ""),
    ("longer end of the fence", f"{TICKS}\n{SETTINGS}{TICKS}`\n---\n@alice,lf", BOTH, ALICE, ""),
    ("fence around everything", f"{TICKS}\n{SETTINGS}---\n@alice,lf\n{TICKS}", BOTH, ALICE, ""),
    ("fence that stays open", f"{TICKS}yaml\n{SETTINGS}---\n@alice,lf", BOTH, ALICE, ""),
    ("fence around the users too", f"{SETTINGS}---\n{TICKS}\n@alice,lf\n{TICKS}", BOTH, ALICE, ""),
    ("prose before the fence", f"Our fleets:\n\n{TICKS}\n{SETTINGS}{TICKS}\n---\n@alice,lf", BOTH, ALICE, "W"),
    ("prose after the fence", f"{TICKS}\n{SETTINGS}{TICKS}\nthat: [is\n---\n@alice,lf", BOTH, ALICE, "W"),
    ("a document start", f"---\n{SETTINGS}---\n@alice,lf", BOTH, ALICE, "W"),
    ("a document start in a fence", f"{TICKS}\n# us\n---\n{SETTINGS}---\n@alice,lf\n{TICKS}", BOTH, ALICE, "W"),
    ("a document start of more dashes", f"\t\n----\n{SETTINGS}---\n@alice,lf", BOTH, ALICE, "W"),
    ("blanks and a tab first", f" \t\n{SETTINGS}---\n@alice,lf", BOTH, ALICE, ""),
    ("a tab last", f"{SETTINGS}\t\n---\n@alice,lf", BOTH, ALICE, ""),
    ("a tab in the middle", SETTINGS.replace("  arc", "\t\n \t \n  arc") + "---\n@alice,lf", BOTH, ALICE, ""),
    ("a tab in a fence", f"{TICKS}yaml\n\t\n{SETTINGS} \t\n{TICKS}\n---\n@alice,lf", BOTH, ALICE, ""),
    ("blanks without a name", f"\xa0\n{SETTINGS}\u2003\n\x0c\n---\n@alice,lf", BOTH, ALICE, ""),
    ("backticks around the settings", f"`{SETTINGS.rstrip()}`\n---\n@alice,lf", BOTH, ALICE, ""),
    ("a fence that only ends", f"{SETTINGS}{TICKS}\n\n---\n@alice,lf", BOTH, ALICE, ""),
    ("a fence of tildes that only ends", f"{SETTINGS}~~~\n`\n---\n@alice,lf", BOTH, ALICE, ""),
    ("an empty fence", f"{TICKS}\n{TICKS}\n---\n@alice,lf", {}, ALICE, "WW"),
    ("lines of backticks", f"``\n{SETTINGS}`\n\n---\n@alice,lf", BOTH, ALICE, ""),
    ("backticks, blanks and tabs", f"\n\t` {SETTINGS}\t ` \n---\n@alice,lf", BOTH, ALICE, ""),
    ("a tab before the first line", f"\t{SETTINGS}---\n@alice,lf", BOTH, ALICE, ""),
    ("blanks before the first line", f"  {SETTINGS}---\n@alice,lf", BOTH, ALICE, ""),
    ("more blanks before the first line", f"   {SETTINGS}---\n@alice,lf", BOTH, ALICE, ""),
    ("blanks before a first comment", f"  # us\n{SETTINGS}---\n@alice,lf", BOTH, ALICE, ""),
    ("blanks before every line", SETTINGS.replace("\n", "\n  ").join("  ") + "\n---\n@alice,lf", BOTH, ALICE, ""),
    ("another key", f"version: 1\n{SETTINGS}---\n@alice,lf", BOTH, ALICE, "W"),
    ("no experiments", "experiments: {}\n---\n@alice", {}, {"alice": User("alice", {})}, "WW"),
    (
        "nothing under experiments",
        "experiments:\n---\n@alice,-x",
        {},
        {"alice": User("alice", {}, frozenset("x"))},
        "WW",
    ),
    ("flow style", 'experiments: {"lf": {rollout_perc: 25}}\n---\n@alice,lf', {"lf": LF}, ALICE, ""),
    (
        "aliases",
        "experiments:\n  lf: &a {rollout_perc: 25}\n  b: *a\n---\n",
        {"lf": LF, "b": Experiment("b", 25.0)},
        {},
        "",
    ),
]


@pytest.mark.parametrize(
    ("text", "experiments", "users", "problems"), [row[1:] for row in DOCUMENTS], ids=[row[0] for row in DOCUMENTS]
)
def test_q01_q06_documents(text, experiments, users, problems):
    rollout = parse(text)
    assert rollout.usable
    assert rollout.experiments == experiments
    assert list(rollout.experiments) == list(experiments)
    assert rollout.users == users
    assert severities(rollout) == problems


def test_q01_more_dashes_end_the_settings_too_and_are_told():
    rollout = parse(f"{SETTINGS}-----\n@alice,lf")
    (problem,) = rollout.problems
    assert str(problem) == "rollout.txt:9: warning: '-----' is taken as the line '---' (write '---')"
    assert rollout.users["alice"].line == 10


def test_q01_only_the_first_line_that_is_the_separator_alone_ends_the_settings():
    rollout = parse(f"{SETTINGS}# not here: ---\n  ---  \n@alice,lf")
    assert rollout.experiments == BOTH
    assert rollout.users["alice"].line == 11


def test_q02_a_separator_within_a_line_is_told_and_does_not_cut():
    rollout = parse("experiments:\n  # --- fleets ---\n  lf: {rollout_perc: 25} # --- x\n---\n")
    assert rollout.experiments == {"lf": LF}
    assert [str(one) for one in rollout.problems] == [
        f"rollout.txt:{line}: warning: '---' in a comment does not end the settings"
        " (only a line that is '---' alone ends the settings)"
        for line in (2, 3)
    ]
    assert all(one.mistake for one in rollout.problems)
    (within,) = parse("experiments:\n  lf: {workflows: a---b}\n---\n").problems
    assert (within.message, within.mistake) == ("'---' within a line does not end the settings", True)


def test_q03_what_follows_a_second_separator_is_still_read():
    rollout = parse(f"{SETTINGS}---\n@bob,lf\n---\n@alice,-lf")
    assert set(rollout.users) == {"alice", "bob"}
    assert "second" in rollout.problems[0].message
    assert rollout.problems[0].line == 11


def test_q04_without_a_separator_the_key_experiments_says_what_it_is():
    assert parse(SETTINGS).experiments == BOTH
    assert parse("# a list\n@alice,lf").users == ALICE
    assert parse("@alice,lf\n  experiments:\n").users == ALICE  # not at the start of a line


def test_q05_lines_keep_their_numbers_inside_a_fence():
    rollout = parse(f"Hello!\n{TICKS}yaml\n{SETTINGS}{TICKS}\n---\n@alice,lf")
    assert [one.line for one in rollout.experiments.values()] == [4, 6]
    assert rollout.users["alice"].line == 13


def test_q05_blanks_and_backticks_around_the_settings_change_no_line_number():
    rollout = parse(f" \t\n``\n\t{SETTINGS} \t\n`\n---\n@alice,lf")
    assert [one.line for one in rollout.experiments.values()] == [4, 6]
    assert rollout.users["alice"].line == 14


def test_q06_prose_around_the_fence_is_told():
    rollout = parse(f"Hello!\n{TICKS}yaml\n{SETTINGS}{TICKS}\nBye.\n---\n")
    assert rollout.experiments == BOTH
    assert [(one.line, one.message) for one in rollout.problems] == [
        (1, "text before the fence is passed over: 'Hello!'"),
        (12, "text after the fence is passed over: 'Bye.'"),
    ]


UNUSABLE = [  # text, part of the reason, part of the hint
    ("", "empty", ""),
    (" \n\t\r\n", "empty", ""),
    ("<html>Not Found</html>", "neither", "begin with a line experiments: and end with a line '---'"),
    ("expriments:\n  lf: {rollout_perc: 25}\n", "neither", "begin with a line experiments: and end with a line '---'"),
    ('{"experiments": {"lf": {"rollout_perc": 25}}}', "neither", "begin with a line experiments: and end with a line"),
    ("---\n", "neither", "a user line begins with @"),
    ("experiments: [\n---\n@alice,lf", "no valid YAML", ""),
    ("experiments:\n\tlf:\n---\n@alice,lf", "no valid YAML", "spaces"),
    (f"Our fleets\n{SETTINGS}---\n@alice,lf", "no valid YAML", ""),
    (f"{SETTINGS}@alice,lf", "no valid YAML", "between the settings and the users"),
    ("experiment:\n  lf:\n---\n@alice,lf", "no key experiments, only 'experiment'", 'did you mean "experiments"?'),
    ("a: 1\nExperiments:\n---\n@alice,lf", "no key experiments, only 'Experiments'", 'did you mean "experiments"?'),
    ("EXPERIMENTS:\n  lf:\n", "no key experiments, only 'EXPERIMENTS'", 'did you mean "experiments"?'),
    ("---\nExperiments:\n  lf:\n---\n@alice,lf", "no key experiments, only 'Experiments'", "did you mean"),
    ("``\n\t`\n", "neither", ""),
    ("fleets: {}\n---\n@alice,lf", "no key experiments", ""),
    ("experiments: [lf]\n---\n@alice,lf", "experiments is a list", ""),
    ("experiments: lf\n---\n@alice,lf", "experiments is a text, 'lf'", ""),
    ("just a text\n---\n@alice,lf", "the settings are a text", ""),
    ("- lf\n---\n@alice,lf", "the settings are a list", ""),
    ("experiments: {lf: *nobody}\n---\n@alice,lf", "no valid YAML", ""),
    ("experiments: &a {lf: *a}\n---\n@alice,lf", "contains itself", ""),
    (
        f"{TICKS}\n\ufeffexperiments: {{}}\n---\n@alice,lf",
        "no key experiments, only '\\ufeffexperiments'",
        'did you mean "experiments"?',
    ),
    ("experiments: !x {lf: {}}\n---\n@alice,lf", "experiments is a value with the tag !x", ""),
    ("!x\nexperiments: {lf: {}}\n---\n@alice,lf", "the settings are a value with the tag !x", ""),
    ("experiments: {lf: \x00}\n---\n@alice,lf", "no valid YAML", ""),
    ("a: " + "[" * 3000 + "\n---\n@alice,lf", "", ""),
    ("experiments: {}\n" + "# \n" * 100_000 + "---\n@alice,lf", f"characters, at most {LARGEST}", ""),
]


@pytest.mark.parametrize(("text", "why", "hint"), UNUSABLE, ids=[f"{row[1]}-{n}" for n, row in enumerate(UNUSABLE)])
def test_q07_what_cannot_be_understood_says_why_and_has_no_experiments(text, why, hint):
    rollout = parse(text)
    assert not rollout.usable
    assert why in rollout.why
    assert rollout.why.isprintable()
    assert rollout.experiments == {}
    errors = [one for one in rollout.problems if one.severity == "error"]
    assert len(errors) == 1
    assert rollout.why.startswith(errors[0].message)
    assert hint in errors[0].hint
    assert rollout.users == (ALICE if "@alice,lf" in text and "\n---\n@" in text else {})


NAMES = [  # as written, the name or None when it costs the experiment
    ("x", "x"),
    ("X9", "X9"),
    ("a-b_c", "a-b_c"),
    ("on", "on"),
    ("yes", "yes"),
    ("1e3", "1e3"),
    ("010", "010"),
    ('"123"', "123"),
    ("'true'", "true"),
    ("123", None),
    ("true", None),
    ("null", None),
    ("~", None),
    ("1.5", None),
    ("-x", None),
    ("x-", None),
    ("_x", None),
    ("a b", None),
    ('"x\\n"', None),
    ("é", None),
    ('""', None),
    ("<<", None),
    ("a.b", None),
    ("[a]", None),
    ("{a: b}", None),
    ("? [a, b]\n  ", None),
    ("!foo x", None),
    ("!foo &a x", None),
    ("!!str x", "x"),
    ("!!binary eA==", None),
    ("x\u200b", None),
]


@pytest.mark.parametrize(("written", "name"), NAMES)
def test_q08_a_bad_name_costs_its_experiment_alone(written, name):
    rollout = parse(f"experiments:\n  lf: {{rollout_perc: 25}}\n  {written}: {{rollout_perc: 1}}\n  o:\n---\n")
    assert list(rollout.experiments) == ["lf", *([name] if name else []), "o"]
    assert severities(rollout) == ("" if name else "E")
    assert all(one.line == 3 for one in rollout.problems)


@pytest.mark.parametrize(
    "body",
    [
        *("25", "text", "[rollout_perc]", '""', "true", "!foo {rollout_perc: 1}", "!foo", "!!binary aGk=", "!foo [a]"),
        *("!!python/object:os.system {a: b}", "!!set {a}", "&a !foo {rollout_perc: !bar 1}"),
    ],
)
def test_q08_a_body_that_is_no_mapping_costs_its_experiment_alone(body):
    assert one_experiment(body) == (None, "E")


def test_q08_a_tag_and_a_key_that_is_no_text_are_told_in_their_place():
    rollout = parse("experiments:\n  lf: {rollout_perc: !foo 100}\n  x: !bar {}\n  ? [a]\n  : {}\n  arc:\n---\n")
    assert list(rollout.experiments.values()) == [Experiment("lf"), Experiment("arc")]
    assert [str(one) for one in rollout.problems] == [
        (
            "rollout.txt:2: error: lf: rollout_perc is a value with the tag !foo, expected a number from 0 to 100; "
            "0 is taken"
        ),
        "rollout.txt:3: error: x is a value with the tag !bar, expected a mapping of fields; it is left out",
        (
            "rollout.txt:4: error: '[a]' is no name of an experiment; it is left out (expected letters and digits, "
            "and within them also - and _)"
        ),
    ]


def test_q08_what_cannot_be_seen_in_a_name_is_shown():
    rollout = parse("experiments:\n  l\u200bf: {}\n  x: {\u200brollout_perc: 5}\n---\n@u\u200b,x\n@v,\xa0x\ufeff\n")
    assert [one.message.partition(";")[0] for one in rollout.problems] == [
        r"'l\u200bf' is no name of an experiment",
        r"x: unknown field '\u200brollout_perc' is not read",
        r"'u\u200b' is no login",
        r"v: 'x\ufeff' names no experiment",
        "the line of v names no experiment",
    ]


def test_q08_names_that_differ_in_case_only_are_told():
    rollout = parse("experiments:\n  lf: {rollout_perc: 25}\n  Lf: {rollout_perc: 5}\n---\n")
    assert rollout.experiments == {"lf": LF, "Lf": Experiment("Lf", 5.0)}
    assert [str(one) for one in rollout.problems] == [
        (
            "rollout.txt:3: warning: 'Lf' and 'lf' of line 2 differ in case only, and are two (names are exact: give "
            "one of them another name)"
        )
    ]


FIELDS = [  # body, experiment, severities
    ("", Experiment("x"), ""),
    ("null", Experiment("x"), ""),
    ("{}", Experiment("x"), ""),
    ("{rollout_perc: 0}", Experiment("x"), ""),
    ("{rollout_perc: 12.5}", Experiment("x", 12.5), ""),
    ("{rollout_perc: 12.50}", Experiment("x", 12.5), ""),
    ("{rollout_perc: 100}", Experiment("x", 100.0), ""),
    ("{rollout_perc: 101}", Experiment("x", 100.0), "W"),
    ("{rollout_perc: 1" + "0" * 250 + "}", Experiment("x", 100.0), "W"),
    ("{rollout_perc: -1}", Experiment("x"), "W"),
    ("{rollout_perc: -0.0}", Experiment("x"), ""),
    ("{rollout_perc: }", Experiment("x"), "W"),
    ('{rollout_perc: "25"}', Experiment("x"), "E"),
    ("{rollout_perc: 25%}", Experiment("x"), "E"),
    ("{rollout_perc: +25}", Experiment("x", 25.0), ""),
    ("{rollout_perc: .5}", Experiment("x", 0.5), ""),
    ("{rollout_perc: 5.}", Experiment("x", 5.0), ""),
    ("{rollout_perc: 1e2}", Experiment("x", 100.0), ""),
    ("{rollout_perc: +2.5E+1}", Experiment("x", 25.0), ""),
    ("{rollout_perc: 25e-1}", Experiment("x", 2.5), ""),
    ("{rollout_perc: 1e999}", Experiment("x", 100.0), "W"),
    ("{rollout_perc: -.5}", Experiment("x"), "W"),
    ('{rollout_perc: "1e2"}', Experiment("x"), "E"),
    ("{rollout_perc: 1e}", Experiment("x"), "E"),
    ("{rollout_perc: 1e2%}", Experiment("x"), "E"),
    ("{rollout_perc: .}", Experiment("x"), "E"),
    ("{rollout_perc: +025}", Experiment("x"), "E"),
    ("{rollout_perc: 025}", Experiment("x"), "E"),
    ("{rollout_perc: 2_5}", Experiment("x"), "E"),
    ("{workflows: [1e3]}", Experiment("x", workflows=("1e3",)), ""),
    ("{rollout_perc: 0x10}", Experiment("x"), "E"),
    ("{rollout_perc: .inf}", Experiment("x"), "E"),
    ("{rollout_perc: .nan}", Experiment("x"), "E"),
    ("{rollout_perc: !!float 25}", Experiment("x"), "E"),
    ("{rollout_perc: true}", Experiment("x"), "E"),
    ("{rollout_perc: [25]}", Experiment("x"), "E"),
    ("{rollout_perc: {a: 1}}", Experiment("x"), "E"),
    ("{rollout_perc: !foo 25}", Experiment("x"), "E"),
    ("{rollout_perc: 25, default: !foo false}", Experiment("x", 25.0), "E"),
    ("{workflows: !foo pull}", Experiment("x"), "E"),
    ("{workflows: [!foo pull, trunk]}", Experiment("x", workflows=("trunk",)), "E"),
    ("{[rollout_perc, 25]: 25}", Experiment("x"), "E"),
    ("{? [a] : 1, ? {a: b} : 1, rollout_perc: 5}", Experiment("x", 5.0), "WW"),
    ("{!foo rollout_perc: 25}", Experiment("x"), "E"),
    ("{owner: !foo me}", Experiment("x"), "W"),
    ('{rollout_perc: "25", default: false}', Experiment("x", default=False), "E"),
    ("{all_branches: true}", Experiment("x", all_branches=True), ""),
    ("{all_branches: True}", Experiment("x", all_branches=True), ""),
    ("{all_branches: 'false'}", Experiment("x"), "E"),
    ("{all_branches: 'true'}", Experiment("x"), "E"),
    ("{all_branches: yes}", Experiment("x"), "E"),
    ("{all_branches: 1}", Experiment("x"), "E"),
    ("{all_branches: }", Experiment("x"), "W"),
    ("{default: false}", Experiment("x", default=False), ""),
    ("{default: off}", Experiment("x"), "E"),
    ("{default: [false]}", Experiment("x"), "E"),
    ("{default: ~}", Experiment("x"), "W"),
    ("{rollout_percent: 25}", Experiment("x"), "E"),
    ("{rollout-percentage: 25}", Experiment("x"), "E"),
    ("{percent: 25}", Experiment("x"), "E"),
    ("{Percentage: 25}", Experiment("x"), "E"),
    ("{perc: 25}", Experiment("x"), "E"),
    ("{rollout: 25}", Experiment("x"), "E"),
    ("{Rollout_Perc: 25}", Experiment("x"), "E"),
    ("{defualt: false}", Experiment("x"), "E"),
    ("{restrict_runners: true}", Experiment("x"), "W"),
    ("{<<: {rollout_perc: 5}}", Experiment("x"), "W"),
    ("{rollout_perc: 1, rollout_perc: 2}", Experiment("x", 2.0), "E"),
    ("{workflows: pull}", Experiment("x", workflows=("pull",)), ""),
    ("{workflows: 'pull,trunk'}", Experiment("x", workflows=("pull", "trunk")), ""),
    ("{workflows: ' pull , , my trunk,'}", Experiment("x", workflows=("pull", "my trunk")), ""),
    ("{workflows: [pull, trunk]}", Experiment("x", workflows=("pull", "trunk")), ""),
    ("{workflows: ['build, test']}", Experiment("x", workflows=("build, test",)), ""),
    ("{workflows: all}", Experiment("x", workflows=("all",)), "W"),
    ("{workflows: [pull, All]}", Experiment("x", workflows=("pull", "All")), "W"),
    ("{workflows: ALL}", Experiment("x", workflows=("ALL",)), ""),
    ("{workflows: '-all, all-of-it'}", Experiment("x", workflows=("-all", "all-of-it")), ""),
    ("{workflows: 'ALL,- pull'}", Experiment("x", workflows=("ALL", "-pull")), ""),
    ("{workflows: [-pull]}", Experiment("x", workflows=("-pull",)), ""),
    ("{workflows: on}", Experiment("x", workflows=("on",)), ""),
    ("{workflows: 123}", Experiment("x", workflows=("123",)), ""),
    ("{workflows: ''}", Experiment("x"), ""),
    ("{workflows: ',,'}", Experiment("x"), ""),
    ("{workflows: }", Experiment("x"), "W"),
    ("{workflows: []}", Experiment("x"), ""),
    ("{workflows: 'pull,-'}", Experiment("x", workflows=("pull",)), "W"),
    ("{workflows: [5, pull, -]}", Experiment("x", workflows=("5", "pull")), "W"),
    ("{workflows: true}", Experiment("x"), "E"),
    ("{workflows: {pull: true}}", Experiment("x"), "E"),
    ("{workflows: [pull, [trunk], ~, true, 7]}", Experiment("x", workflows=("pull", "7")), "EEE"),
]


@pytest.mark.parametrize(("body", "experiment", "problems"), FIELDS)
def test_q09_q15_fields(body, experiment, problems):
    assert one_experiment(body) == (experiment, problems)


def test_q09_an_experiment_without_a_body_has_every_default():
    made, _ = one_experiment("")
    assert made == Experiment("x", rollout_perc=0.0, all_branches=False, default=True, workflows=())


@pytest.mark.parametrize(
    ("field", "hint"),
    [
        ("rollout_percent", 'the percentage is "rollout_perc"; as it stands nobody is rolled out'),
        ("percentage", 'the percentage is "rollout_perc"; as it stands nobody is rolled out'),
        ("all_branch", 'did you mean "all_branches"?'),
        ("WORKFLOWS", 'did you mean "workflows"?'),
        ("owner", "known are: rollout_perc, all_branches, default, workflows"),
    ],
)
def test_q10_an_unknown_field_is_told_with_what_was_meant_and_never_taken(field, hint):
    rollout = parse(f"experiments:\n  x:\n    {field}: 25\n---\n")
    assert rollout.experiments == {"x": Experiment("x")}
    (problem,) = rollout.problems
    assert (problem.line, problem.column, problem.hint) == (3, 5, hint)


def test_q11_a_percentage_that_is_a_text_is_off_and_told():
    rollout = parse('experiments:\n  x:\n    rollout_perc: "25"\n---\n')
    (problem,) = rollout.problems
    assert str(problem) == (
        "rollout.txt:3: error: x: rollout_perc is a text, '25', expected a number from 0 to 100; 0 is taken"
        " (write it plainly, as in 25 or 0.5: no quotes, leading zero or %)"
    )


def test_q12_a_percentage_outside_is_clamped_and_told():
    rollout = parse("experiments:\n  x:\n    rollout_perc: 150\n---\n")
    assert rollout.experiments["x"].rollout_perc == 100
    assert rollout.problems[0].message == "x: rollout_perc is outside 0 to 100; 100 is taken"


@pytest.mark.parametrize(("word", "hint"), [("yes", "write true"), ("off", "write false"), ("maybe", "")])
def test_q13_a_flag_is_true_or_false_and_no_other_word(word, hint):
    rollout = parse(f"experiments:\n  x:\n    all_branches: {word}\n---\n")
    assert rollout.experiments == {"x": Experiment("x")}
    assert rollout.problems[0].hint.startswith(hint)


def test_q14_workflows_over_several_lines():
    rollout = parse("experiments:\n  x:\n    workflows: |\n      pull\n      trunk, -lint\n---\n")
    assert rollout.experiments["x"].workflows == ("pull", "trunk", "-lint")


def test_q54_every_workflow_in_another_case_is_told():
    (problem,) = parse("experiments:\n  x:\n    workflows: pull, all\n---\n").problems
    assert str(problem) == (
        "rollout.txt:3: warning: x: 'all' names a workflow; every workflow is ALL (write ALL, or leave workflows out)"
    )


def test_q15_the_last_of_equal_keys_counts_and_the_others_are_told():
    text = "experiments:\n  lf: {rollout_perc: 1}\n  arc:\n  lf: {rollout_perc: 2}\nexperiments:\n  z:\n---\n"
    assert list(parse(text).experiments) == ["z"]
    rollout = parse(text.replace("experiments:\n  z:\n", ""))
    assert rollout.experiments == {"lf": Experiment("lf", 2.0), "arc": Experiment("arc")}
    assert [(one.line, one.severity) for one in rollout.problems] == [(2, "error")]


def user(percent: dict[str, float] | None = None, out: str = "", *, login: str = "u", out_of_all: bool = False) -> User:
    return User(login, percent or {}, frozenset(out.split()), out_of_all)


USERS = [  # line, user or None, severities
    ("@u,lf", user({"lf": 100}), ""),
    ("@u,lf,arc", user({"lf": 100, "arc": 100}), ""),
    ("@u,lf:50", user({"lf": 50}), ""),
    ("@u,lf:12.5", user({"lf": 12.5}), ""),
    ("@u,lf:0", user({"lf": 0}), ""),
    ("@u,lf:100", user({"lf": 100}), ""),
    ("@u,lf: 50 ", user({"lf": 50}), ""),
    ("@u,lf :50", user({"lf": 50}), ""),
    ("@u, lf , ,arc,", user({"lf": 100, "arc": 100}), ""),
    (" \t@u,lf \t", user({"lf": 100}), ""),
    ("@u ,lf", user({"lf": 100}), ""),
    ("@ u,lf", user({"lf": 100}), ""),
    ("@u,lf:150", user({"lf": 100}), "W"),
    ("@u,lf:-5", user({"lf": 0}), "W"),
    ("@u,lf:-0", user({"lf": 0}), ""),
    ("@u,lf:inf", user({"lf": 100}), "W"),
    ("@u,lf:-inf", user({"lf": 0}), "W"),
    ("@u,lf:nan", user({"lf": 100}), "W"),
    ("@u,lf:", user({"lf": 100}), "W"),
    ("@u,lf:50%", user({"lf": 100}), "W"),
    ("@u,lf:half", user({"lf": 100}), "W"),
    ("@u,lf:50:60", user({"lf": 100}), "W"),
    ("@u,-lf", user(out="lf"), ""),
    ("@u,- lf", user(out="lf"), ""),
    ("@u,-lf:50", user(out="lf"), ""),
    ("@u,--lf", user(out="lf"), ""),
    ("@u,\u2013lf", user(out="lf"), ""),
    ("@u,arc:5,-lf", user({"arc": 5}, "lf"), ""),
    ("@u,lf,-lf", user(out="lf"), "W"),
    ("@u,-lf,lf:5", user(out="lf"), "W"),
    ("@u,lf:5,lf:90", user({"lf": 5}), "W"),
    ("@u,lf,lf", user({"lf": 100}), "W"),
    ("@u,-lf,-lf", user(out="lf"), ""),
    ("#@u", user(out_of_all=True), ""),
    ("#@u,lf,arc:50", user(out_of_all=True), ""),
    ("#@u # asked for it", user(out_of_all=True), ""),
    ("#@ u ,", user(out_of_all=True), ""),
    ("- #@u,lf", user(out_of_all=True), "W"),
    ("- @u,lf", user({"lf": 100}), "W"),
    ("* @u,lf", None, "W"),
    ("+ @u,-lf", None, "W"),
    ("* #@u", None, "W"),
    ("*\t@u,lf", None, "W"),
    ("- * @u,lf", None, "W"),
    ("-@u,lf", user({"lf": 100}), "W"),
    ("--@u,lf", user({"lf": 100}), "W"),
    ("- - @u,-lf", user(out="lf"), "W"),
    ("-#@u,lf", user(out_of_all=True), "W"),
    ("\u2014 @u,lf", None, "E"),
    ("\u2014 #@u", None, "E"),
    ("*@u,lf", None, "W"),
    ("@u", user(), "W"),
    ("@u,", user(), "W"),
    ("@u,lf # since May", user({"lf": 100}), ""),
    ("@u,-lf # since May", user(out="lf"), ""),
    ("@u # since May,lf", user(), "W"),
    ("@u, #lf", user(), "W"),
    ("@u # since,May,lf", user(), "W"),
    ("@u,lf#2", user(), "EW"),
    ("@u,!lf", user(), "EW"),
    ("@u,l f,arc", user({"arc": 100}), "E"),
    ("@u,-", user(), "EW"),
    ("@u,:50", user(), "EW"),
    ("@u,other", user({"other": 100}), "W"),
    ("@u,-other", user(out="other"), "W"),
    ("@u,LF", user({"LF": 100}), "W"),
    ("@U-9,lf", user({"lf": 100}, login="U-9"), ""),
    ("@dependabot[bot],lf", user({"lf": 100}, login="dependabot[bot]"), ""),
    ("@Dependabot[BOT],lf", user({"lf": 100}, login="Dependabot[BOT]"), ""),
    ("#@PYTORCH-BOT[Bot]", user(login="PYTORCH-BOT[Bot]", out_of_all=True), ""),
    ("# @u[BOT]", None, "W"),
    ("@u[bots],lf", None, "E"),
    ("@name_firm,lf", user({"lf": 100}, login="name_firm"), ""),
    (f"@{'u' * 39},lf", user({"lf": 100}, login="u" * 39), ""),
    (f"@{'u' * 40},lf", None, "E"),
    ("@,lf", None, "E"),
    ("@@u,lf", None, "E"),
    ("@u lf", None, "E"),
    ("@u:lf", None, "E"),
    ("@org/team,lf", None, "E"),
    ("@u[bot]x,lf", None, "E"),
    ("@\u00fc,lf", None, "E"),
    ("@u\u200b,lf", None, "E"),
    ("#@u lf", None, "E"),
    ("u,lf", None, "E"),
    ("u,-lf,arc:50", None, "E"),
    ("## Opted in", None, ""),
    ("# by @admin: ask me", None, ""),
    ("# @u,lf", None, "W"),
    ("##@u,lf", None, "W"),
    ("###@u", None, "W"),
    ("##@u lf", None, ""),
    ("see @admin", None, "W"),
    ("Users, one per line:", None, ""),
    ("<!-- note -->", None, ""),
    ("", None, ""),
    ("--", None, ""),
    ("----", None, "W"),
    ("---", None, "W"),
    (TICKS, None, ""),
    (TICKS + "text", None, ""),
    ("\x1b[31m@u,lf", None, "W"),
    ("<!-- @u,lf -->", None, "W"),
    ("(@u knows more)", None, "W"),
    ("[@u](link)", None, "W"),
]


@pytest.mark.parametrize(("line", "expected", "problems"), USERS)
def test_q17_q26_user_lines(line, expected, problems):
    assert one_user(line) == (expected, problems)


def test_q17_an_opt_in_is_whole_unless_it_says_how_far():
    made, _ = one_user("@u,lf,arc:7")
    assert made == user({"lf": 100, "arc": 7})


def test_q18_what_is_no_number_is_taken_as_all_and_told():
    rollout = parse(f"{SETTINGS}---\n@u,lf:50%")
    assert rollout.users == {"u": user({"lf": 100})}
    (problem,) = rollout.problems
    assert str(problem) == (
        "rollout.txt:10: warning: u: '50%' is no percentage; 100 is taken (a number alone, as in lf:25)"
    )
    assert problem.mistake


@pytest.mark.parametrize("text", ["abc", "50%", "", "1 0", "nan", "0x1"])
def test_q18_what_is_no_number_is_a_mistake(text):
    (problem,) = parse(f"{SETTINGS}---\n@u,lf:{text}").problems
    assert (problem.severity, problem.mistake) == ("warning", True)


def test_q19_an_opt_out_stays_one_with_a_percentage_behind_it():
    made, problems = one_user("@u,-lf:50,-arc:x")
    assert (made, problems) == (user(out="lf arc"), "")


def test_q20_a_hash_before_the_sign_is_out_of_everything_whatever_follows():
    made, problems = one_user("#@u,lf,arc:100,no such thing,-")
    assert (made, problems) == (user(out_of_all=True), "")


@pytest.mark.parametrize("before", ["- ", "-", "--", "- - "])
def test_q21_a_dash_is_passed_over_and_told(before):
    rollout = parse(f"{SETTINGS}---\n{before}@u,lf")
    assert rollout.users == {"u": user({"lf": 100})}
    (problem,) = rollout.problems
    assert (problem.message, problem.mistake) == ("the bullet '-' before a user is passed over", False)


@pytest.mark.parametrize(
    "line",
    [
        *("* @u,lf", "+ @u,lf", "*@u,lf", "+\t@u,-lf", "* #@u", "1. @u,lf", "12) #@u", "> @u,lf", ">@u", "`@u,lf`"),
        *("**@u**,lf", "\u2022 @u,lf", '"@u,lf"', "- * @u,lf", "- [ ] @u,lf", "* [x] @u,lf", "| @u | lf |"),
        *("\ufeff@u,lf", "\u200b#@u", f"{TICKS}@u,lf"),
    ],
)
def test_q21_another_bullet_makes_a_line_of_prose_and_is_a_mistake(line):
    rollout = parse(f"{SETTINGS}---\n{line}")
    assert rollout.users == {}
    (problem,) = rollout.problems
    assert (problem.severity, problem.mistake) == ("warning", True)
    assert problem.message.startswith("no user line, since a bullet or another sign stands before it: '")
    assert problem.hint == "write @LOGIN for a user, #@LOGIN to opt one out of everything"


def test_q21_another_dash_could_mean_both():
    rollout = parse(f"{SETTINGS}---\n\u2014@u,lf")
    assert rollout.users == {}
    assert rollout.problems[0].hint == "write @LOGIN for a user, #@LOGIN to opt one out of everything"


def test_q22_the_last_line_of_a_user_counts_in_whatever_case():
    rollout = parse(f"{SETTINGS}---\n@Alice,lf\n@bob,lf\n@ALICE,-lf")
    assert rollout.users == {"bob": user({"lf": 100}, login="bob"), "alice": user(out="lf", login="ALICE")}
    assert list(rollout.users) == ["bob", "alice"]
    assert [str(one) for one in rollout.problems] == [
        "rollout.txt:12: warning: ALICE is there twice, before in line 10 as Alice; the last line counts"
    ]


def test_q24_the_end_of_a_bot_is_without_case_too():
    rollout = parse(f"{SETTINGS}---\n@Dependabot[BOT],lf\n#@PYTORCH-BOT[BOT]\n@dependabot[Bot],arc")
    assert list(rollout.users) == ["pytorch-bot[bot]", "dependabot[bot]"]
    assert rollout.users["pytorch-bot[bot]"].out_of_all
    assert rollout.users["dependabot[bot]"] == user({"arc": 100}, login="dependabot[Bot]")
    assert rollout.users.get("Dependabot[BOT]") is None  # logins are looked for in lower case


def test_q23_out_beats_in_and_the_first_percentage_counts():
    assert one_user("@u,lf,-lf,lf:20")[0] == user(out="lf")
    assert one_user("@u,lf:20,arc,lf:90")[0] == user({"lf": 20, "arc": 100})


def test_q24_a_login_that_cannot_be_costs_its_line_alone():
    rollout = parse(f"{SETTINGS}---\n@a,lf\n@b c,lf\n@d,lf")
    assert list(rollout.users) == ["a", "d"]
    assert str(rollout.problems[0]) == (
        "rollout.txt:11: error: 'b c' is no login; the line is left out (a comma stands after the login)"
    )


def test_q25_an_unknown_experiment_is_kept_and_told_once():
    rollout = parse(f"{SETTINGS}---\n@a,lg\n@b,-lg\n@c,lg:5")
    assert rollout.users["c"] == user({"lg": 5}, login="c")
    assert [str(one) for one in rollout.problems] == [
        "rollout.txt:10: warning: 'lg' is named, and no experiment of the settings (did you mean \"lf\"?)"
    ]


def test_q26_a_comment_that_looks_like_a_user_is_told_and_not_read():
    rollout = parse(f"{SETTINGS}---\n# @alice,lf")
    assert rollout.users == {}
    assert rollout.problems[0].hint == "write #@LOGIN to opt somebody out of everything"


def test_q27_problems_are_in_the_order_of_the_text_and_not_without_end():
    rollout = parse(f"{SETTINGS}---\n" + "@no login\n" * 5000)
    assert len(rollout.problems) == 1001
    assert rollout.problems[0].message == "4000 more problems of user lines"
    assert [one.line for one in rollout.problems[1:]] == list(range(10, 1010))


def test_q27_hostile_text_is_shown_on_one_short_line():
    rollout = parse(f"{SETTINGS}---\n@a\x1b[2J::error::%0A{'x' * 10_000},lf")
    assert len(str(rollout.problems[0])) < 200


def test_q28_a_rollout_is_written_as_it_is_read():
    settings = SETTINGS.replace("pull,trunk", '"pull, trunk"')
    text = f"{settings}---\n@alice,arc:12.5,lf,-do\n#@bob\n@carol\n"
    assert format_rollout(parse(text)) == text


def test_q28_what_reads_otherwise_is_written_in_quotes():
    names = ("a,b", 'x"\\', "a\x85b\ud800", "two words", "-out")
    rollout = Rollout({"123": Experiment("123", 1e-7, workflows=names)}, {"u": user({"1e3": 1e-7})})
    assert parse_rollout(format_rollout(rollout), "x").experiments == rollout.experiments
    assert parse_rollout(format_rollout(rollout), "x").users == rollout.users


def test_q28_nothing_is_written_as_nothing():
    assert format_rollout(Rollout({}, {})) == "experiments: {}\n---\n"


def test_q25_a_thousand_unknown_experiments_are_told_and_all_are_kept():
    rollout = parse(f"{SETTINGS}---\n" + "".join(f"@u{n},e{2 * n},e{2 * n + 1}:5\n" for n in range(1000)))
    assert rollout.users["u999"].percent == {"e1998": 100, "e1999": 5}
    assert len(rollout.problems) == 1001
    assert rollout.problems[-1].message == "there are more than 1000 names that no experiment of the settings has"


def test_q29_a_line_holds_a_thousand_items():
    items = [*(f"e{n}" for n in range(998)), "lf:5", "-arc"]
    rollout = parse(f"{SETTINGS}---\n@u,{','.join(items)}\n@v,{','.join([*items, 'left', 'out'])}")
    assert rollout.users["u"].percent == rollout.users["v"].percent
    assert rollout.users["v"].out == {"arc"}
    errors = [str(one) for one in rollout.problems if one.severity == "error"]
    assert errors == ["rollout.txt:11: error: v: more than 1000 items; the others are left out"]


def test_q29_lines_without_end_are_not_usable():
    rollout = parse(f"{SETTINGS}---\n" + "\n" * MOST_LINES)
    assert rollout.why == f"it has {MOST_LINES + 10} lines, at most {MOST_LINES} are read"
    assert rollout.experiments == {}


@pytest.mark.parametrize(
    ("line", "count", "faults"),
    [
        ("@u{n},lf,lf,lf", 2000, 4000),
        ("@u{n},lf:101", 2000, 2000),
        ("@u{n},lf,lf,lf,arc:x,arc:101,-arc,!,", 500, 3500),
        ("@u,lf", 2000, 1999),
        ("@no login", 2000, 2000),
        ("@u{n},!" + ",!" * 900, 300, 901 * 300 + 300),
        ("@u{n}" + ",lf" * 3000, 1000, 1000 * 999 + 1000),
        ("@u{n}" + ",a" * 1000 + ",!", 1500, 1500 * 1000 + 1),
    ],
)
def test_q27_faults_of_user_lines_are_counted_and_turn_nothing_off(line, count, faults):
    lines = "\n".join(line.format(n=n) for n in range(count))
    rollout = parse(f"{SETTINGS}---\n{lines}\n@last,arc")
    assert rollout.usable
    assert rollout.experiments == BOTH
    assert rollout.users["last"] == user({"arc": 100}, login="last")
    assert len(rollout.problems) == MOST_PROBLEMS + 1
    assert rollout.problems[0].message == f"{faults - MOST_PROBLEMS} more problems of user lines"
    assert rollout.problems[0].mistake


def test_q27_a_fault_after_many_items_that_are_told_is_counted():
    items = ",".join(["-lf"] * 990)
    rollout = parse(f"{SETTINGS}---\n" + "".join(f"@u{n},!,{items}\n" for n in range(250)))
    told = [one for one in rollout.problems if one.severity == "error"]
    assert 200 <= len(told) < 250
    assert rollout.problems[0].message == f"{250 - len(told)} more problems of user lines"


def test_q29_a_user_is_the_same_however_often_it_is_asked_for():
    users = parse(f"{SETTINGS}---\n@a,lf:5,-arc\n#@B,lf\n - @c # x\n").users
    assert len(users) == 3
    assert users == dict(users)
    assert users["a"] == users["a"] == user({"lf": 5}, "arc", login="a")
    assert users["b"] == user(login="B", out_of_all=True)
    assert users["c"] == user(login="c")
    assert [one.line for one in users.values()] == [10, 11, 12]
    assert "B" not in users
    with pytest.raises(KeyError):
        users["B"]


def test_q29_settings_are_read_to_a_size_and_users_to_a_number_of_lines():
    lines = "".join(f"@user{n},lf:{n % 100}\n" for n in range(20_000))
    rollout = parse(f"{SETTINGS}---\n{lines}")
    assert len(rollout.users) == 20_000
    assert not parse(f"{SETTINGS}{'#' * LARGEST}\n---\n{lines}").usable


def test_q29_a_thousand_experiments_and_a_comment_for_each_user_are_read():
    settings = "".join(f"  experiment{n:05}:\n    rollout_perc: {n % 101:<3}  # of all\n" for n in range(1200))
    lines = "".join(f"# why user{n}\n@user{n},experiment{n % 1200:05}:{n % 101}\n" for n in range(20_000))
    rollout = parse(f"experiments:\n{settings}---\n{lines}")
    assert not rollout.problems
    assert len(rollout.experiments) == 1200
    assert rollout.users["user19999"].percent == {"experiment00799": 1.0}


@pytest.mark.parametrize("text", ["1_0", "\u0665\u0660", "1_0.5"])
def test_q18_what_only_python_takes_for_a_number_is_none(text):
    rollout = parse_rollout(f"experiments:\n  lf: {{}}\n---\n@a,lf:{text}\n@b,lf:{text},lf\n", "x")
    assert [user.percent for user in rollout.users.values()] == [{"lf": 100.0}, {"lf": 100.0}]
    assert len([one for one in rollout.problems if "is no percentage" in one.message and one.mistake]) == 2


@pytest.mark.parametrize("sign", ["`", "~"])
def test_q29_a_line_of_one_sign_is_no_fence_and_costs_nothing(sign):
    rollout = parse_rollout(f"{sign * 3_000_000}x y\nexperiments:\n  lf: {{}}\n---\n{'a,' * 500_000}\n", "x")
    assert not rollout.usable
