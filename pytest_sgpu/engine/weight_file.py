"""The weight file: where it is, and how what was learned gets into it without a loss."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pytest_sgpu.core import tables, weights
from pytest_sgpu.engine.files import read_regular, replace, why
from pytest_sgpu.engine.lock import Lock
from pytest_sgpu.model import Notice, Scope, WeightTable

_LARGEST = 64 << 20  # bytes; a million keys
LOCK_SECONDS = 3.0  # another run holds it for milliseconds; longer means that something is broken
_ASIDE = 99  # names that are tried for a table that is set aside


@dataclass(frozen=True, slots=True)
class WeightPlace:
    """Where weights are read from, and where this run writes what it learned.

    The two differ when an explicit file is named after another architecture or level: seconds of one
    must not drift into the table of the other.
    """

    read: Path
    write: Path


def weight_place(option: Path, scope: Scope) -> tuple[WeightPlace, tuple[Notice, ...]]:
    """Turn ``--sgpu-weights=FILE|DIR`` into files. A path that does not exist is a file if it ends in .txt."""
    # os.path does not raise for what may not be looked at; reading will tell.
    if os.path.isdir(option) or (not os.path.exists(option) and option.suffix != ".txt"):  # noqa: PTH110, PTH112
        path = option / weights.file_name(scope)
        return WeightPlace(path, path), _others(path, scope)
    named = weights.parse_file_name(option.name)
    if named is None or named == scope:
        return WeightPlace(option, option), ()
    own = option.with_name(weights.file_name(scope))
    notice = Notice(
        f"this table is for {named.arch}, level {named.level}; the run is {scope.arch}, level {scope.level}: "
        f"it orders the plan, and what is learned goes to {own.name}",
        str(option),
    )
    return WeightPlace(option, own), (notice,)


def _others(path: Path, scope: Scope) -> tuple[Notice, ...]:
    try:
        names = os.listdir(path.parent)  # noqa: PTH208 - names are all that is asked for
    except OSError:
        return ()
    there = sorted(name for name in names if weights.parse_file_name(name))
    if path.name in there or not there:
        return ()
    text = f"no weight table for {scope.arch}, level {scope.level}; not used: {', '.join(there)}"
    return (Notice(text, str(path.parent)),)


def read_weights(path: Path, scope: Scope) -> tuple[WeightTable, tuple[Notice, ...], bool]:
    """Read a weight table. Never fails: a table that cannot be read is empty, with a notice.

    The last value is True when the table is of a newer version and must not be overwritten.
    """
    try:
        return _read(path, path, scope)
    except OSError as error:
        return WeightTable(scope), (Notice(f"the weight table cannot be read: {why(error)}", str(path)),), False


def _read(path: Path, name: Path, scope: Scope) -> tuple[WeightTable, tuple[Notice, ...], bool]:
    try:
        data = read_regular(path, most=_LARGEST)
    except FileNotFoundError:
        data = b""
    return tables.parse_weights(data, str(name), scope)


def update_weights(
    place: WeightPlace,
    scope: Scope,
    change: Callable[[WeightTable], WeightTable],
    *,
    patience: float = LOCK_SECONDS,
) -> tuple[WeightTable, tuple[Notice, ...]]:
    """Lock, read, change, replace: two runs that end together lose nothing. Gives the table as it is then.

    A file in which nothing changes stays as it is, byte for byte, and none is made for an empty table.
    ``patience``: seconds to wait for the lock; who died with it does not hold it any more, and what a lock
    file holds decides nothing. Never fails: what cannot be written is told in a notice, and the verdict of
    the run stands.
    """
    name = place.write
    path = Path(os.path.realpath(name))  # a link stays a link, and all who share the file share the lock
    if not os.path.lexists(path) and not change(WeightTable(scope)).entries:
        return WeightTable(scope), ()
    if path.exists() and not path.is_file() and not path.is_dir():  # replacing takes a device such as /dev/null away
        return WeightTable(scope), (Notice("no regular file, so nothing was learned", str(name)),)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = Lock(path.with_name(f".{path.name}.lock"))
        if lock.take(patience):
            try:
                return _update(path, name, scope, change)
            finally:
                lock.release()
        problem = f"the weight table stayed locked for {patience:g} s, nothing was learned"
    except OSError as error:
        problem = f"the weight table cannot be written, nothing was learned: {why(error)}"
    return WeightTable(scope), (Notice(problem, str(name)),)


def _update(
    path: Path, name: Path, scope: Scope, change: Callable[[WeightTable], WeightTable]
) -> tuple[WeightTable, tuple[Notice, ...]]:
    """Change a table under its lock. One that was not understood whole is set aside first, and never overwritten."""
    table, notices, newer = _read(path, name, scope)  # raises: what cannot be read is not replaced either
    changed = change(table)
    text = tables.format_weights(changed)
    if text == tables.format_weights(table):
        return changed, notices
    if notices:
        if not newer and not table.entries and weights.parse_file_name(path.name) is None:
            return table, (*notices, Notice("this is no weight table, so nothing was learned", str(name)))
        aside = _set_aside(path, "newer" if newer else "damaged")
        notices = (*notices, Notice(f"set aside as {aside}", str(name)))
    replace(path, text)
    return changed, notices


def _set_aside(path: Path, kind: str) -> str:
    """Keep a table under another name, which is nobody's yet; it stays where it is as well. Gives the name."""
    data = read_regular(path, most=_LARGEST)
    for number in range(1, _ASIDE + 1):
        aside = path.with_name(f"{path.name}.{kind}" + (f".{number}" if number > 1 else ""))
        with contextlib.suppress(FileExistsError):
            with aside.open("xb") as stream:
                try:
                    stream.write(data)
                    stream.flush()
                except OSError:
                    aside.unlink()
                    raise
            return aside.name
    raise OSError(errno.EEXIST, f"{_ASIDE} tables were set aside already; look at them and remove them", str(path))
