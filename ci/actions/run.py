"""What both actions start: ``python3 -I run.py acquire|guard|cleanup``, from a plain checkout, nothing installed."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

try:
    from pytest_sgpu.runners.command import main  # found through the line above
except KeyboardInterrupt:  # the job is cancelled before anything has begun
    sys.exit(130)

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
