"""The rules R8 to R45, as far as they are held before the first request: inputs, pools, profiles, policies."""

from __future__ import annotations

import json

import pytest

from pytest_sgpu.errors import OptionError
from pytest_sgpu.runners import pools_file
from pytest_sgpu.runners.candidates import Candidate
from pytest_sgpu.runners.pools import Pools, parse_pools
from pytest_sgpu.runners.settings.inputs import Settings, coordinator_settings

ENV = {"GITHUB_REPOSITORY": "octo/repo", "GITHUB_RUN_ID": "1001", "GITHUB_RUN_ATTEMPT": "2"}
INPUTS = {
    "workflow": "runner-worker.yml",
    "workflow-ref": "main",
    "source-ref": "refs/pull/12/merge",
    "source-sha": "0123456789abcdef0123456789abcdef01234567",
    "runner-type": "cpu",
}
POOLS = pools_file.load("")
TYPES = ("cpu-amd64", "cpu-arm64", "gpu-amd64", "gpu-arm64", "gpu-amd64-2gpu", "gpu-arm64-2gpu")
CPU, L4 = ("nv-cpu-general", "linux-amd64-cpu16"), ("nv-gpu-general", "linux-amd64-gpu-l4-latest-1")


def settings(**changes) -> Settings:
    given = {**INPUTS, **{name.replace("_", "-"): value for name, value in changes.items()}}
    return coordinator_settings({name: value for name, value in given.items() if value is not None}, ENV, POOLS)


def refused(**changes) -> OptionError:
    with pytest.raises(OptionError) as caught:
        settings(**changes)
    return caught.value


def runners(*entries, **more) -> str:
    """Make the JSON list of these (group, label) or (group, label, minutes)."""
    keys = ("group", "labels", "queue-timeout-minutes")
    return json.dumps([{**dict(zip(keys, entry, strict=False)), **more} for entry in entries])


def waits(found: Settings) -> list[float]:
    return [candidate.queue_seconds for candidate in found.candidates]


def models(runner_type: str, policy: str = "standard") -> list[str]:
    """The order of a profile, as what distinguishes the labels."""
    labels = [POOLS.classify(one.labels) for one in POOLS.candidates(runner_type, policy, None)]
    return [label.model or str(label.cores) for label in labels if label]


def test_r8_workflow_and_ref_choose_the_definition():
    found = settings(workflow="gpu-worker.yaml", workflow_ref="refs/tags/v1")
    assert (found.workflow, found.workflow_ref) == ("gpu-worker.yaml", "refs/tags/v1")
    assert "workflow: missing" in refused(workflow=None).message
    assert "workflow-ref: missing" in refused(workflow_ref=" ").message
    assert "leave .github/workflows/ out" in refused(workflow=".github/workflows/runner-worker.yml").hint
    for wrong in ("../x.yml", "a/b.yml", "x.txt", ".yml", "x.yml?ref=1", "x y.yml", "12345"):
        assert refused(workflow=wrong).message.startswith("workflow: found ")


@pytest.mark.parametrize(
    "ref", ["refs/pull/12/merge", "pull/12/head", "refs/merge-queue/main", "refs/heads/..", "HEAD", "-x", "a" * 40]
)
def test_r4_the_definition_is_never_taken_from_a_pull_request_or_a_bare_sha(ref):
    assert refused(workflow_ref=ref).message.startswith("workflow-ref: found ")


def test_r9_source_is_a_full_ref_and_a_full_sha():
    assert settings().source_ref == "refs/pull/12/merge"
    assert settings(source_sha="ABCDEF0123" * 4).source_sha == "ABCDEF0123" * 4
    assert "did you mean refs/heads/main?" in refused(source_ref="heads/main").hint
    for wrong in ("main", "refs/main", "refs/heads/", "refs/heads/a..b", "refs/heads/a b", "refs//x"):
        assert refused(source_ref=wrong).message.startswith("source-ref: found ")
    for wrong in ("0123456", "g" * 40, "a" * 41, "refs/heads/main"):
        assert refused(source_sha=wrong).message.startswith("source-sha: found ")


def test_r10_runner_type_is_needed_beside_explicit_runners_too():
    assert "runner-type: missing" in refused(runner_type=None, runners=runners(CPU)).message


def test_r11_the_six_types_and_their_two_short_names():
    assert sorted(POOLS.profiles) == sorted(TYPES)
    assert [settings(runner_type=one).runner_type for one in TYPES] == list(TYPES)
    assert settings(runner_type="cpu").runner_type == "cpu-amd64"
    assert settings(runner_type="gpu").runner_type == "gpu-amd64"


@pytest.mark.parametrize("name", [None, "", " \t", "tpu", "GPU", "gpu-amd64-4gpu", "cpu,gpu"])
def test_r12_a_missing_blank_or_unknown_type_is_refused_with_the_known_ones(name):
    error = refused(runner_type=name)
    assert error.message.startswith("runner-type: ")
    assert "gpu-amd64" in f"{error}"


@pytest.mark.parametrize(("text", "seconds"), [("1", 60), ("60", 3600), (" 7 ", 420)])
def test_r13_the_action_level_deadline_is_1_to_60_minutes(text, seconds):
    assert waits(settings(queue_timeout_minutes=text)) == [seconds] * 3


@pytest.mark.parametrize("text", ["0", "61", "-1", "+5", "1.5", "10.0", "1e1", "ten", "٣", "1_0", "9" * 400])
def test_r13_no_other_number_is_taken_for_the_deadline(text):
    assert "expected a whole number from 1 to 60" in refused(queue_timeout_minutes=text).message


def test_r14_execution_is_180_minutes_unless_given():
    assert settings().execution_seconds == 180 * 60
    assert settings(execution_timeout_minutes="15").execution_seconds == 900
    assert settings(execution_timeout_minutes="7200").execution_seconds == 5 * 24 * 3600
    for wrong in ("0", "7201", "1.5"):
        assert refused(execution_timeout_minutes=wrong).message.startswith("execution-timeout-minutes: found ")


def test_r15_queue_policy_is_standard_unless_extended():
    assert settings().candidates == settings(queue_policy="standard").candidates
    assert len(settings(queue_policy="extended").candidates) == len(settings().candidates) + 1
    error = refused(queue_policy="extendd")
    assert error.message == 'queue-policy: found "extendd", expected one of standard, extended'
    assert error.hint == 'did you mean "extended"?'


def test_r16_source_policy_is_current_or_the_literal_pinned_after_start():
    assert not settings().pinned
    assert not settings(source_policy="current").pinned
    assert settings(source_policy="pinned-after-start").pinned
    for wrong in ("pinned", "Current", "true", "pinned_after_start"):
        assert refused(source_policy=wrong).message.startswith("source-policy: found ")


@pytest.mark.parametrize("text", ['{"shard": 1}', ' {"b":1e400,\n "a" : "\\u00e9\\ud800"} ', '{"é": [1.10, {}]}'])
def test_r17_workload_is_forwarded_unchanged(text):
    assert settings(workload=text).workloads == (text,)


def test_r17_workload_is_an_object_and_optional():
    assert settings().workloads == settings(workload=" ").workloads == ("{}",)
    for wrong in ("[]", "1", "null", '"x"', "{", '{"a":NaN}', '{"a":1,"a":2}', "[" * 5000, '{"a":%s}' % ("1" * 5000)):
        error = refused(workload=wrong)
        assert error.message.startswith("workload: ")
        assert "JSON object" in error.message


def test_r18_runners_replaces_the_whole_list():
    found = settings(runner_type="gpu", runners=runners(L4))
    assert found.candidates == (Candidate(*L4, 600.0),)


@pytest.mark.parametrize(
    "text", ["[", "{}", "null", '"linux"', "[{]", "[1]", "[null]", "[[]]", '[{"group":"g","labels":NaN}]', "[]x"]
)
def test_r19_malformed_runners_fail_and_never_mean_the_defaults(text):
    assert refused(runners=text).message.startswith("runners: ")


def test_r20_one_to_seven_candidates():
    many = [("nv-cpu-general", f"linux-amd64-cpu{cores}") for cores in range(1, 9)]
    assert len(settings(runners=runners(*many[:7])).candidates) == 7
    assert "8 candidates, expected 1 to 7" in refused(runners=runners(*many)).message
    assert "0 candidates, expected 1 to 7" in refused(runners="[]").message
    assert all(1 <= len(POOLS.candidates(one, "extended", None)) <= 7 for one in TYPES)


@pytest.mark.parametrize("text", [None, "", "  \n"])
def test_r21_omitted_or_blank_runners_are_the_linux_defaults(text):
    found = settings(runners=text)
    assert found.candidates == POOLS.candidates("cpu-amd64", "standard", None)
    assert all(one.labels.startswith("linux-") for type_ in TYPES for one in POOLS.candidates(type_, "", None))


@pytest.mark.parametrize(
    ("runner_type", "label", "expected"),
    [
        ("cpu", "linux-amd64-gpu-l4-latest-1", "a CPU label"),
        ("gpu", "linux-amd64-cpu16", "a GPU label"),
        ("gpu", "linux-arm64-gpu-l4-latest-1", "the architecture amd64"),
        ("cpu-arm64", "linux-amd64-cpu16", "the architecture arm64"),
        ("gpu", "linux-amd64-gpu-l4-latest-2", "1 GPU"),
        ("gpu-amd64-2gpu", "linux-amd64-gpu-l4-latest-1", "2 GPUs"),
    ],
)
def test_r22_every_candidate_keeps_family_architecture_and_gpu_count(runner_type, label, expected):
    error = refused(runner_type=runner_type, runners=runners(("some-group", label)))
    assert error.message.startswith("runners: candidate 1: labels: found ")
    assert f"expected {expected} (runner-type " in error.message


@pytest.mark.parametrize(
    "label", ["ubuntu-latest", "linux-amd64-cpu", "linux-amd64-gpu-l4-latest", "x-linux-amd64-cpu8"]
)
def test_r22_a_label_of_no_known_form_is_refused(label):
    assert "a form that the pools file knows" in refused(runners=runners(("g", label))).message


def test_r23_core_counts_may_differ_and_memory_labels_need_their_group():
    memory = ("nv-cpu-memory", "linux-amd64-cpu16m")
    assert len(settings(runners=runners(CPU, memory, ("nv-cpu-general", "linux-amd64-cpu4"))).candidates) == 3
    error = refused(runners=runners(("nv-cpu-general", "linux-amd64-cpu16m")))
    assert 'group: found "nv-cpu-general", expected nv-cpu-memory' in error.message


@pytest.mark.parametrize(("label", "gpus"), [("linux-amd64-gpu-l4-latest-1", 1), ("linux-arm64-gpu-a100-535-2", 2)])
def test_r24_the_gpu_count_is_the_last_part_of_the_label(label, gpus):
    read = POOLS.classify(label)
    assert read is not None
    assert read.gpus == gpus
    assert POOLS.classify(label[:-1] + "0") is None


def test_r25_cpu_and_gpu_are_never_in_one_sequence():
    assert "candidate 2" in refused(runners=runners(CPU, L4)).message
    assert "candidate 2" in refused(runner_type="gpu", runners=runners(L4, CPU)).message


def test_r26_one_operating_system_in_a_list_and_it_may_be_another_one_or_another_driver():
    windows = ("nv-gpu-general", "windows-amd64-gpu-l4-latest-1")
    earlier = ("nv-gpu-general", "linux-amd64-gpu-l4-earliest-1")
    assert len(settings(runner_type="gpu", runners=runners(windows)).candidates) == 1
    assert len(settings(runner_type="gpu", runners=runners(L4, earlier)).candidates) == 2
    error = refused(runner_type="gpu", runners=runners(L4, windows))
    assert "candidate 2: the operating system" in error.message
    assert "expected linux" in error.message


@pytest.mark.parametrize("minutes", [1, 60])
def test_r27_a_candidate_may_have_its_own_deadline_of_1_to_60_minutes(minutes):
    (one,) = settings(runners=runners((*CPU, minutes))).candidates
    assert (one.queue_seconds, one.own_deadline, one.rewait) == (minutes * 60, True, False)


@pytest.mark.parametrize("minutes", [0, 61, -1, 1.5, 10.0, "10", True, None, [], 10**30])
def test_r27_only_a_whole_number_is_a_deadline_of_a_candidate(minutes):
    assert "expected a whole number from 1 to 60" in refused(runners=runners((*CPU, minutes))).message


def test_r28_a_label_comes_again_only_as_the_last_with_a_deadline_in_the_same_group():
    other, again = ("nv-cpu-general", "linux-amd64-cpu32"), (*CPU, 60)
    found = settings(runners=runners(CPU, other, again))
    assert found.candidates[2] == Candidate(*CPU, 3600.0, own_deadline=True, rewait=True)
    assert "not the last one" in refused(runners=runners(CPU, again, other)).message
    assert "not the last one" in refused(runners=runners(CPU, again, again)).message
    assert "queue-timeout-minutes: missing" in refused(runners=runners(CPU, other, CPU)).message
    assert "group: found" in refused(runners=runners(CPU, ("another-group", CPU[1], 60))).message


def test_r29_candidate_then_action_then_policy():
    text = runners((*CPU, 3), ("nv-cpu-general", "linux-amd64-cpu8"))
    assert waits(settings(runners=text)) == [180, 600]
    assert waits(settings(runners=text, queue_timeout_minutes="20")) == [180, 1200]
    assert waits(settings(queue_timeout_minutes="20")) == [1200] * 3


def test_r30_what_is_dispatched_has_no_deadline():
    (one,) = settings(runners=runners((*CPU, 3))).candidates
    assert one.runner == {"group": CPU[0], "labels": CPU[1]}
    assert json.loads(one.runner_json) == one.runner


def test_r31_cpu_amd64_order():
    assert models("cpu-amd64") == ["16", "8", "32"]
    assert models("cpu-amd64", "extended") == ["16", "8", "32", "32"]


def test_r32_gpu_amd64_order():
    order = ["rtxpro6000", "h100", "h200", "a100", "l40g", "l4"]
    assert models("gpu-amd64") == order
    assert models("gpu-amd64", "extended") == [*order, "rtxpro6000"]


def test_r33_gpu_arm64_order():
    assert models("gpu-arm64") == models("gpu-arm64", "extended") == ["gb300", "gh200", "a100", "l4"]


def test_r34_gpu_amd64_2gpu_order():
    assert models("gpu-amd64-2gpu") == ["rtxpro6000", "h100", "h200"]
    assert models("gpu-amd64-2gpu", "extended") == ["rtxpro6000", "h100", "h200", "rtxpro6000"]


def test_r35_gpu_arm64_2gpu_order():
    assert models("gpu-arm64-2gpu") == models("gpu-arm64-2gpu", "extended") == ["l4"]


def test_r36_cpu_arm64_order():
    assert models("cpu-arm64") == ["16", "8", "32"]
    assert models("cpu-arm64", "extended") == ["16", "8", "32", "32"]


@pytest.mark.parametrize("runner_type", TYPES)
def test_r37_standard_waits_ten_minutes_and_has_no_rewait(runner_type):
    found = settings(runner_type=runner_type)
    assert set(waits(found)) == {600}
    assert not any(one.rewait for one in found.candidates)


@pytest.mark.parametrize("runner_type", TYPES)
def test_r38_extended_waits_ten_minutes_for_a_cpu_and_fifteen_for_a_gpu(runner_type):
    found = settings(runner_type=runner_type, queue_policy="extended")
    minutes = 15 if runner_type.startswith("gpu") else 10
    assert {one.queue_seconds for one in found.candidates if not one.rewait} == {minutes * 60}


@pytest.mark.parametrize("runner_type", ["cpu-amd64", "cpu-arm64", "gpu-amd64", "gpu-amd64-2gpu"])
def test_r39_extended_ends_with_an_hour_in_the_repeated_pool_whatever_the_action_says(runner_type):
    for text in (None, "5"):
        found = settings(runner_type=runner_type, queue_policy="extended", queue_timeout_minutes=text).candidates
        assert (found[-1].queue_seconds, found[-1].rewait, found[-1].own_deadline) == (3600, True, True)
        assert found[-1].runner in [one.runner for one in found[:-1]]
    assert sum(waits(settings(queue_policy="extended", queue_timeout_minutes="10"))) == 90 * 60


@pytest.mark.parametrize("runner_type", ["gpu-arm64", "gpu-arm64-2gpu"])
def test_r41_gpus_of_arm_have_no_rewait(runner_type):
    assert POOLS.profiles[runner_type].rewait is None
    assert not any(one.rewait for one in settings(runner_type=runner_type, queue_policy="extended").candidates)


def test_r42_nothing_is_appended_to_an_explicit_list():
    found = settings(runner_type="gpu", queue_policy="extended", runners=runners(L4))
    assert found.candidates == (Candidate(*L4, 900.0),)


def test_r43_defaults_are_latest_drivers_and_the_general_cpu_group_without_four_cores():
    for runner_type in TYPES:
        for one in POOLS.candidates(runner_type, "extended", None):
            label = POOLS.classify(one.labels)
            assert label is not None
            if label.family == "gpu":
                assert label.driver == "latest"
            else:
                assert one.group == "nv-cpu-general"
                assert label.cores in {8, 16, 32}


@pytest.mark.parametrize("runner_type", TYPES)
def test_r44_no_candidate_of_a_type_has_another_architecture_or_gpu_count(runner_type):
    profile = POOLS.profiles[runner_type]
    kinds = {
        (label.os, label.arch, label.family, label.gpus)
        for one in POOLS.candidates(runner_type, "extended", None)
        if (label := POOLS.classify(one.labels))
    }
    assert kinds == {("linux", profile.arch, profile.family, profile.gpus)}


def test_r45_lists_are_what_the_file_says_and_any_group_is_taken_at_its_word():
    read: Pools = parse_pools(
        """
        version = 1
        [[grammar]]
        family = "cpu"
        pattern = "our-box"
        os = "linux"
        arch = "amd64"
        [pools.box]
        group = "a group that nobody has granted"
        labels = "our-box"
        [profiles.box]
        family = "cpu"
        arch = "amd64"
        order = ["box"]
        [policies.standard]
        cpu-minutes = 3
        gpu-minutes = 3
        """,
        "own.toml",
    )
    (one,) = read.candidates("box", "", None)
    assert (one.group, one.labels, one.queue_seconds) == ("a group that nobody has granted", "our-box", 180)
