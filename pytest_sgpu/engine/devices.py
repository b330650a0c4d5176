"""Which GPUs this process may use, of what architecture, and how to pin one.

The caller's mask is the pool; without one, what discovery finds; without that, virtual devices if they were
asked for, else an error that says where it looked. Never a guess: a device that nobody named is not used.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pytest_sgpu.core import masks
from pytest_sgpu.core.masks import Closed, Found, Mask
from pytest_sgpu.engine import probes
from pytest_sgpu.errors import DeviceError
from pytest_sgpu.model import Device, Notice

_NODES = "class/kfd/kfd/topology/nodes"


@dataclass(frozen=True, slots=True)
class Pool:
    """The devices of a run. ``looked`` has a line for each place where discovery looked, with its result."""

    devices: tuple[Device, ...]
    arch: str
    notices: tuple[Notice, ...]
    looked: tuple[str, ...]


def pool(env: Mapping[str, str], gpus: str | None, *, sysfs: str | Path = "/sys", time_limit: float = 5.0) -> Pool:
    """Give the devices of a run.

    ``env`` is the caller's environment, ``gpus`` the text of ``--sgpu-gpus``. ``time_limit`` is in seconds,
    for each of the two rounds of vendor tools, so the whole takes about twice that at most. Raises
    OptionError for a bad ``gpus``, DeviceError for a bad mask and when there is no device.
    """
    wanted = masks.selection(gpus)
    there = discover(env, sysfs=sysfs, time_limit=time_limit)
    found = there.found
    mask = masks.read(env, found[0].vendor if found else "")
    notices: list[Notice] = []
    if isinstance(mask, Mask):
        devices = masks.pick(masks.masked(mask, found), wanted, found)
        notices += _about_mask(mask, there)
    elif mask is None and found:
        devices = masks.pick(masks.unmasked(found), wanted, found)
    elif wanted is None:
        raise mask.error() if isinstance(mask, Closed) else _nothing(there)
    else:
        devices = masks.virtual(wanted, hide=found[0].vendor if found else "")
        notices += _about_silence(there)
    arch = masks.arch_of(device.arch for device in devices)
    notices += _about_arch(arch)
    return Pool(devices, arch, tuple(notices), there.looked)


def _nothing(there: probes.Answers) -> DeviceError:
    looked = "".join(f"\n  {line}" for line in there.looked)
    return DeviceError(
        f"no GPU was found, and no mask names one. Looked at:{looked}",
        "--sgpu-gpus=N runs on N virtual devices; or name the GPUs in HIP_, ROCR_ or CUDA_VISIBLE_DEVICES",
    )


def _about_mask(mask: Mask, there: probes.Answers) -> list[Notice]:
    if not there.found:
        text = f"{mask.variable} is taken at its word: no GPU was found to check it against; the architecture is cpu"
        return [Notice(text), *_about_silence(there)]
    strange = [entry for entry in mask.entries if masks.match(entry, there.found) is None]
    plain = [entry for entry in strange if not entry.startswith("MIG-")]
    if plain and all(gpu.uuid for gpu in there.found):
        return [Notice(f"{mask.variable} names {', '.join(plain)}, and discovery found no GPU of that UUID")]
    return []


def _about_silence(there: probes.Answers) -> list[Notice]:
    if not there.silent:
        return []
    return [Notice(f"no answer in time from {', '.join(there.silent)}: if this host has GPUs, they may be in trouble")]


def _about_arch(arch: str) -> list[Notice]:
    if "+" in arch:
        return [Notice(f"the devices are of several architectures, {arch}: their durations are learned together")]
    if arch in {masks.AMD, masks.NVIDIA}:
        return [Notice(f"the exact architecture is not known; the weights are those of {arch}")]
    return []


def discover(env: Mapping[str, str], *, sysfs: str | Path, time_limit: float) -> probes.Answers:
    """Find the GPUs of this host: KFD's files first, then nvidia-smi, then AMD's tools, until one names any.

    KFD's files cannot hang, so no tool is started where they name a GPU.
    """
    kfd = read_kfd(Path(sysfs))
    if kfd.found:
        return kfd
    nvidia = _ask_nvidia(env, time_limit)
    if nvidia.found:
        return probes.Answers(nvidia.found, kfd.looked + nvidia.looked, nvidia.silent)
    amd = probes.ask(probes.AMD_TOOLS, env, time_limit)
    return probes.Answers(amd.found, kfd.looked + nvidia.looked + amd.looked, nvidia.silent + amd.silent)


def _ask_nvidia(env: Mapping[str, str], time_limit: float) -> probes.Answers:
    """Ask nvidia-smi, and once more without the newest field when it refuses, in the time that is left."""
    start = time.monotonic()
    first = probes.ask([probes.NVIDIA_SMI], env, time_limit)
    refused = any("exit code" in line for line in first.looked)
    left = time_limit - (time.monotonic() - start)
    if first.found or not refused or left <= 0:
        return first
    second = probes.ask([probes.OLD_NVIDIA_SMI], env, left)
    return second if second.found or second.silent else first


def read_kfd(sysfs: Path) -> probes.Answers:
    """Read the GPUs of AMD's kernel driver, in its own order. A node is one when ``simd_count`` > 0.

    A node that may not be read belongs to another container, and is not there for us.
    """
    top = sysfs / "class" / "kfd"
    try:
        nodes = sorted((int(entry.name), entry) for entry in (sysfs / _NODES).iterdir() if entry.name.isdigit())
    except FileNotFoundError:
        return probes.Answers(looked=(f"{top}: {'no topology in it' if top.exists() else 'not there'}",))
    except OSError as error:
        return probes.Answers(looked=(f"{top}: cannot be read ({error.strerror})",))
    found: list[Found] = []
    locked = 0
    for _, node in nodes:
        try:
            facts = _properties((node / "properties").read_text("utf-8", "replace"))
        except OSError:
            locked += 1
            continue
        if facts.get("simd_count", 0) > 0:
            arch = probes.decode_gfx(facts.get("gfx_target_version", 0)) or masks.AMD
            found.append(Found(len(found), masks.AMD, arch, probes.amd_uuid(facts.get("unique_id", 0))))
    result = f"{len(found)} found" if found else f"no GPU among {len(nodes)} nodes"
    shut = f", {locked} that may not be read" if locked else ""
    return probes.Answers(tuple(found), (f"{top}: {result}{shut}",))


def _properties(text: str) -> dict[str, int]:
    """Read lines ``key value``; what is no number is left out."""
    pairs = (line.split() for line in text.splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdecimal()}  # noqa: PLR2004
