"""``sgpu ...``: what is not a test run.

Exit codes: 0 done; 4 wrong usage, or an error that the user can act on, as pytest has it; 130 interrupted;
``sgpu finalize`` gives the code of the run that it finishes, ``sgpu runner`` and ``sgpu route`` also 1 for a failure.
Each command is a function from its parsed arguments to an exit code; ``main`` is the one place that turns an expected
error into a line and a hint, but for those two, which are a slice of their own.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn

from pytest_sgpu import __version__
from pytest_sgpu.core.redact import Redactor
from pytest_sgpu.engine import output
from pytest_sgpu.errors import SgpuError
from pytest_sgpu.suite import starter

SUITE = Path(__file__).resolve().parent / "suite"
TEMPLATES = SUITE / "templates"

USAGE = 4
INTERRUPTED = 130

_CODES = "exit codes: 0 done, 4 wrong usage or an error that is told, 130 interrupted"
# Only for the list of commands: what follows the word is read there.
_SLICES = {
    "runner": "get a CI runner, with fallback to the next pool; plan and check that",
    "route": "decide which runner label a job asks for, and say why; translate and check labels",
}
_ABOUT = (
    "What stands beside the queue of GPU tests and is no test run itself. The queue is a plugin of "
    "pytest: pytest -p sgpu --sgpu-conf=FILE"
)
_FINALIZE = """\
Writes everything that a normal end of a run writes, from the journal in its run directory: verdicts,
JUnit files, learned weights, the report, the summary of a CI step (GITHUB_STEP_SUMMARY); and prints the
last screen. For a run that was killed before it could do that itself. Items that were running then are
LOST, items that had not begun are not run; a run with --sgpu-resume can still run both. Doing it again
gives the same files and teaches nothing twice. Refuses while the run goes on."""
_FINALIZE_CODES = """\
exit codes: 0 all passed, 1 failures, 2 interrupted or incomplete, 4 wrong usage, no run there, or a run
that goes on"""


class _Parser(argparse.ArgumentParser):
    """Ends with pytest's exit code for wrong usage, so that one number means the same everywhere."""

    def error(self, message: str) -> NoReturn:
        _complain(f"{self.format_usage()}{self.prog}: error: {message}\n  hint: {self.prog} --help\n")
        self.exit(USAGE)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and give its exit code; wrong usage ends in ``SystemExit(4)``."""
    words = sys.argv[1:] if argv is None else argv
    if words[:1] == ["runner"]:
        return _runner(words[1:])
    if words[:1] == ["route"]:
        return _route(words[1:])
    try:
        args = _parsed(argv)
        code: int = args.command(args)
        with _written():
            _flush()
    except SgpuError as error:
        _complain(f"sgpu: error: {error}\n")
        return USAGE
    except KeyboardInterrupt:
        return INTERRUPTED
    except SystemExit:  # of argparse, with all that it has to say
        with contextlib.suppress(SgpuError), _written():
            _flush()
        raise
    return code


def _runner(words: Sequence[str]) -> int:
    # A slice of its own, with a boundary of its own: it runs where the rest of the package is not installed.
    from pytest_sgpu.runners.command import main as run  # noqa: PLC0415

    return run(words)


def _route(words: Sequence[str]) -> int:
    from pytest_sgpu.runners.route.command import main as run  # noqa: PLC0415

    return run(words)


def _parsed(argv: Sequence[str] | None) -> argparse.Namespace:
    try:
        return _parser().parse_args(argv)
    except BrokenPipeError:  # before Python 3.11 argparse does not expect that who asked for help has left
        output.silence()
        raise SystemExit(0) from None


def _flush() -> None:
    if sys.stdout is not None:  # it was closed before this began
        sys.stdout.flush()


def _say(text: str) -> None:
    """Print a line. What a command does goes on when its reader has left."""
    with _written():
        print(text)


def _complain(text: str) -> None:
    """Write an error, without the secrets of the environment."""
    with contextlib.suppress(OSError):
        sys.stderr.write(Redactor(os.environ).text(text))
        sys.stderr.flush()


@contextlib.contextmanager
def _written() -> Iterator[None]:
    """Around what is printed: a reader that has left is no error. Raises SgpuError when output is not taken."""
    try:
        yield
    except OSError as error:
        output.silence()
        if not isinstance(error, BrokenPipeError):
            raise SgpuError(f"standard output cannot be written: {error.strerror}") from None


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="sgpu",
        description=_ABOUT,
        epilog=f"sgpu COMMAND --help says more. {_CODES}",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"sgpu {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    lib = commands.add_parser(
        "shell-lib",
        help="print the path of the library that suite scripts source",
        description='Prints the path of te_ci.sh, which a suite script sources: . "$(sgpu shell-lib)"',
        epilog=_CODES,
        allow_abbrev=False,
    )
    lib.set_defaults(command=_shell_lib)

    init = commands.add_parser(
        "init",
        help="write a starter suite, conf and workflow; replaces no file",
        description="Writes a suite script with its tests, a conf file that names it, and a CI workflow that runs it. "
        "A file that exists is left as it is, and said so.",
        epilog=_CODES,
        allow_abbrev=False,
    )
    init.add_argument("--dir", default="", metavar="DIR", help="the repository (default: the present folder)")
    init.set_defaults(command=_init)

    end = commands.add_parser(
        "finalize",
        help="write the results of a run that was killed, from its journal",
        description=_FINALIZE,
        epilog=_FINALIZE_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    end.add_argument("directory", metavar="DIR", type=Path, help="the run directory (--sgpu-log-dir of the run)")
    end.add_argument(
        "--weights",
        metavar="FILE|DIR",
        type=Path,
        help="weight table that learns, or the folder of tables (default: the table of the run)",
    )
    end.set_defaults(command=_finalize)
    for name, text in _SLICES.items():
        commands.add_parser(name, help=text)
    return parser


def _finalize(args: argparse.Namespace) -> int:
    # Heavy, and no other command needs it: every suite script asks for shell-lib each time that it starts.
    from pytest_sgpu.finalize import finalize, screen  # noqa: PLC0415
    from pytest_sgpu.report.annotations import lines as annotation_lines  # noqa: PLC0415
    from pytest_sgpu.report.screen import open_display  # noqa: PLC0415

    finished, code = finalize(args.directory, os.environ, args.weights)
    display = open_display(sys.stdout, environ=os.environ, live=False)
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 80
    with _written():
        for line in screen(finished, width):
            display.print(line)
    if os.environ.get("GITHUB_ACTIONS") == "true":
        for note in annotation_lines(finished.view):
            _say(note)
    return code


def _shell_lib(_: argparse.Namespace) -> int:
    _say(str(SUITE / "te_ci.sh"))
    return 0


def _init(args: argparse.Namespace) -> int:
    root = Path(args.dir)
    if not root.is_dir():
        raise SgpuError(f"{root}: no such folder", "make it first: sgpu init writes into an existing repository")
    existing = {file.target for file in starter.FILES if os.path.lexists(root / file.target)}
    for step in starter.steps(existing, _settings(root)):
        written = bool(step.template) and _write(root, step)
        _say(f"{'wrote' if written else 'kept':<6} {step.target}{'' if written else ': ' + (step.note or 'exists')}")
    _say("\n" + starter.next_steps(shlex.quote(args.dir) if args.dir else "").removesuffix("\n"))
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
