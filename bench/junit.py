"""How fast, and in how much memory, the JUnit files of a run become one file.

    python bench/junit.py [--files 500] [--cases 1000] [--small 40]

Generates files as pytest writes them, aggregates them with pytest-sgpu, and, on the smaller number of files,
compares with the ways in which junitparser can do it. Each way runs in a process of its own, so that its peak
memory is its own.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

WAYS = {
    "sgpu": "pytest-sgpu, in a stream",
    "append": "junitparser, append to one tree",
    "iadd": "junitparser, +=",
}


PASSED = '<testcase classname="tests.torch.test_module_{file}" name="test_gemm[{case}-fp8-bias]" time="0.{case:03}" />'
FAILED = PASSED.replace(
    " />", '><failure message="AssertionError: {case} &lt; 0">def test():\n&gt;  assert 0</failure></testcase>'
)
SKIPPED = PASSED.replace(
    " />", '><skipped type="pytest.skip" message="no device">conftest.py:12: no</skipped></testcase>'
)
HEAD = '<?xml version="1.0" encoding="utf-8"?><testsuites name="pytest tests"><testsuite name="pytest" tests="{cases}">'


def generate(folder: Path, files: int, cases: int) -> int:
    """Write the files: 2 % of the cases fail, 5 % are skipped. Gives their bytes."""
    size = 0
    for file in range(files):
        shapes = (FAILED if case % 50 == 7 else SKIPPED if case % 20 == 3 else PASSED for case in range(cases))
        lines = [shape.format(file=file, case=case) for case, shape in enumerate(shapes)]
        text = HEAD.format(cases=cases) + "".join(lines) + "</testsuite></testsuites>"
        size += len(text)
        (folder / f"{file:04}.xml").write_text(text, encoding="utf-8")
    return size


def run_way(way: str, folder: Path) -> None:
    """Aggregate all files of the folder in one way; print seconds, peak memory in MB and the counted cases."""
    paths = sorted(folder.glob("*.xml"))
    out = folder / "all.out"
    begin = time.perf_counter()
    if way == "sgpu":
        from pytest_sgpu.model import Key, Outcome, Status  # noqa: PLC0415 - each way loads its own
        from pytest_sgpu.report.junit_write import ItemXml, write  # noqa: PLC0415

        begin = time.perf_counter()
        items = (ItemXml(Outcome(Key("bench", path.stem), Status.FAILED, 1, 0.0, 1.0), [path]) for path in paths)
        with out.open("wb") as stream:
            cases = write(stream, items, started=0.0).cases
    else:
        from junitparser import JUnitXml  # noqa: PLC0415

        begin = time.perf_counter()
        whole = JUnitXml()
        for path in paths:
            if way == "iadd":
                whole += JUnitXml.fromfile(str(path))
            else:
                for suite in JUnitXml.fromfile(str(path)):
                    whole.add_testsuite(suite)
        whole.update_statistics()  # type: ignore[no-untyped-call]
        whole.write(str(out))
        cases = whole.tests
    seconds = time.perf_counter() - begin
    print(seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, cases)


def measure(way: str, folder: Path, limit: float = 300.0) -> str:
    """Run one way in a fresh process and give its row."""
    command = [sys.executable, __file__, "--way", way, "--folder", str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return f"{WAYS[way]:<34}  > {limit:.0f} s, stopped"
    seconds, memory, cases = done.stdout.split()
    return f"{WAYS[way]:<34} {float(seconds):8.2f} s {float(memory):8.0f} MB {int(cases):>9} cases"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=500)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--small", type=int, default=40, help="number of files for the comparison")
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.way:
        run_way(options.way, options.folder)
        return
    for files, ways in ((options.small, tuple(WAYS)), (options.files, ("sgpu",))):
        with tempfile.TemporaryDirectory() as name:
            size = generate(Path(name), files, options.cases)
            print(f"{files} files x {options.cases} cases, {size / 1e6:.0f} MB")
            for way in ways:
                print("  " + measure(way, Path(name)), flush=True)


if __name__ == "__main__":
    main()
