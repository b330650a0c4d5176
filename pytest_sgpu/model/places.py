"""Where it is done: devices and their workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Device:
    """One GPU, or one virtual device.

    ``name`` is what people read (``gpu3``). ``id`` is its entry in the mask ``variable`` (``3``,
    ``GPU-5f1e...``); ``also`` holds what must be set beside the mask (``CUDA_DEVICE_ORDER``).
    """

    name: str
    id: str
    variable: str
    vendor: str
    arch: str
    host: str = ""
    also: Mapping[str, str] = field(default_factory=dict, hash=False)

    def pin(self) -> dict[str, str]:
        """Give the environment that shows exactly this device. All other masks are to be unset."""
        return {self.variable: self.id, **self.also}


@dataclass(frozen=True, slots=True)
class Worker:
    """One gateway on one or more devices. A respawned worker keeps its id and has a new generation."""

    id: str
    devices: tuple[Device, ...]
    generation: int = 0

    @property
    def place(self) -> str:
        """Give the devices as people read them: ``gpu0`` or ``gpu0,gpu1``."""
        return ",".join(device.name for device in self.devices)


@dataclass(frozen=True, slots=True)
class Quarantine:
    """A device that gets no more items, from ``at`` seconds on, and the evidence against it in words."""

    worker: str
    devices: tuple[str, ...]
    at: float
    reason: str
