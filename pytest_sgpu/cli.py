"""``sgpu ...``: what is not a test run.

Exit codes: 0 done; 2 wrong usage, or an error that the user can act on; 130 interrupted. Each command is a
function from its parsed arguments to an exit code; ``main`` is the one place that turns an expected error
into a line and a hint.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from pytest_sgpu import __version__
from pytest_sgpu.errors import SgpuError
from pytest_sgpu.suite import starter

SUITE = Path(__file__).resolve().parent / "suite"
TEMPLATES = SUITE / "templates"

USAGE = 2
INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and give its exit code; wrong usage ends in ``SystemExit(2)``, as argparse does it."""
    args = _parser().parse_args(argv)
    try:
        code: int = args.command(args)
    except SgpuError as error:
        print(f"sgpu: error: {error}", file=sys.stderr)
        return USAGE
    except KeyboardInterrupt:
        return INTERRUPTED
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="sgpu", description="Beside the queue: what is not a test run.", allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"sgpu {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    lib = commands.add_parser("shell-lib", help="print the path of the library that suite scripts source")
    lib.set_defaults(command=_shell_lib)

    init = commands.add_parser("init", help="write a starter suite, conf and workflow; replaces no file")
    init.add_argument("--dir", default="", metavar="DIR", help="the repository (default: the present folder)")
    init.set_defaults(command=_init)
    return parser


def _shell_lib(_: argparse.Namespace) -> int:
    print(SUITE / "te_ci.sh")
    return 0


def _init(args: argparse.Namespace) -> int:
    root = Path(args.dir)
    if not root.is_dir():
        raise SgpuError(f"{root}: no such folder", "make it first: sgpu init writes into an existing repository")
    existing = {file.target for file in starter.FILES if os.path.lexists(root / file.target)}
    for step in starter.steps(existing, _settings(root)):
        written = bool(step.template) and _write(root, step)
        print(f"{'wrote' if written else 'kept':<6} {step.target}{'' if written else ': ' + (step.note or 'exists')}")
    print(f"\n{starter.next_steps(shlex.quote(args.dir) if args.dir else '')}", end="")
    return 0


def _settings(root: Path) -> dict[str, str]:
    texts = {}
    for name in starter.SETTINGS:
        if os.path.lexists(root / name):
            try:
                texts[name] = (root / name).read_text(encoding="utf-8", errors="replace")
            except OSError as error:
                raise SgpuError(f"cannot read {root / name}: {error.strerror}") from error
    return texts


def _write(root: Path, step: starter.Step) -> bool:
    """Write one file; False when another process was first. Exclusive, so that nothing is ever replaced."""
    path = root / step.target
    text = (TEMPLATES / step.template).read_bytes()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o777 if step.executable else 0o666)
        with os.fdopen(handle, "wb") as stream:
            stream.write(text)
    except FileExistsError as error:
        if path.parent.is_dir():
            return False
        raise SgpuError(f"cannot write {path}: {error.filename} is no folder", "move that file away") from error
    except OSError as error:
        hint = "make the folder writable, or name another one with --dir"
        raise SgpuError(f"cannot write {path}: {error.strerror}", hint) from error
    return True


if __name__ == "__main__":
    sys.exit(main())
