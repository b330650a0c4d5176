"""A short soak: crashes, hangs, leaks and killed workers in one run, with the right end for each item."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SOAK = Path(__file__).parents[2] / "bench" / "soak.py"


@pytest.mark.slow
def test_a_short_one():
    done = subprocess.run(
        [sys.executable, str(SOAK), "--items=200"], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "soak: PASS" in done.stdout
