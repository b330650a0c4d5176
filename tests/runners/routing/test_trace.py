"""Q93 to Q96: which label a job will run on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_sgpu.runners.routing.chance import fixed
from pytest_sgpu.runners.routing.decide import decide, fallback
from pytest_sgpu.runners.routing.decision import Request
from pytest_sgpu.runners.routing.fleets import parse_fleets
from pytest_sgpu.runners.routing.mapping import parse_mapping
from pytest_sgpu.runners.routing.rollout import parse_rollout
from pytest_sgpu.runners.routing.trace import Final, LabelTrace, final, lines, table, trace, unknown, unserved

CONF = Path(__file__).parents[3] / "conf"
FLEETS = parse_fleets((CONF / "runner_routing.yaml").read_text(encoding="utf-8"), "fleets.yaml")
ARC = parse_mapping((CONF / "arc.yaml").read_text(encoding="utf-8"), "arc.yaml", "meta_only_runners")
GOLDEN = (Path(__file__).parent / "golden" / "four_states.txt").read_text(encoding="utf-8").splitlines()
STATES = {"off": (), "lf": ("lf",), "arc": ("arc",), "arc + lf": ("arc", "lf")}
ROLLOUT = """\
experiments:
  lf: {rollout_perc: 25}
  arc: {rollout_perc: 50, default: false}
---
@lf-user,lf,-arc
@arc-user,arc,-lf
@both,lf,arc
@nobody,-lf,-arc
"""


def ends(label: str, *fleets: str, canary: bool = False) -> Final:
    return final(label, FLEETS.place(fleets), ARC, FLEETS, canary=canary)


def traced(label: str, actor: str = "someone", draw: float = 99, **asked) -> LabelTrace:
    request = Request(actor=actor, branch="feature", workflow="pull", **{"check": ("arc", "lf"), **asked})
    decision = decide(parse_rollout(ROLLOUT, "rollout"), FLEETS, request, fixed(draw))
    return trace(label, request, decision, ARC, FLEETS)


def step(found: LabelTrace, number: int) -> str:
    return found.steps[number - 1].text


def test_q93_every_label_of_the_file_in_every_prefix_state():
    heading, *expected = [line.split("  ") for line in GOLDEN]
    assert [word.strip() for word in heading if word] == ["label", *STATES]
    found = [[label, *(ends(label, *fleets).label for fleets in STATES.values())] for label in ARC.targets]
    assert found == [[word.strip() for word in row if word.strip()] for row in expected]
    assert len(found) == 48


def test_q93_the_canary_repository_has_prefixes_of_its_own():
    found = [ends("linux.large", *fleets, canary=True).label for fleets in STATES.values()]
    assert found == ["linux.large", "lf.c.linux.large", "c-mt-l-x86iavx512-2-4", "lf-l-x86iavx512-2-4"]
    assert ends("linux.aws.h100", "arc", canary=True).label == "mt-l-x86iamx-22-225-h100"


def test_q93_the_table_has_a_line_for_each_state():
    assert table(["linux.dgx.b200", "linux.dgx.b200.8", "linux.idc.xpu"], ARC, FLEETS) == [
        "label linux.dgx.b200",
        '  the default fleet  ""   linux.dgx.b200',
        "  arc                mt-  mt-l-x86iamx-22-225-b200",
        "  lf                 lf.  lf.linux.dgx.b200",
        "                          ! no runner can serve it: lf has none for",
        "                            'linux.dgx.b200'",
        "  arc + lf           lf-  mt-l-x86iamx-22-225-b200",
        "label linux.dgx.b200.8",
        '  the default fleet  ""   linux.dgx.b200.8',
        "  arc                mt-  'linux.dgx.b200.8' is not in runner_mapping of",
        '                          arc.yaml; did you mean "linux.dgx.b200"?',
        "  lf                 lf.  lf.linux.dgx.b200.8",
        "                          ! no runner can serve it: lf has none for",
        "                            'linux.dgx.b200.8'",
        "  arc + lf           lf-  'linux.dgx.b200.8' is not in runner_mapping of",
        '                          arc.yaml; did you mean "linux.dgx.b200"?',
        "label linux.idc.xpu",
        '  the default fleet  ""   linux.idc.xpu',
        "  arc                mt-  linux.idc.xpu",
        "  lf                 lf.  linux.idc.xpu",
        "                          ! a workflow that puts the prefix before it asks for",
        "                            'lf.linux.idc.xpu', which no runner has",
        "  arc + lf           lf-  linux.idc.xpu",
    ]
    assert "  lf                 lf.c.  lf.c.linux.large" in table(["linux.large"], ARC, FLEETS, canary=True)
    assert table([], ARC, FLEETS) == []


@pytest.mark.parametrize(
    ("actor", "label", "rule"),
    [
        ("nobody", "linux.aws.h100.4", "prefixed"),
        ("lf-user", "lf.linux.aws.h100.4", "prefixed"),
        ("arc-user", "mt-l-x86iamx-88-900-h100-4", "pinned"),
        ("both", "mt-l-x86iamx-88-900-h100-4", "pinned"),
    ],
)
def test_q94_the_six_steps_lead_to_the_label(actor, label, rule):
    found = traced("linux.aws.h100.4", actor)
    assert (found.final.label, found.final.rule) == (label, rule)
    titles = ["workflow", "experiments", "rollout", "prefix", "translation", "pin"]
    assert [(one.number, one.title) for one in found.steps] == list(enumerate(titles, 1))


def test_q94_each_step_says_what_it_found():
    found = traced("linux.large", "both", opt_out=("x",))
    assert step(found, 1) == "the label is 'linux.large'; workflow 'pull'"
    assert step(found, 2) == "check: 'arc', 'lf'; opt out: 'x'"
    assert step(found, 3) == "rollout; on: 'lf', 'arc'"
    assert step(found, 4) == "'lf-': 'lf-linux.large'"
    assert step(found, 5).startswith(
        "on: 'linux.large' is 'l-x86iavx512-2-4', with the prefix 'lf-' in front; arc.yaml:"
    )
    assert step(found, 6) == "not in meta_only_runners"
    assert found.final.label == "lf-l-x86iavx512-2-4"


def test_q94_the_rollout_step_says_for_each_experiment_what_decided():
    details = traced("linux.large", "someone", 30).steps[2].details
    assert [detail.split(", by ")[0] for detail in details] == ["lf: off", "arc: on", "amd-do: off"]
    assert traced("linux.large", "someone", 30).final.label == "mt-l-x86iavx512-2-4"


def test_q94_the_trace_as_text():
    text = lines(traced("linux.dgx.b200", "lf-user"))
    assert text[0] == "label linux.dgx.b200"
    assert [line[:16] for line in text if line[:2] == "  " and line[2].isdigit()] == [
        "  1 workflow    ",
        "  2 experiments ",
        "  3 rollout     ",
        "  4 prefix      ",
        "  5 translation ",
        "  6 pin         ",
    ]
    assert text[-2:] == [
        "  = lf.linux.dgx.b200",
        "  ! no runner can serve it: lf has none for 'linux.dgx.b200'",
    ]


@pytest.mark.parametrize("label", [*ARC.targets, "linux.larg", "linux.dgx.b200.8", "lf.linux.large"])
def test_q93_q94_tables_and_traces_fit_80_columns_and_keep_labels_whole(label):
    text = table([label], ARC, FLEETS)
    for actor in ("nobody", "lf-user", "arc-user", "both"):
        found = traced(label, actor, opt_out=("x",))
        shown = lines(found)
        together = " ".join(" ".join(shown).split())
        for one in found.steps:
            assert all(" ".join(told.split()) in together for told in (one.text, *one.details))
        assert all(warning in together for warning in found.final.warnings)
        text += shown
    assert max(map(len, text)) <= 80
    words = {word.strip("'\",;:?") for line in text for word in line.split()}
    assert {label, f"lf.{label}"} & words
    assert not [line for line in text if line.endswith("-") and not line.endswith((" lf-", " mt-"))]


def test_q91_a_line_that_goes_on_begins_with_no_command():
    for number in range(40):
        label = f"{'x ' * number}::error::y ##y"
        text = table([label], ARC, FLEETS)
        for actor in ("nobody", "both"):
            text += lines(traced(label, actor))
        assert not any(line.lstrip().startswith(("::", "##")) for line in text)


def test_q94_the_kill_switch_and_the_fallback_are_in_it():
    found = traced("linux.large", "both", labels=("no-runner-experiments",))
    assert found.final.label == "linux.large"
    assert step(found, 3).startswith("kill-switch: no-runner-experiments; on: none")
    assert found.steps[2].details[0].startswith("all: off, by kill-switch: ")
    failed = trace("linux.large", Request(), fallback(FLEETS, "no network"), ARC, FLEETS)
    assert failed.final.label == "linux.large"
    assert step(failed, 1) == "the label is 'linux.large'; no workflow named"
    assert step(failed, 3) == "fallback: no network; on: none"
    assert step(failed, 4) == "none: 'linux.large'"


def test_q94_what_has_no_effect_is_told():
    rollout = parse_rollout("experiments: {arc: {rollout_perc: 100}, other: {rollout_perc: 100}}\n---\n", "rollout")
    decision = decide(rollout, FLEETS, Request(branch="x"), fixed(0))
    found = trace("linux.large", Request(branch="x"), decision, ARC, FLEETS)
    assert step(found, 3) == "rollout; on: 'arc', 'other'; without effect: 'other'"


def test_q94_other_experiments_are_in_the_prefix():
    rollout = parse_rollout("experiments: {lf: {rollout_perc: 100}, other: {rollout_perc: 100}}\n---\n", "rollout")
    decision = decide(rollout, FLEETS, Request(branch="x"), fixed(0))
    assert trace("linux.large", Request(), decision, ARC, FLEETS).final.label == "lf.other.linux.large"


def test_q95_a_partner_label_has_no_prefix_in_any_state():
    found = traced("linux.rocm.gpu.2", "lf-user")
    assert (found.final.label, found.final.rule) == ("linux.rocm.gpu.2", "passed-through")
    assert step(found, 4) == (
        "'lf.', but 'linux.rocm.gpu.2' maps to itself: it is bare only where the workflow leaves the prefix off"
    )
    assert found.final.warnings == (
        "a workflow that puts the prefix before it asks for 'lf.linux.rocm.gpu.2', which no runner has",
    )
    assert step(found, 5) == "off: the label stays as it is"


def test_q95_without_translation_a_pin_has_no_effect_and_that_is_told():
    found = traced("linux.aws.h100", "lf-user")
    assert found.final.label == "lf.linux.aws.h100"
    assert step(found, 6) == (
        "in meta_only_runners, but without effect: pins are part of the translation, and that is off"
    )
    assert step(traced("linux.aws.h100", "both"), 6) == (
        "in meta_only_runners: 'linux.aws.h100' is pinned to 'mt-', whatever the prefix; arc.yaml:"
        f"{ARC.lines['linux.aws.h100']}"
    )
    assert step(traced("linux.aws.h100", "both"), 5) == "on: the target is 'l-x86iamx-22-225-h100' in arc.yaml"


def test_q95_a_label_outside_the_table_ends_only_where_it_is_translated():
    assert traced("linux.windows", "lf-user").final.label == "lf.linux.windows"
    found = traced("linux.larg", "both")
    assert (found.final.label, found.final.rule) == ("", "unknown")
    assert lines(found)[-2:] == [
        "  = no label: 'linux.larg' is not in runner_mapping of arc.yaml; did you mean",
        '    "linux.large"?',
    ]


def test_q95_a_label_outside_the_table_is_told_where_it_is_not_translated():
    note = (
        "where labels are translated no runner would be there for it: 'linux.larg' is not in runner_mapping of arc.yaml"
    )
    found = traced("linux.larg", "lf-user").final
    assert (found.label, found.is_served) == ("lf.linux.larg", True)
    assert found.warnings == (f'{note}; did you mean "linux.large"?',)
    assert traced("linux.large", "lf-user").final.warnings == ()
    request = Request(actor="lf-user", branch="feature", check=("arc", "lf"))
    decision = decide(parse_rollout(ROLLOUT, "rollout"), FLEETS, request, fixed(99))
    only = replace(FLEETS, fleets={"lf": FLEETS.fleets["lf"]}, combinations=(), experiments={"lf": "lf"})
    assert trace("linux.larg", request, decision, ARC, only).final.warnings == (), "nothing is ever translated there"


def test_q94_what_is_served_where_it_ends():
    for label, actor, is_served in [
        ("linux.aws.h100", "lf-user", False),
        ("linux.aws.h100", "arc-user", True),
        ("linux.aws.h100", "nobody", True),
        ("linux.idc.xpu", "lf-user", True),
        ("linux.larg", "both", False),
    ]:
        assert traced(label, actor).final.is_served == is_served
    label_map = replace(ARC, pinned=frozenset())
    assert not final("linux.aws.h100", FLEETS.place(("arc", "lf")), label_map, FLEETS).is_served


def test_q94_errors_of_labels_that_cannot_be_served():
    found = [traced(label, "lf-user") for label in ("linux.aws.h100", "linux.larg", "linux.aws.h100", "linux.large")]
    message = "no runner can serve 'lf.linux.aws.h100', which 'linux.aws.h100' becomes there"
    assert unserved(found, ARC, FLEETS) == [(message, "without a rollout text every state is shown")]
    message = "no translation for a label: 'linux.larg' is not in runner_mapping of arc.yaml"
    assert unserved([traced("linux.larg", "both")], ARC, FLEETS) == [(message, 'did you mean "linux.large"?')]


@pytest.mark.parametrize("label", ["linux.nosuch", "linux.foo", "linux.gpu", "windows.large", "x", ""])
def test_q95_what_is_far_is_not_suggested(label):
    assert "did you mean" not in ends(label, "arc").text
    assert [hint for _, hint in unknown([label], ARC, FLEETS)] == [""]


@pytest.mark.parametrize("label", ["linux.larg", "Linux.Large", "mt-linux.larg", "lf.linux.larg"])
def test_q95_what_is_near_is_suggested_without_its_prefix(label):
    assert ends(label, "arc").text.endswith('did you mean "linux.large"?')
    assert [hint for _, hint in unknown([label], ARC, FLEETS)] == ['did you mean "linux.large"?']


def test_q95_a_pinned_label_without_a_mapping_has_no_label():
    label_map = parse_mapping(
        "runner_mapping: {a: l-x86i-2-4}\nmeta_only_runners: [b]\n", "arc.yaml", "meta_only_runners"
    )
    decision = decide(parse_rollout(ROLLOUT, "r"), FLEETS, Request(actor="both", check=("arc",)), fixed(99))
    found = trace("b", Request(), decision, label_map, FLEETS)
    assert (found.final.label, step(found, 6)) == ("", "in meta_only_runners, but there is no translation for it")
    without = trace("a", Request(), decision, label_map, replace(FLEETS, pins=None))
    assert step(without, 6) == "the fleets file has no pins"


@pytest.mark.parametrize(
    ("label", "fleets", "warning"),
    [
        ("linux.aws.h100", ("lf",), "no runner can serve it: lf has none for 'linux.aws.h100'"),
        ("lf.linux.large", (), "'lf.linux.large' has the prefix 'lf.' already: write it without"),
        ("lf.linux.large", ("arc",), "'lf.linux.large' has the prefix 'lf.' already: write it without"),
        ("l-x86iavx512-2-4", (), "'l-x86iavx512-2-4' is a translated label, and nothing is translated here"),
    ],
)
def test_q96_what_cannot_be_served_or_is_odd_is_told(label, fleets, warning):
    assert ends(label, *fleets).warnings == (warning,)


def test_q96_an_unpinned_label_that_the_fleet_lacks_is_told():
    label_map = replace(ARC, pinned=frozenset())
    found = final("linux.aws.h100", FLEETS.place(("arc", "lf")), label_map, FLEETS)
    assert found.label == "lf-l-x86iamx-22-225-h100"
    assert found.warnings == ("no runner can serve it: arc + lf has none for 'l-x86iamx-22-225-h100'",)


@pytest.mark.parametrize("label", ["linux.large", "linux.idc.xpu", "linux.aws.h100"])
@pytest.mark.parametrize("fleets", [(), ("arc",), ("arc", "lf")])
def test_q96_nothing_is_told_where_all_is_well(label, fleets):
    assert ends(label, *fleets).warnings == ()


def test_q91_hostile_labels_stay_on_one_line():
    for actor in ("nobody", "lf-user", "arc-user", "both"):
        text = lines(traced("x\n::error::y\x1b[0m", actor, check=("a\nb",)))
        assert all(line.isprintable() for line in text)
        assert not any(line.lstrip().startswith("::") for line in text)
    text = table(["x\r\n::error::y", "::error::y", "##[error]y"], ARC, FLEETS)
    assert all(line.isprintable() and not line.lstrip().startswith(("::", "##")) for line in text)
    assert lines(traced("::error::y"))[0] == "label ::error::y"
