"""``python tests/runners/fake``: serve the fake on a local port, for benchmarks."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

if __name__ == "__main__":
    folder = Path(__file__).resolve().parent
    sys.path.insert(0, str(folder.parent))
    sys.exit(importlib.import_module(f"{folder.name}.stand_in").main())
