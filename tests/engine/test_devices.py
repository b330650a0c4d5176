from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_sgpu.core import masks
from pytest_sgpu.core.masks import Found
from pytest_sgpu.engine import devices, probes
from pytest_sgpu.errors import DeviceError, OptionError

HIP, ROCR, CUDA = masks.HIP, masks.ROCR, masks.CUDA
NVIDIA_SMI = """echo '0, GPU-5f1e0a2b-0000-0000-0000-000000000000, NVIDIA H200, 9.0'
echo '1, GPU-6a2f0a2b-0000-0000-0000-000000000000, NVIDIA H200, 9.0'"""


class Host:
    """A made-up host: a sysfs tree, and vendor tools in a folder that is the whole PATH."""

    def __init__(self, top):
        self.sysfs = top / "sys"
        self.bin = top / "bin"
        self.bin.mkdir()
        self.env = {"PATH": f"{self.bin}:/bin:/usr/bin"}

    def node(self, number, **facts):
        folder = self.sysfs / f"class/kfd/kfd/topology/nodes/{number}"
        folder.mkdir(parents=True)
        (folder / "properties").write_text("".join(f"{name} {value}\n" for name, value in facts.items()))
        return folder

    def gpu(self, number, version=90500, **facts):
        return self.node(number, cpu_cores_count=0, simd_count=1024, gfx_target_version=version, **facts)

    def tool(self, name, script):
        path = self.bin / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def pool(self, gpus=None, *, time_limit=10.0, **env):
        return devices.pool(self.env | env, gpus, sysfs=self.sysfs, time_limit=time_limit)


@pytest.fixture
def host(tmp_path, monkeypatch):
    made = Host(tmp_path)
    # This machine may have tools of its own.
    which = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name, path: which(name, path=path.partition(":")[0]))
    return made


def pins(pool):
    return [device.pin() for device in pool.devices]


# -- KFD ------------------------------------------------------------------------------------------


def test_kfd_names_gpus_in_its_own_order_and_starts_no_tool(host, tmp_path):
    host.node(0, cpu_cores_count=64, simd_count=0)
    for number in (10, 2, 1):
        host.gpu(number, unique_id=number)
    host.tool("nvidia-smi", f"touch {tmp_path}/started")
    pool = host.pool()
    assert pool.arch == "gfx950"
    assert [device.name for device in pool.devices] == ["gpu0", "gpu1", "gpu2"]
    assert pins(pool) == [{HIP: "0"}, {HIP: "1"}, {HIP: "2"}]
    assert {device.vendor for device in pool.devices} == {"amd"}
    assert pool.looked == (f"{host.sysfs}/class/kfd: 3 found",)
    assert pool.notices == ()
    assert not (tmp_path / "started").exists()
    found = devices.read_kfd(host.sysfs).found
    assert [gpu.uuid for gpu in found] == [f"GPU-{number:016x}" for number in (1, 2, 10)]


def test_several_architectures(host):
    host.gpu(1, 90402)
    host.gpu(2, 90500)
    pool = host.pool()
    assert pool.arch == "gfx942+gfx950"
    assert "several architectures" in str(pool.notices[0])
    assert host.pool("1,").arch == "gfx950"
    assert host.pool("1,").notices == ()


def test_an_old_kernel_tells_no_architecture(host):
    host.node(1, simd_count=256, lds_size="many", name_without_value="")
    pool = host.pool()
    assert pool.arch == "amd"
    assert "not known" in str(pool.notices[0])


def test_what_kfd_may_say_instead(host):
    top = host.sysfs / "class/kfd"
    assert devices.read_kfd(host.sysfs).looked == (f"{top}: not there",)
    top.mkdir(parents=True)
    assert devices.read_kfd(host.sysfs).looked == (f"{top}: no topology in it",)
    (top / "kfd/topology").mkdir(parents=True)
    (top / "kfd/topology/nodes").write_text("")
    assert "cannot be read" in devices.read_kfd(host.sysfs).looked[0]


def test_nodes_of_other_containers_are_not_there(host):
    (host.gpu(1) / "properties").unlink()
    host.gpu(2)
    host.node(3, simd_count=0)
    seen = devices.read_kfd(host.sysfs)
    assert [gpu.index for gpu in seen.found] == [0]
    assert seen.looked == (f"{host.sysfs}/class/kfd: 1 found, 1 that may not be read",)


@pytest.mark.parametrize(
    ("version", "gfx"),
    [(90402, "gfx942"), (90010, "gfx90a"), (90500, "gfx950"), (120001, "gfx1201"), (110003, "gfx1103"), (0, "")],
)
def test_decoding_targets(version, gfx):
    assert probes.decode_gfx(version) == gfx


# -- tools ----------------------------------------------------------------------------------------


def test_nvidia_smi(host):
    host.tool("nvidia-smi", NVIDIA_SMI)
    pool = host.pool()
    assert pool.arch == "sm_90"
    assert pins(pool) == [
        {CUDA: "0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"},
        {CUDA: "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"},
    ]
    assert pool.looked == (f"{host.sysfs}/class/kfd: not there", "nvidia-smi: 2 found")
    # Slurm writes the same index into three variables; only CUDA's counts here.
    slurm = {ROCR: "1", CUDA: "1", "GPU_DEVICE_ORDINAL": "1"}
    assert pins(host.pool(**slurm)) == [{CUDA: "1"}]
    assert pins(host.pool(**{CUDA: "GPU-6a2f"})) == [{CUDA: "GPU-6a2f"}]
    assert host.pool(**{CUDA: "MIG-11111111-2222"}).arch == "sm_90"
    with pytest.raises(DeviceError, match="index 2 is beyond the 2 devices"):
        host.pool(**{CUDA: "2"})


def test_an_old_nvidia_smi_knows_no_capability(host):
    host.tool(
        "nvidia-smi",
        'case "$*" in *compute_cap*) echo \'Field "compute_cap" is not a valid field to query.\'; exit 2 ;; esac\n'
        "echo '0, GPU-5f1e, Tesla T4'",
    )
    pool = host.pool()
    assert (len(pool.devices), pool.arch) == (1, "nvidia")
    assert "not known" in str(pool.notices[0])


def test_a_driver_in_trouble_is_quoted(host):
    host.tool("nvidia-smi", "echo 'NVIDIA-SMI has failed: \033[31mno driver' >&2; exit 9")
    with pytest.raises(DeviceError) as caught:
        host.pool()
    assert r"nvidia-smi: exit code 9 (NVIDIA-SMI has failed: \x1b[31mno driver)" in caught.value.message


def test_a_query_without_time_left_is_not_repeated(host, monkeypatch, tmp_path):
    host.tool("nvidia-smi", f"echo x >>{tmp_path}/starts; exit 9")
    now = iter([0.0, 20.0])
    monkeypatch.setattr(devices, "time", SimpleNamespace(monotonic=lambda: next(now)))
    assert devices._ask_nvidia(host.env, 10.0).looked == ("nvidia-smi: exit code 9",)
    assert (tmp_path / "starts").read_text() == "x\n"


def test_amd_tools_are_asked_side_by_side_without_the_masks(host):
    host.tool("rocm_agent_enumerator", 'echo gfx000; [ -n "${ROCR_VISIBLE_DEVICES+x}" ] || echo gfx942; echo gfx942')
    host.tool("rocminfo", "sleep 1000")
    start = time.monotonic()
    pool = host.pool(**{ROCR: "1"})
    assert time.monotonic() - start < 9
    assert pins(pool) == [{ROCR: "1"}]
    assert pool.arch == "gfx942"
    assert "rocm_agent_enumerator: 2 found" in pool.looked
    assert "rocminfo: not waited for" in pool.looked


def test_tools_that_never_answer(host, tmp_path):
    for name in ("nvidia-smi", "rocminfo", "amd-smi", "rocm-smi"):
        # A grandchild that keeps the output open, as wrappers do.
        host.tool(name, f"sleep 1000 & echo $! >>{tmp_path}/pids; wait")
    start = time.monotonic()
    with pytest.raises(DeviceError) as caught:
        host.pool(time_limit=0.5)
    assert time.monotonic() - start < 4
    message = caught.value.message
    assert "/class/kfd: not there" in message
    for name in ("nvidia-smi", "rocminfo", "amd-smi", "rocm-smi"):
        assert f"{name}: no answer in 0.5 s" in message
    assert "rocm_agent_enumerator: not found" in message
    assert "--sgpu-gpus=N" in caught.value.hint
    pool = host.pool("2", time_limit=0.2)
    assert pins(pool) == [{HIP: "0"}, {HIP: "1"}]
    assert "nvidia-smi, amd-smi, rocm-smi, rocminfo" in str(pool.notices[0])
    pids = (tmp_path / "pids").read_text().split()
    end = time.monotonic() + 10
    while not all(gone(pid) for pid in pids):
        assert time.monotonic() < end
        time.sleep(0.01)


def gone(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_a_tool_that_ends_and_leaves_its_output_open(host):
    host.tool("nvidia-smi", NVIDIA_SMI + "\nsleep 1000 &")
    start = time.monotonic()
    assert len(host.pool().devices) == 2
    assert time.monotonic() - start < 9


def test_a_tool_that_cannot_be_started(host):
    (host.bin / "rocminfo").write_text("#!/no/such/interpreter\n")
    (host.bin / "rocminfo").chmod(0o755)
    with pytest.raises(DeviceError, match="rocminfo: cannot be started"):
        host.pool()


# -- parsers --------------------------------------------------------------------------------------


def test_parsing_nvidia_smi():
    text = "0, GPU-aa, NVIDIA H200, with a comma, 9.0\n1, [N/A], B200, 10.0\n2, GPU-cc, Old, [N/A]\nNo devices\n\n,,,"
    assert probes.parse_nvidia_smi(text) == (
        Found(0, "nvidia", "sm_90", "GPU-aa"),
        Found(1, "nvidia", "sm_100", ""),
        Found(2, "nvidia", "nvidia", "GPU-cc"),
    )


ROCMINFO = """ROCk module is loaded
==========
HSA Agents
==========
*******
Agent 1
*******
  Name:                    AMD EPYC
  Uuid:                    CPU-XX
  Device Type:             CPU
*******
Agent 2
*******
  Name:                    gfx942
  Uuid:                    GPU-e56b237e725ec427
  Device Type:             GPU
  ISA Info:
    ISA 1
      Name:                    amdgcn-amd-amdhsa--gfx942:sramecc+:xnack-
*******
Agent 3
*******
  Name:                    gfx90a
  Uuid:                    GPU-XX
  Device Type:             GPU
*** Done ***
"""


def test_parsing_rocminfo():
    assert probes.parse_rocminfo(ROCMINFO) == (
        Found(0, "amd", "gfx942", "GPU-e56b237e725ec427"),
        Found(1, "amd", "gfx90a"),
    )
    assert probes.parse_rocminfo("Agent 1\n  Device Type: GPU\n") == (Found(0, "amd", "amd"),)
    assert probes.parse_rocminfo("ROCk module is NOT loaded, possibly no GPU devices\n") == ()


def test_parsing_the_enumerator():
    assert probes.parse_agent_enumerator("gfx000\ngfx942\n gfx942\nTraceback:\n") == (
        Found(0, "amd", "gfx942"),
        Found(1, "amd", "gfx942"),
    )


@pytest.mark.parametrize("wrapped", [False, True])
def test_parsing_amd_smi(wrapped):
    gpus = [
        {"gpu": 0, "asic": {"market_name": "MI300X", "target_graphics_version": "gfx942"}},
        {"gpu": 1, "asic": {"market_name": "?"}},
        {"gpu": 2, "asic": "N/A"},
        "strange",
    ]
    text = json.dumps({"gpu_data": gpus} if wrapped else gpus)
    assert probes.parse_amd_smi(text) == (Found(0, "amd", "gfx942"), Found(1, "amd", "amd"))


def test_parsing_rocm_smi():
    cards = {
        "card10": {"GFX Version": "gfx90a", "Unique ID": "N/A"},
        "card2": {"GFX Version": "gfx942:sramecc+", "Unique ID": "0x3d45aa"},
        "card3": {"Unique ID": "0x0"},
        "card4": {"Unique ID": "nonsense"},
        "card5": "strange",
        "system": {"Driver version": "6"},
    }
    assert probes.parse_rocm_smi("WARNING: AMD GPU device(s) is/are in a low-power state\n\n" + json.dumps(cards)) == (
        Found(0, "amd", "gfx942", "GPU-00000000003d45aa"),
        Found(1, "amd", "amd"),
        Found(2, "amd", "amd"),
        Found(3, "amd", "gfx90a"),
    )


@pytest.mark.parametrize(
    "text", ["", "no json", "{", "[1, 2]", '"text"', "{}", "[" * 100_000, '{"gpu_data": 3}', "[[]]"]
)
def test_json_that_is_none(text):
    assert probes.parse_amd_smi(text) == ()
    assert probes.parse_rocm_smi(text) == ()


# -- the pool -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("env", "seen"),
    [
        ({CUDA: "MIG-11111111-2222-3333-4444-555555555555"}, [{CUDA: "MIG-11111111-2222-3333-4444-555555555555"}]),
        ({CUDA: "GPU-aaaa1111, GPU-bbbb2222"}, [{CUDA: "GPU-aaaa1111"}, {CUDA: "GPU-bbbb2222"}]),
        ({HIP: "", CUDA: "1"}, [{CUDA: "1"}]),
        ({HIP: "3,1"}, [{HIP: "3"}, {HIP: "1"}]),
        ({ROCR: "2,3", HIP: "1"}, [{ROCR: "3"}]),
        ({HIP: "0,1", CUDA: "0,1"}, [{HIP: "0"}, {HIP: "1"}]),
    ],
)
def test_a_mask_is_the_pool_where_nothing_is_found(host, env, seen):
    pool = host.pool(**env)
    assert pins(pool) == seen
    assert pool.arch == "cpu"
    assert "taken at its word" in str(pool.notices[0])


@pytest.mark.parametrize("env", [{CUDA: ""}, {ROCR: ""}, {HIP: "-1"}, {CUDA: "NoDevFiles"}, {HIP: "0,0"}, {HIP: "0,x"}])
def test_a_mask_that_leaves_none(host, env):
    with pytest.raises(DeviceError) as caught:
        host.pool(**env)
    assert next(iter(env)) in caught.value.message


def test_virtual_devices_on_request(host):
    pool = host.pool("4")
    assert pins(pool) == [{HIP: str(index)} for index in range(4)]
    assert (pool.arch, pool.notices) == ("cpu", ())
    assert pins(host.pool("5,2")) == [{HIP: "5"}, {HIP: "2"}]
    for env in ({CUDA: ""}, {ROCR: ""}, {HIP: "-1"}):
        assert pins(host.pool("2", **env)) == [{HIP: "0"}, {HIP: "1"}]


def test_virtual_devices_behind_a_mask_that_forbids_the_real_ones(host):
    host.gpu(1)
    assert pins(host.pool("2", **{ROCR: ""})) == [{HIP: "0", ROCR: ""}, {HIP: "1", ROCR: ""}]
    assert host.pool("2", **{HIP: "-1"}).arch == "cpu"


def test_a_part_of_the_pool(host):
    for number in range(4):
        host.gpu(number)
    assert pins(host.pool("2")) == [{HIP: "0"}, {HIP: "1"}]
    assert pins(host.pool("3,1")) == [{HIP: "3"}, {HIP: "1"}]
    assert pins(host.pool("3,", **{HIP: "3,1"})) == [{HIP: "3"}]
    assert pins(host.pool("1", **{HIP: "3,1"})) == [{HIP: "3"}]
    with pytest.raises(OptionError, match="asked for 8, there are 4"):
        host.pool("8")
    with pytest.raises(OptionError, match="0 is not in the pool"):
        host.pool("0,", **{HIP: "3,1"})
    with pytest.raises(OptionError):
        host.pool("x")


def test_a_uuid_that_nobody_knows_is_said(host):
    host.gpu(1, unique_id=255)
    pool = host.pool(**{ROCR: "GPU-77"})
    assert "names GPU-77, and discovery found no GPU of that UUID" in str(pool.notices[0])
    assert pool.arch == "gfx950"
    assert host.pool(**{ROCR: "GPU-00000000000000ff"}).notices == ()
