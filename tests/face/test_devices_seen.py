"""The caller's mask is the pool; each item sees one entry of it in one variable, as it was given."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

MASKS = (
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "CUDA_VISIBLE_DEVICES",
    "GPU_DEVICE_ORDINAL",
    "ZE_AFFINITY_MASK",
)
NO_KFD = not Path("/sys/class/kfd").exists()
SHOW = (
    "note \"$(env | grep -E '_VISIBLE_DEVICES=|DEVICE_ORDINAL=|AFFINITY_MASK=' | sort | tr '\\n' ' ')\"; ran; sleep 0.2"
)
UUID = "MIG-11111111-2222-3333-4444-555555555555"


@pytest.fixture
def show(repo):
    repo.suite("m", {f"see.{n}": SHOW for n in range(4)})
    return repo


def seen(repo) -> set[str]:
    return {line.strip() for line in repo.seen}


class TestMasks:
    @pytest.mark.skipif(not NO_KFD, reason="what AMD's driver tells decides how masks are read")
    @pytest.mark.parametrize(
        ("masks", "views"),
        [
            ({"CUDA_VISIBLE_DEVICES": UUID}, {f"CUDA_VISIBLE_DEVICES={UUID}"}),
            (
                {"CUDA_VISIBLE_DEVICES": "GPU-aaaa1111, GPU-bbbb2222"},
                {"CUDA_VISIBLE_DEVICES=GPU-aaaa1111", "CUDA_VISIBLE_DEVICES=GPU-bbbb2222"},
            ),
            ({"HIP_VISIBLE_DEVICES": "", "CUDA_VISIBLE_DEVICES": "1"}, {"CUDA_VISIBLE_DEVICES=1"}),
            ({"HIP_VISIBLE_DEVICES": "3,1"}, {"HIP_VISIBLE_DEVICES=3", "HIP_VISIBLE_DEVICES=1"}),
            ({"HIP_VISIBLE_DEVICES": " 2 , 0"}, {"HIP_VISIBLE_DEVICES=2", "HIP_VISIBLE_DEVICES=0"}),
            ({"ROCR_VISIBLE_DEVICES": "2,3", "HIP_VISIBLE_DEVICES": "1"}, {"ROCR_VISIBLE_DEVICES=3"}),
        ],
    )
    def test_an_item_sees_one_entry_of_one_mask(self, show, masks, views):
        done = show.run(gpus=None, env=masks)
        assert done.code == 0, done.text
        assert seen(show) == views

    @pytest.mark.skipif(not NO_KFD, reason="what AMD's driver tells decides how masks are read")
    def test_the_same_list_in_two_variables(self, show):
        done = show.run(gpus=None, env={"HIP_VISIBLE_DEVICES": "0,1", "CUDA_VISIBLE_DEVICES": "0,1"})
        assert done.code == 0, done.text
        views = seen(show)
        assert len(views) == 2
        assert all(len(view.split()) == 1 for view in views)

    @pytest.mark.skipif(not NO_KFD, reason="what AMD's driver tells decides how masks are read")
    @pytest.mark.parametrize(
        ("masks", "words"),
        [
            ({"CUDA_VISIBLE_DEVICES": "NoDevFiles"}, ["CUDA_VISIBLE_DEVICES='NoDevFiles'", "Slurm"]),
            ({"CUDA_VISIBLE_DEVICES": ""}, ["CUDA_VISIBLE_DEVICES=''", "CUDA reads an empty mask as no GPU"]),
            ({"ROCR_VISIBLE_DEVICES": ""}, ["ROCR_VISIBLE_DEVICES=''", "ROCr reads an empty mask as no GPU"]),
            ({"HIP_VISIBLE_DEVICES": "0,0"}, ["HIP_VISIBLE_DEVICES='0,0'", "repeated"]),
            ({"HIP_VISIBLE_DEVICES": ",1"}, ["HIP_VISIBLE_DEVICES=',1'", "empty entry"]),
            ({"HIP_VISIBLE_DEVICES": "0,"}, ["HIP_VISIBLE_DEVICES='0,'", "empty entry"]),
            ({"HIP_VISIBLE_DEVICES": "0,x"}, ["HIP_VISIBLE_DEVICES='0,x'", "neither an index nor a UUID"]),
        ],
    )
    def test_a_mask_that_is_none(self, show, masks, words):
        before = show.tree()
        done = show.run(gpus=None, env=masks)
        assert done.code == 4
        for word in words:
            assert word in done.errors
        assert show.tree() == before

    def test_virtual_devices_are_pinned_in_the_same_way(self, show):
        assert show.run(gpus=3).code == 0
        views = seen(show)
        assert 1 <= len(views) <= 3
        assert all(re.fullmatch(r"[A-Z]+_VISIBLE_DEVICES=[012]", view) for view in views)

    @pytest.mark.skipif(not NO_KFD, reason="what AMD's driver tells decides how masks are read")
    def test_a_part_of_the_pool(self, show):
        done = show.run(gpus="7,", env={"HIP_VISIBLE_DEVICES": "4,7"})
        assert done.code == 0, done.text
        assert seen(show) == {"HIP_VISIBLE_DEVICES=7"}


class TestNoDevice:
    @pytest.mark.skipif(not NO_KFD or shutil.which("nvidia-smi") is not None, reason="there is a device here")
    def test_says_what_was_looked_at(self, show):
        before = show.tree()
        done = show.run(gpus=None)
        assert done.code == 4
        assert "/sys/class/kfd" in done.errors
        assert "nvidia-smi" in done.errors
        assert "--sgpu-gpus=N" in done.errors
        assert show.tree() == before

    @pytest.mark.slow
    @pytest.mark.skipif(not NO_KFD, reason="AMD's driver answers at once")
    def test_tools_that_never_answer(self, show):
        """Each gets its time, all together end within it, and no device is assumed. Real limit: so slow."""
        for tool in ("amd-smi", "nvidia-smi", "rocm-smi", "rocm_agent_enumerator", "rocminfo"):
            show.file(f"bin/{tool}", "#!/bin/sh\nexec sleep 1000\n", executable=True)
        done = show.run(gpus=None, env={"PATH": f"{show.path}/bin:{show.env()['PATH']}"})
        assert done.code == 4
        for tool in ("amd-smi", "nvidia-smi", "rocm-smi", "rocm_agent_enumerator", "rocminfo"):
            assert tool in done.errors
        assert "--sgpu-gpus=N" in done.errors


def _real_devices() -> int:
    """How many GPUs the vendor's own tool lists, without a word of ours."""
    if not NO_KFD:
        nodes = Path("/sys/class/kfd/kfd/topology/nodes").glob("*/properties")
        return sum(re.search(r"^simd_count [1-9]", node.read_text(), re.MULTILINE) is not None for node in nodes)
    if shutil.which("nvidia-smi"):
        done = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False, timeout=60)
        return len(re.findall(r"^GPU \d+:", done.stdout, re.MULTILINE))
    return 0


@pytest.mark.gpu
class TestOnRealDevices:
    @pytest.fixture(autouse=True)
    def _needs(self):
        if not _real_devices():
            pytest.skip("no GPU on this machine")

    def test_discovery_finds_them_and_names_the_table(self, show):
        plan = show.plan(gpus=None)
        assert len(plan["devices"]) == _real_devices()
        assert re.match(r"gfx[0-9a-f]+|sm_\d+|amd|nvidia", plan["scope"]["arch"])
        assert plan["scope"]["arch"] != "cpu"

    def test_each_item_sees_exactly_its_own(self, repo):
        """What the driver's runtime sees under the mask, where there is a tool that asks it; else the mask alone."""
        count = _real_devices()
        repo.suite("m", {f"see.{n}": SHOW for n in range(2 * count)})
        done = repo.run(gpus=None)
        assert done.code == 0, done.text
        views = seen(repo)
        assert 1 <= len(views) <= count
        for view in views:
            assert len(view.split()) == 1
            assert "," not in view
        arch = repo.plan(gpus=None)["scope"]["arch"]
        assert (repo.path / "ci-weights" / f"test_weights.{arch}.l1.txt").exists()

    def test_the_runtime_sees_one(self, repo):
        """Asked through libcuda or libamdhip64, with nothing but ctypes."""
        repo.file("count.py", _COUNT)
        repo.suite("m", {"a": 'note "$(python3 "$top/count.py")"; ran', "b": 'note "$(python3 "$top/count.py")"; ran'})
        done = repo.run(gpus=None)
        assert done.code == 0, done.text
        if "no runtime" in repo.seen:
            pytest.skip("neither libcuda nor libamdhip64 here")
        assert set(repo.seen) == {"1"}


_COUNT = """
import ctypes

def count():
    for library, start, ask in (
        ("libcuda.so.1", "cuInit", "cuDeviceGetCount"),
        ("libamdhip64.so", "hipInit", "hipGetDeviceCount"),
    ):
        try:
            runtime = ctypes.CDLL(library)
        except OSError:
            continue
        number = ctypes.c_int(-1)
        if getattr(runtime, start)(0) == 0 and getattr(runtime, ask)(ctypes.byref(number)) == 0:
            return str(number.value)
        return "an error"
    return "no runtime"

print(count())
"""


def test_no_mask_of_the_test_process_leaks_into_these_tests(repo):
    assert not set(MASKS) & repo.env().keys()
    assert not [name for name in os.environ if name in MASKS]
