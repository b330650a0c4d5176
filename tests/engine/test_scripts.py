from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from pathlib import Path

import pytest

from pytest_sgpu.engine import processes, scripts
from pytest_sgpu.engine.processes import Command, side_by_side
from pytest_sgpu.errors import ConfError, ListingError, SgpuError
from pytest_sgpu.model import Mode, Suite

PATH = "/usr/local/bin:/usr/bin:/bin"


@pytest.fixture
def root(tmp_path):
    return tmp_path


def write(path, text, mode=0o755):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    path.chmod(mode)
    return path


def suite(*command, label="s", mode=Mode.LIST, line=1):
    return Suite(label, f"{label}.log", mode, command, "suite.conf", line)


def list_all(root, *suites, env=None, **options):
    return scripts.list_all(suites, root, {"PATH": PATH} | (env or {}), **options)


def gone(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def wait_for(check, limit=10.0):
    end = time.monotonic() + limit
    while not check():
        assert time.monotonic() < end
        time.sleep(0.01)


# -- resolve --------------------------------------------------------------------------------------


def resolve(root, *command, path=PATH):
    return scripts.resolve(suite(*command, line=7), root, {"PATH": path})


def test_a_command_with_a_slash_is_relative_to_the_root(root):
    script = write(root / "ci/a.sh", "#!/bin/sh\n")
    assert resolve(root, "ci/a.sh", "x y") == (str(script), "x y")
    assert resolve(root, "./ci/a.sh") == (str(script),)
    assert resolve(root, str(script)) == (str(script),)


def test_a_program_in_the_root_comes_before_path(root):
    other = write(root / "bin/tool", "#!/bin/sh\n")
    assert resolve(root, "tool", path=str(root / "bin")) == (str(other),)
    assert resolve(root, "tool", path="bin") == (str(other),)
    here = write(root / "tool", "#!/bin/sh\n", mode=0o644)
    assert resolve(root, "tool", path=f"/nowhere:{root / 'bin'}") == (str(other),)
    here.chmod(0o755)
    assert resolve(root, "tool", path=str(root / "bin")) == (str(here),)
    assert resolve(root, "sh")[0].endswith("/sh")


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("./none.sh", "not found"),
        ("ci/a.sh/b", "not found"),
        ("none", "neither beside the tests nor on PATH"),
        ("ci", "is a directory"),
        ("./ci", "is a directory"),
        ("./plain.txt", "not executable"),
        ("plain.txt", "not executable"),
        ("./a\0b", "not found"),
    ],
)
def test_a_command_that_cannot_be_run(root, command, reason):
    write(root / "ci/a.sh", "#!/bin/sh\n")
    write(root / "plain.txt", "", mode=0o644)
    with pytest.raises(ConfError, match=r"suite\.conf:7") as caught:
        resolve(root, command)
    assert reason in caught.value.message


def test_a_script_without_a_first_line_runs_as_a_shell_would_run_it(root):
    script = write(root / "a.sh", 'echo "TE_CI_ITEM $1"\n')
    assert resolve(root, "./a.sh", "t") == ("/bin/sh", str(script), "t")
    assert resolve(root, str(write(root / "empty", ""))) == ("/bin/sh", str(root / "empty"))
    assert list_all(root, suite("./a.sh", "t"))["s"].runnable == (("t", 1),)


def test_a_binary_is_left_to_the_kernel(root, monkeypatch):
    binary = write(root / "a.out", b"\x7fELF\0\0")
    assert resolve(root, "./a.out") == (str(binary),)
    with pytest.raises(ListingError, match="cannot be started: Exec format error"):
        list_all(root, suite("./a.out"))


def test_a_script_that_may_not_be_read(root, monkeypatch):
    script = write(root / "a.sh", "echo\n", mode=0o111)

    def refuse(self, mode):
        raise PermissionError

    monkeypatch.setattr(type(script), "open", refuse)
    assert resolve(root, "./a.sh") == (str(script),)


# -- list_all -------------------------------------------------------------------------------------

NOTE = 'echo "$0 ${TE_CI_SKIP_CHECK_SUPPORTED-no}" >>"$(dirname "$0")/starts"\n'
LIST = (
    "#!/bin/sh\n" + NOTE + '[ "$TE_CI_LIST_ITEMS" = 1 ] || exit 9\n'
    "cat\necho noise; echo TE_CI_ITEM lost >&2\necho TE_CI_ITEM a\necho TE_CI_ITEM b 2\n"
    '[ -z "$TE_CI_SKIP_CHECK_SUPPORTED" ] || echo TE_CI_ITEM c\n'
)


def test_every_list_suite_is_asked_twice_and_never_more(root):
    write(root / "one.sh", LIST)
    write(root / "two.sh", LIST)
    found = list_all(
        root,
        suite("./two.sh", label="two"),
        suite("./one.sh", label="whole", mode=Mode.OPAQUE),
        suite("./one.sh", label="one"),
        env={"TEST_FILTER": "nothing"},
    )
    assert list(found) == ["two", "one"]
    assert found["one"].runnable == (("a", 1), ("b", 2))
    assert found["one"].known == (("a", 1), ("b", 2), ("c", 1))
    starts = sorted((root / "starts").read_text().splitlines())
    assert [line.rpartition("/")[2] for line in starts] == ["one.sh 1", "one.sh no", "two.sh 1", "two.sh no"]


def test_no_suite(root):
    assert list_all(root) == {}


def test_a_listing_runs_in_the_root_in_a_session_of_its_own(root):
    write(root / "ci/a.sh", "#!/bin/sh\npwd >&2\nexit 3\n")
    with pytest.raises(ListingError) as caught:
        list_all(root, suite("ci/a.sh"))
    assert caught.value.message.endswith(f"\n  | {root.resolve()}")
    write(root / "ci/a.sh", '#!/bin/sh\nread -r a b c d e f rest </proc/$$/stat\necho "TE_CI_ITEM $f.$$"\n')
    tag = list_all(root, suite("ci/a.sh"))["s"].runnable[0][0]
    assert len(set(tag.split("."))) == 1


def test_a_listing_that_fails_shows_its_last_lines(root):
    lines = "i=0; while [ $i -lt 30 ]; do echo line $i.; i=$((i + 1)); done; printf '\\033[31m::error::x\\377\\n' >&2"
    write(root / "bad.sh", f"#!/bin/sh\n{NOTE}{lines}\nexit 3\n")
    write(root / "good.sh", LIST)
    with pytest.raises(ListingError) as caught:
        list_all(root, suite("./bad.sh", "a b", label="bad", line=4), suite("./good.sh", label="good"))
    message = caught.value.message
    assert message.startswith("suite.conf:4: suite bad: ./bad.sh a b did not list its items: exit code 3\n")
    assert "  | line 10.\n" in message
    assert "  | line 29.\n" in message
    assert "line 9." not in message
    assert r"  | \x1b[31m::error::x\xff" in message
    assert "TE_CI_LIST_ITEMS=1" in caught.value.hint
    assert len((root / "starts").read_text().splitlines()) == 4


def test_every_suite_that_fails_is_named_in_order(root):
    write(root / "slow.sh", "#!/bin/sh\nsleep 0.2; exit 4\n")
    write(root / "fast.sh", "#!/bin/sh\nkill -9 $$\n")
    with pytest.raises(ListingError) as caught:
        list_all(root, suite("./slow.sh", label="slow"), suite("./fast.sh", label="fast"), parallel=8)
    slow, fast = caught.value.message.splitlines()
    assert slow.endswith("suite slow: ./slow.sh did not list its items: exit code 4")
    assert fast.endswith("suite fast: ./fast.sh did not list its items: killed by signal 9 (SIGKILL)")


def test_a_second_listing_that_fails_leaves_the_known_items_open(root):
    write(root / "a.sh", LIST + '[ -z "$TE_CI_SKIP_CHECK_SUPPORTED" ] || exit 5\n')
    found = list_all(root, suite("./a.sh"))["s"]
    assert (found.runnable, found.known) == ((("a", 1), ("b", 2)), None)
    assert found.problem == "exit code 5"


def test_a_listing_that_never_ends_is_killed_with_all_that_it_started(root):
    write(
        root / "a.sh", f"#!/bin/sh\necho $$ >>{root}/pids\nsleep 1000 & echo $! >>{root}/pids\necho asking...\nwait\n"
    )
    with pytest.raises(ListingError, match=r"no answer in 0\.5 s"):
        list_all(root, suite("./a.sh"), time_limit=0.5)
    pids = (root / "pids").read_text().split()
    assert len(pids) == 4
    wait_for(lambda: all(gone(pid) for pid in pids))


def test_what_a_listing_leaves_behind_is_killed(root):
    write(root / "a.sh", f"#!/bin/sh\nsleep 1000 & echo $! >>{root}/pids\necho TE_CI_ITEM a\n")
    start = time.monotonic()
    assert list_all(root, suite("./a.sh"))["s"].runnable == (("a", 1),)
    assert time.monotonic() - start < 60
    wait_for(lambda: all(gone(pid) for pid in (root / "pids").read_text().split()))


def test_an_interpreter_that_is_not_there(root):
    write(root / "a.sh", "#!/bin/sh\r\necho TE_CI_ITEM a\r\n")
    with pytest.raises(ListingError, match="cannot be started: not found, or the interpreter in its first line"):
        list_all(root, suite("./a.sh"))


def test_a_malformed_line_and_a_tag_that_is_no_text(root):
    write(root / "a.sh", "#!/bin/sh\necho TE_CI_ITEM alpha two\n")
    with pytest.raises(ListingError, match="malformed"):
        list_all(root, suite("./a.sh"))
    write(root / "a.sh", b"#!/bin/sh\nprintf 'TE_CI_ITEM a\\377\\n'\n")
    with pytest.raises(ListingError, match="no UTF-8"):
        list_all(root, suite("./a.sh"))


def test_noise_of_any_size_and_kind(root):
    program = f"""#!{sys.executable}
import sys
out = sys.stdout.buffer
out.write(b"x" * 65536 + b"TE_CI_ITEM not.at.the.start\\n")
out.write(b"\\xff\\x00" * 3_000_000)
out.write(b"\\nTE_CI_ITEM a\\n")
out.write(b"line of noise\\n" * 300_000)
out.write(b"TE_CI_ITEM b")
"""
    write(root / "a.py", program)
    assert list_all(root, suite("./a.py"))["s"].runnable == (("a", 1), ("b", 1))


def test_an_item_line_without_end(root):
    write(root / "a.sh", "#!/bin/sh\nprintf 'TE_CI_ITEM '\nhead -c 70000 /dev/zero | tr '\\0' a\n")
    with pytest.raises(ListingError, match="item line of more than 65536 bytes"):
        list_all(root, suite("./a.sh"))


def test_nothing_is_started_when_a_command_is_missing(root):
    write(root / "a.sh", LIST)
    with pytest.raises(ConfError, match=r"none\.sh"):
        list_all(root, suite("./a.sh", label="a"), suite("./none.sh", label="b"))
    assert not (root / "starts").exists()


# -- processes ------------------------------------------------------------------------------------


def test_at_most_so_many_at_once(root):
    script = write(
        root / "a.sh",
        '#!/bin/sh\ncd "$(dirname "$0")"\nmkdir "on.$$"\nls -d on.* | wc -l >>seen\nsleep 0.1\nrmdir "on.$$"\n',
    )
    commands = [Command((str(script),), {"PATH": PATH})] * 5
    ended = list(side_by_side(commands, time_limit=60, parallel=2))
    assert sorted(one.position for one in ended) == [0, 1, 2, 3, 4]
    assert max(map(int, (root / "seen").read_text().split())) <= 2


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_error_kills_everything(root, error):
    script = write(root / "a.sh", f'#!/bin/sh\necho $$ >>{root}/pids\n[ "$1" = quick ] || sleep 1000\n')
    commands = [Command((str(script), how), {"PATH": PATH}) for how in ("slow", "quick", "slow")]

    def stop_at_the_first():
        running = side_by_side(commands, time_limit=60, parallel=3)
        with contextlib.closing(running):
            for _ in running:
                wait_for(lambda: len((root / "pids").read_text().split()) == 3)
                raise error

    with pytest.raises(error):
        stop_at_the_first()
    assert all(gone(pid) for pid in (root / "pids").read_text().split())


def test_nothing_outlives_the_process_that_asked(root):
    write(root / "a.sh", f"#!/bin/sh\necho $$ >>{root}/pids\nexec sleep 1000\n")
    program = f"""
        from pytest_sgpu.engine import scripts
        from pytest_sgpu.model import Mode, Suite
        scripts.list_all([Suite("s", "s.log", Mode.LIST, ("./a.sh",), "c", 1)], {str(root)!r}, {{"PATH": "{PATH}"}})
    """
    asker = subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)])
    try:
        wait_for(lambda: (root / "pids").exists() and len((root / "pids").read_text().split()) == 2)
    finally:
        asker.send_signal(signal.SIGKILL)
        asker.wait()
    wait_for(lambda: all(gone(pid) for pid in (root / "pids").read_text().split()))


def test_it_works_beside_and_from_other_threads(root):
    write(root / "a.sh", LIST)
    found = []
    thread = threading.Thread(target=lambda: found.append(list_all(root, suite("./a.sh"))))
    thread.start()
    found.append(list_all(root, suite("./a.sh")))
    thread.join()
    assert found[0] == found[1]


def test_a_child_gets_its_signals_back(root):
    script = write(root / "a.sh", "#!/bin/sh\ngrep SigBlk /proc/self/status\n")
    (seen,) = [
        one.stdout.read() for one in side_by_side([Command((str(script),), {"PATH": PATH})], time_limit=60, parallel=1)
    ]
    assert int(seen.split()[1], 16) & (1 << (signal.SIGTERM - 1) | 1 << (signal.SIGINT - 1)) == 0


def test_somebody_ignores_the_ends_of_children(root, monkeypatch):
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        assert len(list(side_by_side([Command(("/bin/true",), {})], time_limit=60, parallel=1))) == 1
    finally:
        signal.signal(signal.SIGCHLD, before)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # nobody waits for it any more
def test_a_process_that_survives_its_kill_is_left_alone(root, monkeypatch):
    monkeypatch.setattr(processes, "_DEATH", 0.01)
    kill = os.killpg
    spared = []
    monkeypatch.setattr(os, "killpg", lambda pid, _: spared.append(pid))
    ended = list(side_by_side([Command(("/bin/sleep", "1000"), {})], time_limit=0.05, parallel=1))
    assert ended[0].timed_out
    assert len(spared) == 1
    kill(spared[0], signal.SIGKILL)
    os.waitpid(spared[0], 0)


def test_no_place_for_output(root, monkeypatch):
    def refuse():
        raise FileNotFoundError(2, "No usable temporary directory")

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    with pytest.raises(SgpuError, match="no temporary file can be made") as caught:
        list(side_by_side([Command(("/bin/true",), {})], time_limit=1, parallel=1))
    assert "TMPDIR" in caught.value.hint


def test_signals_without_a_name():
    assert processes._signal_name(9) == "SIGKILL"
    assert processes._signal_name(40) == "unnamed"


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_line_that_the_shell_cannot_run_is_a_complaint(root, shell):
    write(root / "s.sh", f"#!/usr/bin/env {shell}\nno_such_line 1 a\necho TE_CI_ITEM b\necho warning: noise >&2\n")
    listing = list_all(root, suite("./s.sh"))["s"]
    assert listing.runnable == (("b", 1),)
    assert "no_such_line" in listing.complaint
    assert listing.complaint.endswith("not found")


def test_noise_on_standard_error_is_no_complaint(root):
    write(root / "s.sh", "#!/bin/sh\necho TE_CI_ITEM b\necho torch was not found in the cache >&2\n")
    assert list_all(root, suite("./s.sh"))["s"].complaint == ""
