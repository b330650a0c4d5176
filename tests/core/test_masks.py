from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sgpu.core import masks
from pytest_sgpu.core.masks import Closed, Found, Mask
from pytest_sgpu.errors import DeviceError, OptionError

HIP, ROCR, CUDA = masks.HIP, masks.ROCR, masks.CUDA
MIG = "MIG-11111111-2222-3333-4444-555555555555"


def amd(count, arch="gfx950"):
    return tuple(Found(i, "amd", arch, f"GPU-{i:016x}") for i in range(count))


def entries_of(env, vendor=""):
    mask = masks.read(env, vendor)
    assert isinstance(mask, Mask), mask
    return mask.variable, mask.entries


@pytest.mark.parametrize(
    ("env", "variable", "entries"),
    [
        ({CUDA: MIG}, CUDA, (MIG,)),
        ({CUDA: "GPU-aaaa1111, GPU-bbbb2222"}, CUDA, ("GPU-aaaa1111", "GPU-bbbb2222")),
        ({CUDA: "MIG-GPU-5f1e/1/0"}, CUDA, ("MIG-GPU-5f1e/1/0",)),
        ({HIP: "", CUDA: "1"}, CUDA, ("1",)),
        ({HIP: "3,1"}, HIP, ("3", "1")),
        ({HIP: " 2 , 0"}, HIP, ("2", "0")),
        ({HIP: "07"}, HIP, ("7",)),
        ({ROCR: "2,3", HIP: "1"}, ROCR, ("3",)),
        ({ROCR: "2,3", HIP: "1,0"}, ROCR, ("3", "2")),
        ({ROCR: "2,3", CUDA: "1"}, ROCR, ("3",)),
        ({ROCR: "2,3", HIP: "", CUDA: "0"}, ROCR, ("2",)),
        ({ROCR: "2,3", HIP: "2, 3"}, ROCR, ("2", "3")),
        ({ROCR: "2", CUDA: "2"}, ROCR, ("2",)),
        ({ROCR: "2", CUDA: "2", HIP: "0"}, ROCR, ("2",)),
        ({ROCR: "2,3", CUDA: ""}, ROCR, ("2", "3")),
        ({ROCR: "GPU-AB,GPU-cd", HIP: "GPU-ab"}, ROCR, ("GPU-AB",)),
        ({ROCR: "GPU-ab,GPU-cd", HIP: "1"}, ROCR, ("GPU-cd",)),
        ({HIP: "0,1", CUDA: "0,1"}, HIP, ("0", "1")),
        ({HIP: "1", CUDA: "x"}, HIP, ("1",)),
    ],
)
def test_what_the_masks_leave(env, variable, entries):
    assert entries_of(env) == (variable, entries)
    assert entries_of(env, "amd") == (variable, entries)


def test_on_nvidia_only_cuda_counts():
    assert entries_of({CUDA: "1", ROCR: "0", HIP: "x"}, "nvidia") == (CUDA, ("1",))
    assert masks.read({ROCR: "0", HIP: "1"}, "nvidia") is None
    assert isinstance(masks.read({CUDA: "", HIP: "1"}, "nvidia"), Closed)


@pytest.mark.parametrize("env", [{}, {HIP: ""}, {HIP: "  "}, {"GPU_DEVICE_ORDINAL": "1"}])
def test_no_mask(env):
    assert masks.read(env) is None


@pytest.mark.parametrize(
    ("env", "parts"),
    [
        ({CUDA: ""}, [CUDA, "CUDA reads an empty mask as no GPU"]),
        ({CUDA: "  "}, [CUDA, "empty mask"]),
        ({ROCR: ""}, [ROCR, "ROCr reads an empty mask as no GPU"]),
        ({ROCR: "", HIP: "1"}, [ROCR]),
        ({HIP: "-1"}, [HIP, "'-1'", "stands for no GPU"]),
        ({CUDA: "-1"}, [CUDA, "'-1'"]),
        ({ROCR: "-1"}, [ROCR, "'-1'"]),
        ({ROCR: "1", HIP: "-1"}, [HIP, "'-1'"]),
        ({CUDA: "NoDevFiles"}, [CUDA, "NoDevFiles", "Slurm", "no GPU was asked for"]),
    ],
)
def test_masks_that_say_none(env, parts):
    mask = masks.read(env)
    assert isinstance(mask, Closed)
    error = mask.error()
    assert all(part in error.message for part in parts), error.message
    assert "--sgpu-gpus=N" in error.hint


@pytest.mark.parametrize(
    ("env", "parts"),
    [
        ({HIP: "0,0"}, [HIP, "'0,0'", "0 is repeated"]),
        ({HIP: "0,00"}, ["0 is repeated"]),
        ({HIP: "GPU-ab,GPU-AB"}, ["GPU-AB is repeated"]),
        ({HIP: ",1"}, ["entry 1 of 2: empty entry"]),
        ({HIP: "0,"}, ["entry 2 of 2: empty entry"]),
        ({HIP: "0,x"}, ["'x' is neither an index nor a UUID"]),
        ({HIP: "0,-1"}, ["entry 2 of 2", "-1"]),
        ({HIP: "0 1"}, ["neither"]),
        ({HIP: "1.5"}, ["neither"]),
        ({HIP: "\u0663"}, ["neither"]),
        ({HIP: "9" * 5000}, ["neither"]),
        ({HIP: "4096"}, ["there is no device 4096"]),
        ({CUDA: "gpu-1"}, ["neither"]),
        ({CUDA: "0,NoDevFiles"}, ["Slurm"]),
        (
            {ROCR: "2,3", HIP: "2"},
            [HIP, "index 2", "layers multiply", f"{ROCR}='2,3' leaves 2", "no GPU would be left"],
        ),
        ({ROCR: "2", CUDA: "1"}, [CUDA, "layers multiply"]),
        ({ROCR: "2", HIP: "GPU-ab"}, [HIP, "GPU-ab is not in it"]),
        ({ROCR: "GPU-ab,GPU-cd", HIP: "0,GPU-ab"}, [HIP, "GPU-ab is repeated"]),
        ({ROCR: "1,x", HIP: "0"}, [ROCR, "'x'"]),
    ],
)
def test_masks_that_are_none(env, parts):
    with pytest.raises(DeviceError) as caught:
        masks.read(env)
    assert all(part in caught.value.message for part in parts), caught.value.message
    assert caught.value.hint


def test_control_bytes_in_a_mask_are_not_echoed():
    with pytest.raises(DeviceError) as caught:
        masks.read({HIP: "0,\x1b[31m"})
    assert "\x1b" not in str(caught.value)


@given(st.dictionaries(st.sampled_from([HIP, ROCR, CUDA]), st.text("0123,-GPx \x00\udc80", max_size=12)))
def test_any_mask_is_a_pool_or_an_error_in_words(env):
    try:
        mask = masks.read(env)
    except DeviceError as error:
        assert any(name in error.message for name in env)  # noqa: PT017 - a mask or an error, both are right
        return
    if isinstance(mask, Mask):
        assert len({entry.lower() for entry in mask.entries}) == len(mask.entries) > 0
        assert masks.entries(mask.variable, ",".join(mask.entries)) == mask.entries


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (None, None),
        ("4", 4),
        (" 4 ", 4),
        ("4096", 4096),
        ("0,2", ("0", "2")),
        ("3,", ("3",)),
        ("0,", ("0",)),
        (" 2 , 0 ", ("2", "0")),
        ("GPU-ab", ("GPU-ab",)),
        ("GPU-ab,", ("GPU-ab",)),
        ("GPU-ab,1", ("GPU-ab", "1")),
    ],
)
def test_selection(text, wanted):
    assert masks.selection(text) == wanted


@pytest.mark.parametrize(
    "text", ["", " ", "0", "x", "0,0", "0,00", "-2", "-1", "1.5", "4097", "9" * 5000, ",1", "1,,2", ",", "+2", "0,4096"]
)
def test_selections_that_are_none(text):
    with pytest.raises(OptionError, match=re.escape("--sgpu-gpus=")) as caught:
        masks.selection(text)
    assert "--sgpu-gpus=4" in caught.value.hint
    assert "--sgpu-gpus=0,2" in caught.value.hint


def test_virtual_devices():
    devices = masks.virtual(2)
    assert [device.name for device in devices] == ["gpu0", "gpu1"]
    assert [device.pin() for device in devices] == [{HIP: "0"}, {HIP: "1"}]
    assert {(device.vendor, device.arch) for device in devices} == {("virtual", "cpu")}
    assert [device.id for device in masks.virtual(("5", "2"))] == ["5", "2"]


def test_virtual_devices_do_not_open_what_a_mask_forbids():
    assert masks.virtual(1, hide="amd")[0].pin() == {HIP: "0", ROCR: ""}
    assert masks.virtual(1, hide="nvidia")[0].pin() == {HIP: "0", CUDA: ""}


def test_virtual_devices_have_no_uuid():
    with pytest.raises(OptionError, match="GPU-ab is not there"):
        masks.virtual(("GPU-ab",))


def masked(text, found=(), variable=HIP):
    return masks.masked(Mask(variable, text, masks.entries(variable, text)), found)


def test_a_mask_is_believed_where_nothing_was_found():
    devices = masked("3,1")
    assert [device.pin() for device in devices] == [{HIP: "3"}, {HIP: "1"}]
    assert [device.name for device in devices] == ["gpu3", "gpu1"]
    assert {(device.vendor, device.arch) for device in devices} == {("unknown", "cpu")}


def test_names_are_unique():
    assert [device.name for device in masked("1,GPU-a,GPU-b,0")] == ["gpu1", "gpu2", "gpu3", "gpu0"]
    assert [device.name for device in masked("GPU-a,GPU-b")] == ["gpu0", "gpu1"]


def test_a_mask_gets_its_architecture_from_discovery():
    found = (Found(0, "amd", "gfx942", "GPU-aa"), Found(1, "amd", "gfx950", "GPU-ab"))
    assert [device.arch for device in masked("1,0", found)] == ["gfx950", "gfx942"]
    assert [device.arch for device in masked("GPU-AB", found)] == ["gfx950"]
    assert [device.arch for device in masked("GPU-a", found)] == ["gfx942+gfx950"]  # not unique
    assert [device.arch for device in masked("GPU-zz", found)] == ["gfx942+gfx950"]
    assert masked("GPU-AB", found)[0].vendor == "amd"


def test_an_index_beyond_the_devices():
    with pytest.raises(DeviceError, match=r"HIP_VISIBLE_DEVICES='0,4': index 4 is beyond the 4 devices"):
        masked("0,4", amd(4))


def test_one_device_under_two_names():
    with pytest.raises(DeviceError, match="1 and GPU-0000000000000001 are the same device"):
        masked("1,GPU-0000000000000001", amd(2))


def test_discovered_devices_are_pinned_by_index():
    assert [device.pin() for device in masks.unmasked(amd(2))] == [{HIP: "0"}, {HIP: "1"}]
    nvidia = masks.unmasked([Found(1, "nvidia", "sm_90", "GPU-ab")])[0]
    assert nvidia.pin() == {CUDA: "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    assert (nvidia.name, nvidia.arch) == ("gpu1", "sm_90")


def test_picking_from_a_pool():
    pool = masked("3,1,2")
    assert masks.pick(pool, None) == pool
    assert [device.id for device in masks.pick(pool, 2)] == ["3", "1"]
    assert [device.id for device in masks.pick(pool, ("2", "3"))] == ["2", "3"]
    found = amd(4)
    assert [device.id for device in masks.pick(masks.unmasked(found), ("GPU-0000000000000002",), found)] == ["2"]
    assert [device.id for device in masks.pick(masked("GPU-AB,GPU-cd"), ("GPU-ab",))] == ["GPU-AB"]


def test_asking_for_more_than_there_is():
    pool = masks.unmasked(amd(4))
    with pytest.raises(OptionError, match=r"asked for 8, there are 4 \(0, 1, 2, 3\)"):
        masks.pick(pool, 8)
    with pytest.raises(OptionError, match=r"7 is not in the pool \(0, 1, 2, 3\)"):
        masks.pick(pool, ("0", "7"))
    with pytest.raises(OptionError, match="GPU-0000000000000001 is repeated"):
        masks.pick(pool, ("1", "GPU-0000000000000001"), amd(4))
    with pytest.raises(OptionError, match=r"14, 15, \.\.\.\)"):
        masks.pick(masks.unmasked(amd(20)), 21)


def test_architectures_of_a_pool():
    assert masks.arch_of(["gfx950", "gfx942", "gfx950"]) == "gfx942+gfx950"
    assert masks.arch_of(["sm_90"]) == "sm_90"
    assert masks.arch_of([]) == "cpu"
