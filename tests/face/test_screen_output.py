"""What a run shows: plain lines where there is no terminal, a live screen where there is one, the last table."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import termios

import pytest

LINE = re.compile(
    r"\[\d\d:\d\d:\d\d\] +(?P<done>\d+)/(?P<total>\d+) (?P<device>gpu\d+) t\+(?P<start>\d+)s (?P<seconds>[\d.]+)s "
    r"rc=(?P<code>\d+|-) est=(?P<estimate>\S+) (?P<rest>.*)"
)


@pytest.fixture
def mixed(repo):
    repo.suite("s", {"good": "cases 2", "bad": "echo first line; echo last words; cases 1 2; exit 7", "none": "exit 0"})
    repo.weights("s/good 4.0\ns/bad 3.0\n")
    return repo


def item_lines(text: str) -> dict[str, re.Match[str]]:
    found = [LINE.fullmatch(line) for line in text.splitlines()]
    return {re.search(r"s/\w+", hit["rest"])[0]: hit for hit in found if hit}  # type: ignore[index]


class TestPlainLines:
    def test_one_for_each_item(self, mixed):
        done = mixed.run()
        lines = item_lines(done.out)
        assert lines.keys() == {"s/good", "s/bad", "s/none"}
        assert lines["s/bad"]["code"] == "7"
        assert lines["s/bad"]["estimate"].startswith("3.0")
        assert lines["s/none"]["estimate"].startswith(("?", "~"))
        assert sorted(hit["done"] for hit in lines.values()) == ["1", "2", "3"]
        assert "FAILED" in lines["s/bad"]["rest"]
        assert "NO TESTS" in lines["s/none"]["rest"]
        assert lines["s/good"]["rest"] == "s/good"

    def test_what_is_said_of_a_failed_item(self, mixed):
        out = mixed.run().out
        block = out.split("FAILURES")[1].split("= sgpu =")[0]
        for words in (
            "mod::test_bad_1 - sum is off by 1",
            "mod::test_bad_2",
            "  | last words",
            "log: test-results/logs/items/s.bad.log",
            "suite.conf::s::bad",
        ):
            assert words in block, words
        again = [line for line in block.splitlines() if "again: " in line]
        assert len(again) == 2
        assert all("TEST_LEVEL=1" in line and "--sgpu-conf=suite.conf" in line for line in again)

    def test_the_table_at_the_end(self, mixed):
        end = mixed.run().out.split("= sgpu =")[1]
        row = next(line.split() for line in end.splitlines() if line.startswith("s "))
        assert row[:4] == ["s", "3", "1", "1"]
        assert "bound" in end
        assert "gpu0" in end
        for path in ("test-results/logs/report/schedule.md", "ci-weights/test_weights.cpu.l1.txt"):
            assert path in end

    @pytest.mark.parametrize(
        ("words", "lines", "table"),
        [
            (("-q",), {"s/bad", "s/none"}, True),
            (("-qq",), set(), False),
            (("-v",), {"s/good", "s/bad", "s/none"}, True),
        ],
    )
    def test_verbosity(self, mixed, words, lines, table):
        done = mixed.run(*words)
        assert done.code == 1
        assert item_lines(done.out).keys() == lines
        assert ("= sgpu =" in done.out) == table
        assert done.out.count(" start est=") == (3 if words == ("-v",) else 0)

    def test_the_short_summary(self, mixed):
        done = mixed.run("-rA")
        summary = done.out.split("short test summary info")[1]
        assert "PASSED suite.conf::s::good" in summary
        assert "FAILED suite.conf::s::bad - exit code 7, 2 tests of 3 failed" in summary
        assert "FAILED suite.conf::s::none" in summary
        assert re.search(r"2 failed, 1 passed in", summary)

    def test_no_line_is_wider_than_80_but_names(self, mixed):
        out = mixed.run().out
        long = [line for line in out.splitlines() if len(line) > 80]
        assert all(
            re.search(r"again: |log: |rootdir|^FAILED |weights|^\[|plugins|ran nothing", line) for line in long
        ), long


class TestColour:
    def test_none_without_a_terminal(self, mixed):
        assert "\x1b" not in mixed.run().out

    def test_when_asked_for(self, mixed):
        assert "\x1b[" in mixed.run("--color=yes").out

    @pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
    def test_not_in_the_way_of_a_no(self, mixed, env):
        assert "\x1b" not in mixed.run(env=env).out


class TestTerminal:
    def on_terminal(self, repo, *words, columns=80, rows=24, **env):
        """Run with a terminal as standard output. Gives the exit code and everything that was drawn."""
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        process = repo.start(*repo.words(*words), env={"TERM": "xterm-256color", **env}, stdout=slave, stderr=slave)
        os.close(slave)
        drawn = b""
        while True:
            try:
                piece = os.read(master, 65536)
            except OSError:
                break
            if not piece:
                break
            drawn += piece
        os.close(master)
        return repo.end(process).code, drawn.decode("utf-8", "replace")

    def test_it_is_live(self, repo):
        repo.suite("s", {"a": "sleep 1; cases 1", "b": "cases 0 1; exit 1"})
        repo.weights("s/a 2.0\ns/b 1.0\n")
        code, drawn = self.on_terminal(repo)
        assert code == 1
        plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", drawn)
        assert "s/a" in plain
        assert re.search(r"1/2", plain)
        assert "\x1b[" in drawn
        assert drawn.count("\x1b[?25l") == drawn.count("\x1b[?25h"), "the cursor was hidden for good"

    def test_without_colour(self, repo):
        repo.suite("s", {"a": "cases 1", "b": "cases 0 1; exit 1"})
        code, drawn = self.on_terminal(repo, NO_COLOR="1")
        assert code == 1
        assert not re.search(r"\x1b\[[0-9;]*3[0-7]m", drawn)

    def test_color_no(self, repo):
        repo.suite("s", {"a": "cases 1", "b": "cases 0 1; exit 1"})
        code, drawn = self.on_terminal(repo, "--color=no")
        assert code == 1
        assert not re.search(r"\x1b\[[0-9;]*3[0-7]m", drawn)

    def test_a_terminal_that_cannot_move(self, repo):
        repo.suite("s", {"a": "cases 1"})
        code, drawn = self.on_terminal(repo, TERM="dumb")
        assert code == 0
        assert "\x1b" not in drawn
        assert "rc=0" in drawn

    def test_a_narrow_one(self, repo):
        repo.suite("s", {"a_rather_long_tag.of_a_backend.and_a_label_of_many_words": "sleep 0.5; cases 1"})
        code, _ = self.on_terminal(repo, columns=20, rows=3)
        assert code == 0


class TestAnnotations:
    def test_only_under_the_service(self, mixed):
        assert "::error" not in mixed.run().out
        lines = [line for line in mixed.run(env={"GITHUB_ACTIONS": "true"}).out.splitlines() if line.startswith("::")]
        assert len(lines) == 2
        assert lines[0].startswith("::error title=s/bad")
        assert "mod::test_bad_1" in lines[0]
        assert "again: " in lines[0]

    def test_a_green_run_has_none(self, repo):
        repo.suite("s", {"a": "cases 1"})
        assert "::" not in repo.run(env={"GITHUB_ACTIONS": "true"}).out.replace("suite.conf::", "")

    def test_the_summary_is_appended(self, mixed):
        summary = mixed.file("summary.md", "# of an earlier step\n")
        assert mixed.run(env={"GITHUB_STEP_SUMMARY": str(summary)}).code == 1
        text = summary.read_text()
        assert text.startswith("# of an earlier step\n")
        assert "s/bad" in text
        assert "## Failed items (2)" in text
