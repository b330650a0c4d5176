"""Anything as a matrix, as a mapping file, as a label: translated or refused, the same again, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_sgpu.runners.routing.fleets import parse_fleets
from pytest_sgpu.runners.routing.mapping import LabelMap, check_mapping, parse_mapping, resolve
from pytest_sgpu.runners.routing.matrix import Translation, translate

CONF = Path(__file__).parents[3] / "conf"
FLEETS = parse_fleets((CONF / "runner_routing.yaml").read_text(encoding="utf-8"), "fleets.yaml")
SHIPPED = (CONF / "arc.yaml").read_text(encoding="utf-8")
ARC = parse_mapping(SHIPPED, "arc.yaml", "meta_only_runners")
IDENTITIES = [label for label, target in ARC.targets.items() if label == target]

PREFIXES = st.sampled_from(["", "mt-", "lf-", "c-mt-"])
KNOWN = ["", "mt-", "lf-", "c-mt-", "lf.", "lf.c."]
NAMES = [*ARC.targets, *set(ARC.targets.values()), "linux.nowhere", "on", "a\n::error::b", ""]
LABELS = st.builds(str.__add__, st.sampled_from(KNOWN), st.sampled_from(NAMES)) | st.text(max_size=12)
MAPPED = st.builds(str.__add__, st.sampled_from(KNOWN), st.sampled_from(sorted(ARC.targets)))
CONFIGS = st.sampled_from(["default", "onnx", "größe", "on", "a\u2028b"]) | st.text(max_size=6)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
PIECES = [*"{}[],:-\"'#&*!|>%@`~ \n\t\r", "include", "runner", "runner_mapping", "config", "linux.large", "1", ": "]
YAML = st.lists(st.sampled_from(PIECES), max_size=20).map("".join)


def entries(labels: st.SearchStrategy[str]) -> st.SearchStrategy[list[dict[str, object]]]:
    fields = {"config": CONFIGS, "runner": labels, "x": VALUES}
    one: st.SearchStrategy[dict[str, object]] = st.fixed_dictionaries({}, optional=fields)
    return st.lists(one, max_size=5)


def run(text: str, prefix: str, label_map: LabelMap = ARC) -> Translation:
    found = translate(text, "matrix", prefix, label_map, FLEETS)
    assert (found.text is None) == any(problem.severity == "error" for problem in found.problems)
    for problem in found.problems:
        assert str(problem).isprintable()
    if found.text:
        assert found.text.isprintable()
        json.loads(found.text)
    return found


@given(st.dictionaries(st.text(max_size=5).filter(lambda key: key != "include"), VALUES, max_size=3), PREFIXES)
def test_a_matrix_without_entries_is_passed_on_as_it_is(axes, prefix):
    for value in (axes, {**axes, "include": []}, {"include": None, **axes}):
        found = run(json.dumps(value), prefix)
        assert found.text
        assert json.loads(found.text) == value
        assert bool(found.problems) == bool(axes)


def rest(entry: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in entry.items() if key != "runner"}


@given(entries(MAPPED), PREFIXES, st.booleans())
def test_a_translation_has_the_same_entries_without_the_excluded_ones(given_, prefix, is_ascii):
    found = run(json.dumps({"include": given_}, ensure_ascii=is_ascii), prefix)
    assert found.text is not None
    kept = [entry for entry in given_ if entry.get("config") != "onnx"]
    made = json.loads(found.text)["include"]
    assert [rest(entry) for entry in made] == [rest(entry) for entry in kept]
    assert [list(entry) for entry in made] == [list(entry) for entry in kept]
    assert len(found.dropped) == len(given_) - len(kept)
    assert len(found.changed) == sum("runner" in entry for entry in kept)


@given(entries(LABELS), PREFIXES)
def test_translating_again_changes_nothing(given_, prefix):
    once = run(json.dumps({"include": given_}), prefix)
    if once.text is not None:
        again = run(once.text, prefix)
        assert again.text == once.text
        assert not again.dropped


@given(st.lists(st.sampled_from(IDENTITIES), min_size=1, max_size=4), PREFIXES)
def test_a_label_that_is_passed_through_never_changes(labels, prefix):
    text = json.dumps({"include": [{"runner": label} for label in labels]})
    assert run(text, prefix).text == text


@given(entries(LABELS), PREFIXES)
def test_either_all_labels_are_known_or_nothing_is_emitted(given_, prefix):
    found = run(json.dumps({"include": given_}), prefix)
    looked = [str(entry["runner"]) for entry in given_ if "runner" in entry and entry.get("config") != "onnx"]
    unknown = {label for label in looked if label.strip() and resolve(label, prefix, ARC, FLEETS) is None}
    assert {one.label for one in found.unknown} == unknown
    assert (found.text is None) == (bool(unknown) or any(not label.strip() for label in looked))


@given(entries(MAPPED), PREFIXES)
def test_yaml_gives_what_json_gives(given_, prefix):
    # YAML knows no pairs of surrogates, and "<<" is a merge key there
    kept = [entry for entry in given_ if not any(one in json.dumps(entry) for one in ("\\ud", "<<"))]
    lines = [
        f"- {{{', '.join(f'{json.dumps(key)}: {json.dumps(value)}' for key, value in entry.items())}}}"
        for entry in kept
    ]
    in_yaml = run("\n".join(["include:", *lines] if lines else ["include: []"]), prefix)
    in_json = run(json.dumps({"include": kept}), prefix)
    assert in_yaml.text
    assert in_json.text
    assert without_exponents(json.loads(in_yaml.text)) == without_exponents(json.loads(in_json.text))


def without_exponents(value: object) -> object:
    """Texts instead of numbers: 1e+16 is a number in JSON, and stays the text that it is in YAML."""
    if isinstance(value, dict):
        return {key: without_exponents(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [without_exponents(inner) for inner in value]
    return str(value) if isinstance(value, float) else value


@given(st.text() | YAML | VALUES.map(json.dumps), PREFIXES | st.text(max_size=5))
@settings(max_examples=8 * settings().max_examples, suppress_health_check=[HealthCheck.too_slow])
def test_any_text_gives_a_result_or_problems(text, prefix):
    run(text, prefix)


@given(VALUES, PREFIXES)
def test_any_value_as_include_gives_a_result_or_problems(value, prefix):
    run(json.dumps({"include": value}), prefix)
    run(json.dumps({"include": [value]}), prefix)
    run(json.dumps({"include": [{"runner": value}]}), prefix)


@given(st.text() | YAML | VALUES.map(json.dumps), st.text(max_size=5))
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_any_text_is_a_mapping_file_or_has_problems(text, key):
    label_map = parse_mapping(text, "any.yaml", key)
    assert label_map.usable or any(problem.severity == "error" for problem in label_map.problems)
    for problem in (*label_map.problems, *check_mapping(label_map, FLEETS)):
        assert str(problem).isprintable()


PARTS = st.sampled_from(["a", "b", "mt-", "lf.", "lf-", "mt-a", "lf.b", "l-x86i-2-4", "mt-l-x86i-2-4"])
TABLES = st.dictionaries(PARTS, PARTS, max_size=6)


@given(TABLES, st.lists(PARTS, max_size=3), PARTS | LABELS, PREFIXES)
def test_any_table_translates_a_label_once(table, pins, label, prefix):
    text = json.dumps({"runner_mapping": table, "meta_only_runners": pins})
    label_map = parse_mapping(text, "any.yaml", "meta_only_runners")
    made = resolve(label, prefix, label_map, FLEETS)
    if made is None:
        return
    again = resolve(made.label, prefix, label_map, FLEETS)
    assert again
    assert again.label == made.label
    if label_map.targets.get(label) == label and label not in label_map.pinned:
        assert made.label == label
