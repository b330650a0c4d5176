"""Files of the routing: what a command is given as text, ``-`` or ``@file``, and what comes with the package."""

from __future__ import annotations

import sys
from pathlib import Path

from pytest_sgpu.errors import OptionError, SgpuError
from pytest_sgpu.runners.lint import yaml_text
from pytest_sgpu.runners.text import one_line

FLEETS, MAPPING = "runner_routing.yaml", "arc.yaml"
LONGEST_CONFIG = 32 << 20  # bytes; a rollout text grows with its users
LONGEST_FILE = 4 << 20  # bytes of any other file, or of a matrix

_OWN = {FLEETS: Path("conf") / FLEETS, MAPPING: Path(".github") / MAPPING}
_FOLDER = "such as --workflows .github/workflows"
_TEXT = "give the text itself, or @FILE"
_HINT = "name a file; write what comes out of a pipe into one first"
_NOWHERE = "expected a file that can be read; a relative name is looked for in the working directory"


class NoTextError(OptionError):
    """A file is there, and no text that is read: it is too long, or not UTF-8."""


def need_yaml() -> None:
    """Raise SgpuError without ruamel.yaml, before a file is blamed for that."""
    try:
        yaml_text.parse("", "")
    except SgpuError:
        raise SgpuError("sgpu route needs ruamel.yaml, which is not installed", yaml_text.EXTRA) from None


def fleets(path: str) -> Path:
    """Give the fleets file: the one that is named, else that of the repository, else the one of this package.

    That of the repository is ``conf/runner_routing.yaml`` of the working directory.
    """
    return Path(path) if path else _own_or_default(FLEETS)


def mapping(path: str) -> Path:
    """Give the label mapping: the one that is named, else that of the repository, else the one of this package.

    That of the repository is ``.github/arc.yaml`` of the working directory.
    """
    return Path(path) if path else _own_or_default(MAPPING)


def default(name: str) -> Path:
    """Give the path of a built-in file: beside this module in a wheel, in ``conf/`` in a checkout."""
    beside = Path(__file__).with_name(name)
    return beside if beside.is_file() else Path(__file__).parents[3] / "conf" / name


def short(path: Path) -> str:
    """Name a file in messages: a built-in one without its folder, which is that of the installation."""
    return path.name if _is_built_in(path) else one_line(path)


def told(path: Path) -> str:
    """Say which file was used, and whether it is a built-in one."""
    return f"{short(path)} of this package" if _is_built_in(path) else short(path)


def read(path: Path, most: int = LONGEST_FILE) -> str:
    """Read a text file of at most ``most`` bytes. Raises OptionError; NoTextError when it is no such one."""
    shown = one_line(path)
    try:
        if not path.is_file():  # a pipe would be waited for
            there = path.exists()
            raise OptionError(f"{shown}: {'not a file' if there else 'no such file'}", _HINT if there else _NOWHERE)
        with path.open("rb") as stream:
            data = stream.read(most + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise OptionError(f"{shown}: cannot be read: {one_line(reason)}") from None
    return _decoded(data, shown, most)


def argument(text: str, most: int = LONGEST_FILE) -> tuple[str, str]:
    """Give a text and its name for messages, from an argument: itself, ``@FILE``, or ``-`` for standard input.

    Raises OptionError.
    """
    if text == "-":
        return _standard_input(most), "standard input"
    if text.strip() == "@":
        raise OptionError("MATRIX: a file name is missing behind the @", "such as @matrix.yml")
    if text.startswith("@"):
        return read(Path(text[1:]), most), one_line(text[1:])
    if len(text) > most:
        raise OptionError(f"the argument: more than {most} characters", "give it as @FILE")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise OptionError("the argument: not UTF-8", "write it in UTF-8") from None
    return text, "the argument"


def workflows(folder: str) -> tuple[Path, ...]:
    """Give the workflow files of a folder, in the order of their names. Raises OptionError: no folder, none in it."""
    root, shown = Path(folder), one_line(folder)
    try:
        found = sorted(path for path in root.iterdir() if path.suffix in {".yml", ".yaml"} and path.is_file())
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise OptionError(f"{shown}: no folder of workflows: {one_line(reason)}", _FOLDER) from None
    if not found:
        raise OptionError(f"{shown}: no *.yml in it", _FOLDER)
    return tuple(found)


def _own_or_default(name: str) -> Path:
    own = _OWN[name]
    try:
        # A link that leads nowhere was meant to be there: reading it says so.
        is_there = own.exists() or own.is_symlink() or (own.parent.is_symlink() and not own.parent.exists())
        return own if is_there else default(name)
    except OSError:  # a folder that nobody may look into: reading says so
        return own


def _is_built_in(path: Path) -> bool:
    return path in {default(FLEETS), default(MAPPING)}


def _standard_input(most: int) -> str:
    if sys.stdin is None:  # closed before this began
        raise OptionError("standard input: it is closed", _TEXT)
    stream = getattr(sys.stdin, "buffer", None)
    try:
        data = stream.read(most + 1) if stream else sys.stdin.read(most + 1).encode("utf-8", "surrogatepass")
    except (OSError, ValueError) as error:
        raise OptionError(f"standard input: cannot be read: {one_line(error)}", _TEXT) from None
    return _decoded(data, "standard input", most)


def _decoded(data: bytes, shown: str, most: int) -> str:
    if len(data) > most:
        raise NoTextError(f"{shown}: too long, expected at most {most} bytes", "look whether it is the file you mean")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise NoTextError(f"{shown}: not UTF-8 at byte {error.start}", "save it as UTF-8") from None
