"""Device masks: what the caller's variables leave, and what ``--sgpu-gpus`` takes of it.

Each vendor's layers read their masks in their own way (spec: engine facts 8). ROCr's list is the lowest;
HIP's, or CUDA's where HIP's is empty, holds places *inside* ROCr's list, counted from 0. So a pool is
pinned in one variable only, the lowest one that counts, and all others are unset for items.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pytest_sgpu.core.text import printable
from pytest_sgpu.errors import DeviceError, OptionError
from pytest_sgpu.model import Device

HIP = "HIP_VISIBLE_DEVICES"
ROCR = "ROCR_VISIBLE_DEVICES"
CUDA = "CUDA_VISIBLE_DEVICES"
# Everything that a driver, a runtime or a batch system may read as a mask. An item sees one of them at most.
ALL = (HIP, ROCR, CUDA, "GPU_DEVICE_ORDINAL", "ZE_AFFINITY_MASK")

AMD = "amd"
NVIDIA = "nvidia"
VIRTUAL = "virtual"
UNKNOWN = "unknown"

# No host comes near it; a larger number is a slip of the finger, not a wish.
MOST = 4096

Selection = int | tuple[str, ...]
"""What ``--sgpu-gpus`` asks for: a number of devices, or entries by name."""

_INDEX = re.compile(r"[0-9]{1,9}")
_UUID = re.compile(r"(?:GPU|MIG)-[0-9A-Za-z][0-9A-Za-z/_-]*")
_NO_DEVICE = {
    "": "{reader} reads an empty mask as no GPU",
    "-1": "-1 stands for no GPU",
    "NoDevFiles": 'this is what Slurm writes for "no GPU was asked for", there is no device of that name',
}
_VIRTUAL_HINT = "--sgpu-gpus=N runs on N virtual devices"
_FORM = "expected a number of devices from 1 (--sgpu-gpus=4) or a list of them (--sgpu-gpus=0,2 or --sgpu-gpus=3,)"


@dataclass(frozen=True, slots=True)
class Found:
    """One GPU that discovery saw. ``index`` counts from 0 in the order of the vendor's lowest layer.

    ``uuid`` is as the vendor's runtime writes it (``GPU-...``), "" when nobody told.
    """

    index: int
    vendor: str
    arch: str
    uuid: str = ""


@dataclass(frozen=True, slots=True)
class Mask:
    """A pool given by the caller: ``entries`` of ``variable``, normalised (``0``, ``GPU-5f1e``)."""

    variable: str
    value: str
    entries: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Closed:
    """A mask that says: no GPU."""

    variable: str
    value: str
    reason: str

    def error(self) -> DeviceError:
        """Give the error for a run that asked for no virtual devices."""
        return _bad(self.variable, self.value, f"no device is left: {self.reason}", f"unset it, or {_VIRTUAL_HINT}")


def read(env: Mapping[str, str], vendor: str = "") -> Mask | Closed | None:
    """Give the pool that the caller's masks leave, or None when no mask is set.

    ``vendor`` is what discovery found, "" for nothing. On NVIDIA only CUDA's mask counts. Raises
    DeviceError with variable, value and reason when a mask is not one.
    """
    if vendor == NVIDIA:
        return _outer(env, CUDA)
    if ROCR in env:
        base = _outer(env, ROCR)
        return _refined(base, env) if isinstance(base, Mask) else base
    # HIP reads an empty mask as one that is not set, and looks at CUDA's then.
    return _outer(env, HIP) if env.get(HIP, "").strip() else _outer(env, CUDA)


def _outer(env: Mapping[str, str], variable: str) -> Mask | Closed | None:
    if variable not in env:
        return None
    value = env[variable]
    reason = _NO_DEVICE.get(value.strip())
    if reason is not None:
        return Closed(variable, value, reason.format(reader="CUDA" if variable == CUDA else "ROCr"))
    return Mask(variable, value, entries(variable, value))


def _refined(base: Mask, env: Mapping[str, str]) -> Mask | Closed:
    """Apply HIP's mask, or CUDA's, to ROCr's list. The result is pinned in ROCr itself."""
    inner = _outer(env, HIP if env.get(HIP, "").strip() else CUDA) if _inner_is_set(env) else None
    if not isinstance(inner, Mask):
        return inner or base
    if inner.entries == base.entries:  # Slurm writes the same list into several variables
        return base
    picked = tuple(_inside(base, inner, entry) for entry in inner.entries)
    _refuse_repeated(inner.variable, inner.value, picked)
    return Mask(ROCR, base.value, picked)


def _inner_is_set(env: Mapping[str, str]) -> bool:
    return any(env.get(name, "").strip() for name in (HIP, CUDA))


def _inside(base: Mask, inner: Mask, entry: str) -> str:
    if entry.isdigit():
        if int(entry) < len(base.entries):
            return base.entries[int(entry)]
        outside = f"index {entry} is outside of it"
    else:
        for known in base.entries:
            if known.lower() == entry.lower():
                return known
        outside = f"{entry} is not in it"
    shown = printable(base.value)
    raise _bad(
        inner.variable,
        inner.value,
        f"{outside}: {ROCR}='{shown}' leaves {len(base.entries)}, and the layers multiply (HIP and CUDA count "
        "inside ROCr's list, from 0), so no GPU would be left",
        f"unset one of the two, or count from 0 to {len(base.entries) - 1}",
    )


def entries(variable: str, value: str) -> tuple[str, ...]:
    """Split a mask into its normalised entries: ``2`` for `` 02 ``, UUIDs as they are, no blanks.

    Raises DeviceError for what is neither index nor UUID, for empty and for repeated entries: the
    runtimes end the list there in silence, and devices would be lost.
    """
    texts = [text.strip() for text in value.split(",")]
    for place, text in enumerate(texts, 1):
        fault = _fault(text)
        if fault:
            raise _bad(variable, value, f"entry {place} of {len(texts)}: {fault}", _expected(variable))
    result = tuple(_normal(text) for text in texts)
    _refuse_repeated(variable, value, result)
    return result


def _fault(text: str) -> str:
    if not text:
        return "empty entry"
    if text in _NO_DEVICE:
        return _NO_DEVICE[text]
    if not (_INDEX.fullmatch(text) or _UUID.fullmatch(text)):
        return f"'{printable(text)}' is neither an index nor a UUID"
    if text.isdigit() and int(text) >= MOST:
        return f"there is no device {text}"
    return ""


def _normal(text: str) -> str:
    return str(int(text)) if text.isdigit() else text


def _refuse_repeated(variable: str, value: str, found: Sequence[str]) -> None:
    twice = _first_repeated(found)
    if twice:
        raise _bad(variable, value, f"{twice} is repeated", _expected(variable))


def _first_repeated(found: Iterable[str]) -> str:
    seen: set[str] = set()
    for entry in found:
        if entry.lower() in seen:
            return entry
        seen.add(entry.lower())
    return ""


def _expected(variable: str) -> str:
    return f"expected indices or UUIDs, each once, as in {variable}=0,2 or {variable}=GPU-5f1e0a2b"


def _bad(variable: str, value: str, reason: str, hint: str) -> DeviceError:
    return DeviceError(f"{variable}='{printable(value)}': {reason}", hint)


def selection(text: str | None) -> Selection | None:
    """Read ``--sgpu-gpus``: one number is a count, anything with a comma, or a UUID, is a list.

    One comma may end a list, so ``3,`` is the device 3. Raises OptionError for everything else.
    """
    if text is None:
        return None
    shown = f"--sgpu-gpus={printable(text)}"
    if _INDEX.fullmatch(text.strip()):
        count = int(text)
        if not 1 <= count <= MOST:
            raise OptionError(f"{shown}: the number of devices must lie between 1 and {MOST}", _FORM)
        return count
    texts = [part.strip() for part in text.split(",")]
    if len(texts) > 1 and not texts[-1]:
        texts.pop()
    for part in texts:
        fault = _fault(part)
        if fault:
            raise OptionError(f"{shown}: {fault}", _FORM)
    result = tuple(_normal(part) for part in texts)
    twice = _first_repeated(result)
    if twice:
        raise OptionError(f"{shown}: {twice} is repeated", _FORM)
    return result


def virtual(wanted: Selection, *, hide: str = "") -> tuple[Device, ...]:
    """Give virtual devices: the first ``wanted`` ones, or those with the given indices.

    ``hide`` names the vendor of real GPUs that the caller's mask forbids; its lowest mask is kept shut.
    Raises OptionError for a UUID: only real devices have one.
    """
    names = tuple(map(str, range(wanted))) if isinstance(wanted, int) else wanted
    for name in names:
        if not name.isdigit():
            raise OptionError(f"--sgpu-gpus: {name} is not there; without a GPU, devices are virtual, 0, 1, ...", _FORM)
    also = {"": {}, AMD: {ROCR: ""}, NVIDIA: {CUDA: ""}}[hide]
    return tuple(Device(f"gpu{name}", name, HIP, VIRTUAL, "cpu", also=also) for name in names)


def masked(mask: Mask, found: Sequence[Found]) -> tuple[Device, ...]:
    """Give the devices of a mask, in its order, with what discovery knows of each.

    Where discovery found nothing the mask is believed. Raises DeviceError for an index beyond the found
    devices, and for two entries that name one device.
    """
    seen: dict[Found, str] = {}
    result: list[Device] = []
    names = _names(mask.entries)
    for name, entry in zip(names, mask.entries, strict=True):
        gpu = match(entry, found)
        if gpu is None and found and entry.isdigit():
            reason = f"index {entry} is beyond the {len(found)} devices that are there, 0 to {len(found) - 1}"
            raise _bad(mask.variable, mask.value, reason, _expected(mask.variable))
        if gpu in seen:
            reason = f"{seen[gpu]} and {entry} are the same device, so it is repeated"
            raise _bad(mask.variable, mask.value, reason, _expected(mask.variable))
        if gpu is not None:
            seen[gpu] = entry
        vendor = found[0].vendor if found else UNKNOWN
        arch = gpu.arch if gpu else arch_of(other.arch for other in found)
        result.append(Device(name, entry, mask.variable, vendor, arch))
    return tuple(result)


def _names(entry_list: Sequence[str]) -> list[str]:
    """Name indices by themselves, UUIDs by their place, or the next free number."""
    taken = {entry for entry in entry_list if entry.isdigit()}
    names: list[str] = []
    for place, entry in enumerate(entry_list):
        number = entry
        if not entry.isdigit():
            number = next(str(n) for n in range(place, 2 * len(entry_list) + 1) if str(n) not in taken)
            taken.add(number)
        names.append(f"gpu{number}")
    return names


def unmasked(found: Sequence[Found]) -> tuple[Device, ...]:
    """Give every discovered device, pinned by its index."""
    return tuple(_unmasked(gpu) for gpu in found)


def _unmasked(gpu: Found) -> Device:
    if gpu.vendor == NVIDIA:
        # CUDA counts the fastest first unless it is told to count as nvidia-smi does.
        also = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
        return Device(f"gpu{gpu.index}", str(gpu.index), CUDA, NVIDIA, gpu.arch, also=also)
    return Device(f"gpu{gpu.index}", str(gpu.index), HIP, gpu.vendor, gpu.arch)


def match(entry: str, found: Iterable[Found]) -> Found | None:
    """Give the one discovered device that an entry means: its index, its UUID or a unique beginning of it."""
    if entry.isdigit():
        hits = [gpu for gpu in found if str(gpu.index) == entry]
    else:
        hits = [gpu for gpu in found if gpu.uuid.lower().startswith(entry.lower())]
    return hits[0] if len(hits) == 1 else None


def pick(devices: Sequence[Device], wanted: Selection | None, found: Sequence[Found] = ()) -> tuple[Device, ...]:
    """Take the first ``wanted`` devices, or the named ones in the order of their names; all for None.

    A name is an entry of the pool, or the UUID of a discovered device. Raises OptionError for more devices
    than there are, or for one that is not there: a request is never cut down in silence.
    """
    if wanted is None:
        return tuple(devices)
    there = ", ".join(device.id for device in devices[:16]) + (", ..." if len(devices) > 16 else "")  # noqa: PLR2004
    if isinstance(wanted, int):
        if wanted > len(devices):
            text = f"--sgpu-gpus={wanted}: asked for {wanted}, there are {len(devices)} ({there})"
            raise OptionError(text, f"ask for {len(devices)} at most")
        return tuple(devices[:wanted])
    result: list[Device] = []
    for name in wanted:
        gpu = match(name, found)
        aliases = {name.lower()} | ({str(gpu.index)} if gpu else set())
        hits = [device for device in devices if device.id.lower() in aliases]
        if not hits or hits[0] in result:
            reason = "is repeated" if hits else f"is not in the pool ({there})"
            raise OptionError(f"--sgpu-gpus: {name} {reason}", _FORM)
        result.append(hits[0])
    return tuple(result)


def arch_of(archs: Iterable[str]) -> str:
    """Join architectures as the weight file is named: sorted, with ``+``; ``cpu`` for none."""
    return "+".join(sorted({part for arch in archs for part in arch.split("+")})) or "cpu"
