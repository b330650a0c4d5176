"""What the queue gave to this item, and whether a library sees exactly that."""

from __future__ import annotations

import csv
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

MASKS = ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")
DRIVERS = ("/dev/kfd", "/dev/nvidiactl")


def given(env: Mapping[str, str] = os.environ) -> tuple[str, ...] | None:
    """Give the entries of the mask; None: there is no mask, so any number of devices is right."""
    for name in MASKS:
        if name in env:
            return tuple(entry.strip() for entry in env[name].split(",") if entry.strip())
    return None


def driver_present() -> bool:
    """Whether this machine has a GPU driver: without one a mask names virtual devices."""
    return any(Path(path).exists() for path in DRIVERS)


def check_count(seen: int) -> None:
    """Fail when a library sees another number of devices than the mask names."""
    mask = given()
    assert mask is None or seen == len(mask), f"given {mask}, but {seen} devices are visible"


def uuid_of_index() -> dict[str, str]:
    """Give the UUIDs of NVIDIA's devices by index, {} where nvidia-smi cannot tell. It ignores masks."""
    tool = shutil.which("nvidia-smi")
    if tool is None or os.environ.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID":
        return {}
    command = [tool, "--query-gpu=index,uuid", "--format=csv,noheader"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    rows = csv.reader(done.stdout.splitlines(), skipinitialspace=True)
    return {row[0]: row[1] for row in rows if len(row) == 2}


def check_uuids(seen: list[str]) -> None:
    """Fail when the visible devices are not the ones that the mask names; UUIDs without their ``GPU-``."""
    indices = uuid_of_index()
    for entry, uuid in zip(given() or (), seen, strict=False):
        wanted = indices.get(entry, entry)
        if wanted.startswith("GPU-"):
            assert uuid.removeprefix("GPU-").startswith(wanted.removeprefix("GPU-")), f"given {entry}, got {uuid}"
