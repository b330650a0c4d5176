"""What the gateways cost: start-up, a no-op item round trip, the search of a big log, closing.

Run: ``python bench/gateways.py [--items N] [--log-mib N]``. Peers, measured in the same run: the same number of
``true`` one after another, and threads that each wait for a subprocess.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pytest_sgpu.engine.gateways import Gateways, ItemEnded, ItemRun
from pytest_sgpu.model import Worker


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:8.2f} ms"


def _drain(gateways: Gateways, workers: list[Worker], items: int, log: str) -> tuple[float, list[ItemEnded]]:
    """Pull no-op items through some workers; give the wall time and how each ended."""
    began, sent = time.perf_counter(), 0
    ended: list[ItemEnded] = []
    idle = list(workers)
    while len(ended) < items:
        while idle and sent < items:
            gateways.run(idle.pop(), ItemRun(str(sent), ("/bin/true",), log))
            sent += 1
        event = gateways.next_event(10)
        if isinstance(event, ItemEnded):
            ended.append(event)
            idle.append(event.worker)
    return time.perf_counter() - began, ended


def _peers(items: int) -> None:
    command = ["/bin/true"]
    began = time.perf_counter()
    for _ in range(items):
        subprocess.run(command, check=True)
    print(f"one after another, subprocess      {_ms((time.perf_counter() - began) / items)} per item")
    began = time.perf_counter()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: subprocess.run(command, check=True), range(items)))
    print(f"4 threads, subprocess              {_ms((time.perf_counter() - began) / items)} per item")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=400)
    parser.add_argument("--log-mib", type=int, default=256)
    options = parser.parse_args()
    workers = [Worker(f"w{number}", ()) for number in range(4)]
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        log = str(Path(folder, "x.log"))
        gateways = Gateways(workers, env=dict(os.environ), cwd=folder, clock=lambda: time.perf_counter() - began)
        gateways.start()
        print(f"4 gateways, start                  {_ms(time.perf_counter() - began)}")
        _drain(gateways, workers, 8, log)
        for count in (1, 2, 4):
            wall, ended = _drain(gateways, workers[:count], options.items, log)
            late = statistics.median(event.at - event.ending.stop for event in ended)
            name = f"{count} worker{'s' * (count > 1)}, no-op items"
            print(f"{name:34} {_ms(wall / options.items)} per item", end="")
            print(f"   (end of the process to its event: median {late * 1000:.2f} ms)")
        _peers(options.items)
        script = f"yes 'some line of output' | head -c {options.log_mib << 20}"
        gateways.run(workers[0], ItemRun("big", ("/bin/sh", "-c", script), log, ran_line="TE_CI_RAN a.b"))
        while not isinstance(event := gateways.next_event(60), ItemEnded):
            pass
        print(f"search of a log of {options.log_mib} MiB          {_ms(event.at - event.ending.stop)}")
        closing = time.perf_counter()
        gateways.close()
        print(f"close                              {_ms(time.perf_counter() - closing)}")


if __name__ == "__main__":
    main()
