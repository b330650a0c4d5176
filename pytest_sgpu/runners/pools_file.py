"""Find and read the pools file: the one that is named, else the one that comes with the package."""

from __future__ import annotations

from pathlib import Path

from pytest_sgpu.errors import ConfError
from pytest_sgpu.runners.pools import LONGEST_FILE, Pools, parse_pools
from pytest_sgpu.runners.text import one_line

NAME = "runner_pools.toml"
_HINT = "the input pools is the path of a pools file, or blank for the built-in one"


def load(path: str) -> Pools:
    """Read the pools file at ``path``, relative to the working directory; "" is the default one.

    Raises ConfError: it is not there, is no file, cannot be read, is too long, is not UTF-8, or is wrong inside.
    """
    file = Path(path.strip()) if path.strip() else default()
    return parse_pools(_text(file), one_line(file))


def default() -> Path:
    """Give the path of the built-in file: beside this module in a wheel, in ``conf/`` in a checkout."""
    beside = Path(__file__).with_name(NAME)
    return beside if beside.is_file() else Path(__file__).parents[2] / "conf" / NAME


def _text(file: Path) -> str:
    name = one_line(file)
    try:
        if not file.is_file():  # a pipe would be waited for
            raise ConfError(f"{name}: no such file" if not file.exists() else f"{name}: not a file", _HINT)
        with file.open("rb") as stream:
            data = stream.read(4 * LONGEST_FILE + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfError(f"{name}: cannot be read: {reason}", _HINT) from None
    if len(data) > 4 * LONGEST_FILE:
        raise ConfError(f"{name}: expected at most {LONGEST_FILE} characters")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfError(f"{name}: not UTF-8 at byte {error.start}", "save it as UTF-8") from None
