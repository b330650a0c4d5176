from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import termios
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sgpu.model import UNKNOWN, Estimate, Key
from pytest_sgpu.report import progress
from pytest_sgpu.report.pieces import Line, plain
from pytest_sgpu.report.progress import Lane, ScreenState, eta
from pytest_sgpu.report.screen import Plain, Screen, open_display

SECONDS = st.floats(0, 1e6)
TERMINAL = {"TERM": "xterm-256color"}


def known(seconds: float) -> Estimate:
    return Estimate(seconds, known=True)


def lane(number: int, since: float = 0.0, estimate: Estimate = UNKNOWN) -> Lane:
    return Lane(f"gpu{number}", Key("torch", f"test_numerics.ck.{number}"), since, estimate)


def state(*lanes: Lane, **more) -> ScreenState:
    values = {"done": 3, "total": 10, "failed": 0, "now": 100.0}
    return ScreenState(lanes=lanes, **{**values, **more})


def rows(one: ScreenState, width: int = 100, height: int = 20) -> list[str]:
    return [plain(row) for row in progress.lines(one, width, height, ascii_only=True)]


class Emulator:
    """As much of a terminal as the display uses; any other order fails the test."""

    def __init__(self, width: int) -> None:
        self.width, self.lines, self.row, self.column, self.cursor = width, [""], 0, 0, True

    def feed(self, text: str) -> list[str]:
        for order, word in re.findall(r"(\x1b\[[?0-9;]*[A-Za-z]|[\r\n])|([^\x1b\r\n]+)", text):
            if word:
                self._write(word)
            elif order == "\r":
                self.column = 0
            elif order == "\n":
                self.row, self.column = self.row + 1, 0
                self.lines += [""] * (self.row >= len(self.lines))
            elif order == "\x1b[2K":
                self.lines[self.row] = ""
            elif order in ("\x1b[?25l", "\x1b[?25h"):
                self.cursor = order.endswith("h")
            elif order.endswith("A"):
                self.row = max(0, self.row - int(order[2:-1] or 1))
            else:
                assert order.endswith("m"), f"an order that nobody knows: {order!r}"
        assert "\x1b" not in re.sub(r"\x1b\[[?0-9;]*[A-Za-z]", "", text)
        return [one.rstrip() for one in self.lines if one.strip()]

    def _write(self, word: str) -> None:
        before = self.lines[self.row].ljust(self.column)
        self.lines[self.row] = before[: self.column] + word + before[self.column + len(word) :]
        self.column += len(word)


class TestEta:
    def test_waiting_work_is_spread_over_the_devices(self):
        assert eta(state(lane(0, 90, known(20)), Lane("gpu1"), remaining_known=90)) == 50

    def test_it_is_never_less_than_the_longest_running_item(self):
        assert eta(state(lane(0, 90, known(110)), Lane("gpu1"), Lane("gpu2"))) == 100

    def test_an_item_over_its_estimate_has_nothing_left(self):
        assert eta(state(lane(0, 0, known(20)), remaining_known=30)) == 30

    def test_a_guess_counts_and_nothing_known_gives_nothing(self):
        assert eta(state(lane(0, 90, Estimate(30, known=False)))) == 20
        assert eta(state(lane(0))) is None
        assert eta(state()) is None

    def test_the_end(self):
        assert eta(state(lane(0), done=10)) == 0

    @given(st.lists(st.tuples(SECONDS, SECONDS), min_size=1, max_size=8), SECONDS, SECONDS)
    def test_bounds(self, running, waiting, now):
        one = state(
            *(lane(n, since, known(s)) for n, (since, s) in enumerate(running)), now=now, remaining_known=waiting
        )
        left = eta(one)
        assert left is not None
        assert 0 <= left <= waiting + sum(s for _, s in running) + 1e-6
        assert left >= waiting / len(running) * (1 - 1e-9)


class TestLines:
    def test_each_device_against_its_estimate(self):
        lanes = (lane(0, 50, known(100)), lane(1, 10, known(50)), lane(2, 98), Lane("gpu3"))
        guessed = lane(4, 40, Estimate(80, known=False))
        one = state(*lanes, guessed, remaining_known=200, unknown_left=2, failed=1)
        assert rows(one, 80) == [
            "gpu0 torch/test_numerics.ck.0                ######------   50.0s / 100s     50%",
            "gpu1 torch/test_numerics.ck.1                ############   90.0s / 50.0s   OVER",
            "gpu2 torch/test_numerics.ck.2                ------------    2.0s / ?           ",
            "gpu3 -",
            "gpu4 torch/test_numerics.ck.4                #########---   60.0s / ~80.0s   75%",
            "3/10 done, 1 failed, ETA 54.0s + 2 unknown items, 1m40s so far",
        ]
        assert rows(one, 50)[0] == "gpu0 torch/test...rics.ck.0   50.0s / 100s     50%"

    def test_more_devices_than_rows(self):
        one = state(*(lane(n) for n in range(6)), *(Lane(f"gpu{n}") for n in range(6, 100)))
        made = rows(one, 80, 6)
        assert len(made) == 6
        assert made[4] == "... and 96 more, 2 of them busy"
        assert len(rows(state(*(lane(n) for n in range(5))), 80, 6)) == 6

    @given(st.text(), st.text(), st.integers(1, 200), st.integers(1, 12), st.integers(0, 20), SECONDS, SECONDS)
    def test_it_fits_and_is_printable(  # noqa: PLR0917 - Hypothesis fills them in
        self, device, tag, width, height, lanes, now, expected
    ):
        one = Lane(device + "\x1b]0;x\x07", Key("s", tag + "\x9b2J\r\n"), 5.0, known(expected))
        made = rows(state(*[one] * lanes, now=now), width, height)
        assert len(made) <= max(2, height)
        assert all(len(row) <= width for row in made)
        assert not re.search(r"[\x00-\x1f\x7f-\x9f]", "".join(made).replace("\t", ""))

    def test_no_time_and_no_estimate_divide_by_nothing(self):
        assert " 100%" in rows(state(lane(0, 100, known(0))))[0]
        assert "0.0s" in rows(state(lane(0, 500, known(10))))[0]


class TestScreen:
    def make(self, **more) -> tuple[io.StringIO, Screen]:
        file = io.StringIO()
        return file, Screen(file, **{"width": 80, "height": 24, "color": False, **more})

    def test_lines_scroll_above_and_nothing_of_the_region_stays(self):
        file, screen = self.make()
        screen.start()
        for step in range(5):
            screen.update(state(lane(0, 50, known(100)), lane(1), now=100.0 + step, done=step))
            screen.print(f"line {step}")
        middle = Emulator(80).feed(file.getvalue())
        assert middle[:5] == [f"line {step}" for step in range(5)]
        assert middle[5].startswith("gpu0 torch/test_numerics.ck.0")
        assert middle[7].startswith("4/10 done")
        screen.stop()
        screen.stop()
        emulator = Emulator(80)
        assert emulator.feed(file.getvalue()) == [f"line {step}" for step in range(5)]
        assert emulator.cursor

    def test_it_draws_no_faster_than_is_seen_but_always_the_end(self):
        file, screen = self.make()
        screen.start()
        for step in range(1000):
            screen.update(state(lane(0), now=100 + step / 10_000))
        assert file.getvalue().count("3/10 done") == 1
        screen.update(state(Lane("gpu0"), now=100.1001, done=10))
        assert "10/10 done" in file.getvalue()

    def test_markup_is_text(self):
        file, screen = self.make()
        screen.start()
        screen.print("[red]x[/red] :boom: \x1b[31m [/nope]", "fail")
        hostile = Lane("[bold]g", Key("s", "[red]t[/x]\x1b[2J:boom:"), 1.0)
        screen.update(state(hostile))
        assert "[red]x[/red] :boom: \\x1b[31m [/nope]" in Emulator(80).feed(file.getvalue())
        assert "s/[red]t[/x]\\x1b[2J:boom:" in file.getvalue()

    def test_long_lines_are_whole(self):
        file, screen = self.make()
        screen.start()
        key = "k" * 300
        screen.print(((key, "fail"), (" tail", "dim")))
        screen.stop()
        assert key + " tail" in file.getvalue()

    def test_colours(self):
        line: Line = (("good", "pass"), ("bad", "fail"), ("odd", "no such style"))
        file, screen = self.make(color=True)
        screen.print(line)
        assert "\x1b[32mgood\x1b[0m\x1b[1;31mbad\x1b[0m" in file.getvalue()
        file, screen = self.make(color=False)
        screen.print(line)
        assert not re.search(r"\x1b\[[0-9;]*3[0-9]", file.getvalue())

    def test_no_color_is_heard(self, monkeypatch):
        monkeypatch.setenv("NO_COLOR", "1")
        file, screen = self.make(color=None)
        screen.print("bad", "fail")
        assert "31m" not in file.getvalue()

    def test_an_update_before_the_start_and_after_the_end_is_harmless(self):
        file, screen = self.make()
        screen.update(state(lane(0)))
        screen.start()
        screen.stop()
        screen.update(state(lane(0), now=500))
        assert "gpu0" not in file.getvalue()


class TestPlain:
    def test_lines_only(self):
        file = io.StringIO()
        shown = open_display(file, environ=TERMINAL)
        assert isinstance(shown, Plain)
        shown.start()
        shown.update(state(lane(0)))
        shown.print((("a", "pass"), ("b", "")))
        shown.print("c\x1b[2J", "fail")
        shown.stop()
        assert file.getvalue() == "ab\nc\\x1b[2J\n"

    def test_colours_on_request(self):
        file = io.StringIO()
        open_display(file, environ={}, color=True).print((("a", "pass"), ("b", "")))
        assert file.getvalue() == "\x1b[32ma\x1b[0mb\n"

    def test_an_encoding_that_holds_little(self):
        raw = io.BytesIO()
        file = io.TextIOWrapper(raw, encoding="ascii")
        Plain(file).print("Grüße")
        file.flush()
        assert raw.getvalue() == b"Gr\\xfc\\xdfe\n"

    def test_bars_are_ascii_where_the_encoding_asks_for_it(self):
        raw = io.BytesIO()
        file = io.TextIOWrapper(raw, encoding="ascii")
        screen = Screen(file, width=80, height=24, color=False)
        screen.start()
        screen.update(state(lane(0, 50, known(100))))
        screen.stop()
        assert b"######------" in raw.getvalue()

    def test_a_closed_file_is_no_terminal(self):
        file = io.StringIO()
        file.close()
        assert isinstance(open_display(file, environ=TERMINAL), Plain)


@pytest.fixture
def terminal():
    """A real terminal of 24 rows and 70 columns: what it reads, and a text file that writes to it."""
    reader, writer = pty.openpty()
    fcntl.ioctl(writer, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 70, 0, 0))
    os.set_blocking(reader, False)
    with os.fdopen(writer, "w", encoding="utf-8") as file:
        yield reader, file
    os.close(reader)


def read(reader: int, until: str = "\x04") -> str:
    """Read what the terminal has; with `until`, at most two seconds until that came."""
    got, end = b"", time.monotonic() + (2 if until != "\x04" else 0)
    while True:
        try:
            got += os.read(reader, 1 << 16)
        except BlockingIOError:  # noqa: PERF203 - there is nothing to read yet
            if until.encode() in got or time.monotonic() >= end:
                return got.decode()


class TestTerminal:
    def test_the_display_lives_and_follows_the_size(self, terminal):
        reader, file = terminal
        shown = open_display(file, environ=TERMINAL)
        assert isinstance(shown, Screen)
        shown.start()
        shown.update(state(*(lane(n, 50, known(100)) for n in range(40))))
        shown.print("a line", "pass")
        text = read(reader, "so far")
        made = Emulator(70).feed(text)
        assert made[0] == "a line"
        assert made[-2] == "... and 30 more, 30 of them busy"
        assert len(made) == 1 + 12
        assert max(map(len, made)) < 70
        assert "\N{BOX DRAWINGS HEAVY HORIZONTAL}" in text
        fcntl.ioctl(file.fileno(), termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
        shown.update(state(lane(0, 50, known(100)), now=200))
        shown.stop()
        last = re.split(r"(?:\x1b\[1A|\x1b\[2K|\r)+", read(reader, "\x1b[?25h"))
        assert (
            max(len(re.sub(r"\x1b\[[?0-9;]*[A-Za-z]", "", row).strip("\n")) for row in "\n".join(last).split("\n")) < 40
        )

    @pytest.mark.parametrize(
        ("environ", "more"),
        [({"TERM": "dumb"}, {}), ({}, {}), (TERMINAL, {"live": False})],
    )
    def test_no_live_display_where_the_cursor_cannot_move_or_nobody_wants_it(self, terminal, environ, more):
        shown = open_display(terminal[1], environ=environ, **more)
        assert isinstance(shown, Plain)

    def test_no_color_leaves_the_display_and_takes_the_colours(self, terminal):
        reader, file = terminal
        shown = open_display(file, environ={**TERMINAL, "NO_COLOR": "1"})
        assert isinstance(shown, Screen)
        shown.start()
        shown.print("bad", "fail")
        shown.update(state(lane(0)))
        shown.stop()
        assert not re.search(r"\x1b\[[0-9;]*3[0-9]m", read(reader, "\x1b[?25h"))

    def test_the_users_word_counts_more_than_no_color(self, terminal):
        reader, file = terminal
        open_display(file, environ={**TERMINAL, "NO_COLOR": "1"}, color=True).print("bad", "fail")
        assert "\x1b[1;31mbad" in read(reader, "bad")
