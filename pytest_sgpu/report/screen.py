"""The live display: a region at the bottom of the terminal that is drawn again, finished lines scroll above.

rich draws it, and is imported only when a display starts. Nothing of an item's text is markup or a
terminal order: lines come as printable pieces and go out as rich ``Text``. Where there is no terminal
that can move its cursor (a file, a pipe, ``TERM=dumb``), ``Plain`` has the same methods.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol, TextIO

from pytest_sgpu.core import text
from pytest_sgpu.report.pieces import Line, plain
from pytest_sgpu.report.progress import Lane, ScreenState, lines

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

__all__ = ["Display", "Lane", "Plain", "Screen", "ScreenState", "open_display"]

REFRESH = 0.1  # seconds between two drawings; events come faster
_RICH = {"pass": "green", "fail": "bold red", "warn": "yellow", "dim": "dim", "bold": "bold", "": ""}
_ANSI = {"pass": "32", "fail": "1;31", "warn": "33", "dim": "2", "bold": "1"}
_SHARE = 2  # the live region takes at most half of the terminal, so that finished lines are seen
_LEAST = 4


class Display(Protocol):
    """What shows a run while it goes on."""

    def start(self) -> None:
        """Begin to draw."""

    def update(self, state: ScreenState) -> None:
        """Show this state, soon."""

    def print(self, one: Line | str, style: str = "") -> None:
        """Write a line that stays."""

    def stop(self) -> None:
        """End the drawing and leave the terminal as it was. May be called twice."""


class Plain:
    """Lines and nothing else, one write and one flush each. ``color``: ANSI colours, off by default."""

    def __init__(self, file: TextIO, *, color: bool = False) -> None:
        self._file = file
        self._color = color

    def start(self) -> None:
        """Do nothing: there is no region to draw."""

    def update(self, state: ScreenState) -> None:
        """Do nothing: a log keeps lines, not states."""

    def print(self, one: Line | str, style: str = "") -> None:
        """Write one line. What the file's encoding cannot hold is written as an escape."""
        line = _as_line(one, style)
        words = "".join(self._paint(*piece) for piece in line) if self._color else plain(line)
        encoding = getattr(self._file, "encoding", None) or "utf-8"
        self._file.write(words.encode(encoding, "backslashreplace").decode(encoding) + "\n")
        self._file.flush()

    def stop(self) -> None:
        """Do nothing."""

    @staticmethod
    def _paint(words: str, style: str) -> str:
        return f"\x1b[{_ANSI[style]}m{words}\x1b[0m" if style in _ANSI else words


class Screen:
    """The live display on a terminal.

    ``width`` and ``height`` None: the terminal's own, asked again at each drawing, so it follows when
    the window changes. ``color`` None: as the terminal and NO_COLOR say; False: no bold and dim text either.
    """

    def __init__(
        self, file: TextIO, *, width: int | None = None, height: int | None = None, color: bool | None = None
    ) -> None:
        from rich.console import Console  # noqa: PLC0415 - 35 ms, only when a display starts

        self._file = file
        self._fixed = (width, height)
        self._drawn = float("-inf")
        self._state: ScreenState | None = None
        self._live: Live | None = None
        self._ascii_only = not _holds_lines(file)
        self._styles = _RICH if color is not False else {}
        self._console: Console = Console(
            file=file,
            force_terminal=True,
            no_color=None if color is None else not color,
            markup=False,
            emoji=False,
            highlight=False,
            legacy_windows=False,
        )

    def start(self) -> None:
        """Begin to draw; the cursor is hidden until ``stop``."""
        from rich.live import Live  # noqa: PLC0415 - see above
        from rich.text import Text  # noqa: PLC0415

        self._live = Live(
            Text(""),
            console=self._console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
            vertical_overflow="crop",
        )
        self._fit()
        self._live.start()

    def update(self, state: ScreenState) -> None:
        """Draw this state, at most every ``REFRESH`` seconds of the state's own clock; the last one is never lost."""
        self._state = state
        if state.now - self._drawn >= REFRESH or state.done >= state.total:
            self._draw(state)

    def print(self, one: Line | str, style: str = "") -> None:
        """Write a line above the live region."""
        self._fit()
        self._console.print(self._text(_as_line(one, style)), soft_wrap=True)

    def stop(self) -> None:
        """Take the live region away and show the cursor again."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _draw(self, state: ScreenState) -> None:
        if self._live is None:
            return
        self._fit()
        self._drawn = state.now
        width, height = self._console.size
        rows = lines(state, width - 1, max(_LEAST, height // _SHARE), ascii_only=self._ascii_only)
        joined = self._text(rows[0])
        for row in rows[1:]:
            joined.append("\n")
            joined.append_text(self._text(row))
        self._live.update(joined, refresh=True)

    def _fit(self) -> None:
        from rich.console import ConsoleDimensions  # noqa: PLC0415 - loaded by now

        width, height = self._fixed
        if width is None or height is None:
            own = _terminal_size(self._file)
            width, height = width or own[0], height or own[1]
        self._console.size = ConsoleDimensions(width, height)

    def _text(self, line: Line) -> Text:
        from rich.text import Text  # noqa: PLC0415 - loaded by now

        made = Text(no_wrap=True, overflow="ignore")
        for words, style in line:
            made.append(words, self._styles.get(style, ""))
        return made


def open_display(
    file: TextIO,
    *,
    environ: Mapping[str, str],
    width: int | None = None,
    height: int | None = None,
    color: bool | None = None,
    live: bool = True,
) -> Display:
    """Give the display for this file: live on a terminal that can move its cursor, plain elsewhere.

    ``color`` None: colours on a terminal, unless NO_COLOR is set and not empty; True and False are the
    user's own word (``--color``) and count more. ``live`` False: plain lines also on a terminal.
    """
    terminal = _is_terminal(file) and environ.get("TERM", "") not in ("", "dumb", "unknown")
    if color is None:
        color = terminal and not environ.get("NO_COLOR")
    if terminal and live:
        return Screen(file, width=width, height=height, color=color)
    return Plain(file, color=color)


def _as_line(one: Line | str, style: str) -> Line:
    return ((text.printable(one), style),) if isinstance(one, str) else one


def _is_terminal(file: TextIO) -> bool:
    try:
        return file.isatty()
    except ValueError:  # closed
        return False


def _terminal_size(file: TextIO) -> tuple[int, int]:
    try:
        size = os.get_terminal_size(file.fileno())
    except (OSError, ValueError, AttributeError):  # no descriptor, or no terminal behind it
        return 80, 24
    return (size.columns, size.lines) if size.columns and size.lines else (80, 24)


def _holds_lines(file: TextIO) -> bool:
    try:
        "\N{BOX DRAWINGS HEAVY HORIZONTAL}".encode(getattr(file, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
