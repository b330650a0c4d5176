"""Real gateways for tests, and honest ways to look at what they leave."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from pytest_sgpu.engine.gateways import Gateways, ItemEnded, ItemRun, WorkerReady
from pytest_sgpu.model import Worker

PATIENCE = 15.0
E = TypeVar("E")


class Fleet:
    """Started gateways on virtual devices, with a mark in the environment of all their items."""

    def __init__(self, folder: Path, count: int, env: dict[str, str] | None, options: dict[str, object]) -> None:
        self.folder = folder
        self.workers = [Worker(f"gpu{number}", ()) for number in range(count)]
        self.mark = f"{os.getpid()}-{time.monotonic_ns()}"
        began = time.monotonic()
        self.clock = lambda: time.monotonic() - began
        base = dict(os.environ) if env is None else env
        self.gateways = Gateways(
            self.workers,
            env={**base, "SGPU_TEST_MARK": self.mark},
            cwd=str(folder),
            clock=self.clock,
            **options,  # type: ignore[arg-type]
        )
        self.items = 0

    def start(self) -> dict[str, int]:
        """Start, and give the process number of each worker."""
        self.gateways.start()
        ready = [self.next(WorkerReady) for _ in self.workers]
        return {event.worker.id: event.pid for event in ready}

    def next(self, kind: type[E]) -> E:
        """Wait for the next event of a kind; others are passed over."""
        end = time.monotonic() + PATIENCE
        while (left := end - time.monotonic()) > 0:
            event = self.gateways.next_event(left)
            if isinstance(event, kind):
                return event
        raise AssertionError(f"no {kind.__name__} came")

    def order(self, *argv: str, worker: Worker | None = None, **fields) -> ItemRun:
        """Hand out an item; its log is named after its number."""
        self.items += 1
        fields.setdefault("log", str(self.folder / f"{self.items}.log"))
        item = ItemRun(id=f"item-{self.items}", argv=argv, **fields)
        self.gateways.run(worker or self.workers[0], item)
        return item

    def run(self, *argv: str, **fields) -> tuple[ItemEnded, bytes]:
        """Run one item to its end, and give that and its log."""
        item = self.order(*argv, **fields)
        ended = self.next(ItemEnded)
        assert ended.run_id == item.id
        log = Path(item.log)
        return ended, log.read_bytes() if log.is_file() else b""

    def sh(self, script: str, **fields) -> tuple[ItemEnded, bytes]:
        """Run a piece of shell as an item."""
        return self.run("/bin/sh", "-c", script, **fields)

    def pids(self, name: str = "pids", count: int = 1) -> list[int]:
        """Give the process numbers that an item wrote into a file, one a line, once there are enough."""
        file = self.folder / name
        enough = until(lambda: file.exists() and file.read_bytes().count(b"\n") >= count, PATIENCE)
        assert enough, "the item wrote no process numbers"
        return [int(line) for line in file.read_text().split()]

    def survivors(self) -> list[int]:
        """Give all living processes that carry the mark of this fleet's items."""
        return carriers(self.mark)

    def gone(self, pids: list[int], seconds: float = 2.0) -> bool:
        """Say whether these processes, and all that carry the mark, are gone within the time."""
        return until(lambda: not any(alive(pid) for pid in pids) and not self.survivors(), seconds)


def alive(pid: int) -> bool:
    """Say whether a process runs. A zombie does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    return stat.rpartition(b")")[2].split()[0] not in (b"Z", b"X")


def guardians_of(worker: int) -> list[int]:
    """Find the guardians below a worker; there is one, or for a moment none."""
    found = []
    with contextlib.suppress(OSError):
        for pid in Path(f"/proc/{worker}/task/{worker}/children").read_text().split():
            with contextlib.suppress(OSError):
                if b"sgpu-guardian" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    found.append(int(pid))
    return found


def guardian_of(worker: int, *others: int) -> int:
    """Wait for the guardian below a worker; ``others`` are earlier ones."""
    found: list[int] = []

    def there() -> bool:
        found[:] = [pid for pid in guardians_of(worker) if pid not in others]
        return bool(found)

    assert until(there, PATIENCE), "the worker has no guardian"
    return found[0]


def carriers(mark: str) -> list[int]:
    """Find every living process whose environment holds the mark."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            held = mark.encode() in (process / "environ").read_bytes()
        except OSError:
            continue
        if held and alive(int(process.name)):
            found.append(int(process.name))
    return found


def until(true: Callable[[], bool], seconds: float) -> bool:
    """Wait for something outside of this process, which has no clock of ours."""
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True


@pytest.fixture
def make_fleet(tmp_path: Path) -> Iterator[Callable[..., Fleet]]:
    """Make fleets; each is closed at the end, and must have left nothing."""
    made: list[Fleet] = []

    def make(count: int = 1, env: dict[str, str] | None = None, **options: object) -> Fleet:
        made.append(Fleet(tmp_path, count, env, options))
        return made[-1]

    yield make
    for fleet in made:
        fleet.gateways.close()
    for fleet in made:
        assert fleet.gone([])


@pytest.fixture
def fleet(make_fleet: Callable[..., Fleet]) -> Fleet:
    """Give one started worker."""
    one = make_fleet()
    one.start()
    return one
