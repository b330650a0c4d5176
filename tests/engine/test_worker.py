"""One worker in a real gateway: how items start, end, are killed, and what they leave."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pytest_sgpu.engine.gateways import ItemEnded, ItemStarted
from pytest_sgpu.model import Leftover
from tests.engine.conftest import alive, until


def _others() -> list[str]:
    """Find interpreters of other versions, on PATH and beside the one that runs the tests."""
    names = [f"3.{minor}" for minor in range(8, 14) if minor != sys.version_info.minor]
    found = [path for name in names if (path := shutil.which(f"python{name}"))]
    found += [str(path) for name in names for path in Path(sys.base_prefix).parent.glob(f"{name}.*/bin/python{name}")]
    works = {Path(path).name: path for path in found if subprocess.call([path, "-c", ""], stderr=-3) == 0}
    return sorted(works.values())


DETACHED = "import os, sys, time; os.setsid(); open('pids', 'a').write(f'{os.getpid()}\\n'); time.sleep(60)"
DOUBLE_FORK = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open('pids', 'a').write(f'{os.getpid()}\\n')
        for fd in range(3):
            os.close(fd)
        time.sleep(60)
    os._exit(0)
os.wait()
while not os.path.exists('pids'):
    time.sleep(0.001)
"""
SPAWN = f"""
import os, subprocess, sys, time
subprocess.Popen([sys.executable, '-c', {DETACHED!r}])
while not os.path.exists('pids'):
    time.sleep(0.001)
"""
HALF = """
import ctypes, os, threading, time
threading.Thread(target=time.sleep, args=(60,)).start()
open('pids', 'w').write(f'{os.getpid()}\\n')
ctypes.CDLL(None).syscall({'x86_64': 60, 'aarch64': 93}[os.uname().machine], 0)  # exit, of this thread alone
"""
ORPHANS = """
import glob, os, pathlib, subprocess, time

def orphans():
    found = 0
    for path in glob.glob(f'/proc/{os.getppid()}/task/*/children'):
        for pid in pathlib.Path(path).read_text().split():
            try:
                found += pathlib.Path(f'/proc/{pid}/comm').read_text() == 'sleep\\n'  # also as a zombie
            except OSError:
                pass
    return found

def wait(count):
    until = time.monotonic() + 10
    while orphans() != count and time.monotonic() < until:
        time.sleep(0.01)
    return orphans()

subprocess.run(['sh', '-c', 'for n in $(seq 300); do sleep 60 & echo $!; done > pids'])
print(wait(300), end=', ', flush=True)
for pid in pathlib.Path('pids').read_text().split():
    os.kill(int(pid), 9)
print('then', wait(0))
"""
PTRACE_SEIZE = 0x4206
DEAF = "trap '' TERM; echo $$ >> pids; while :; do sleep 0.1; done"


@contextlib.contextmanager
def _traced(pid):
    """Trace a process from here, so that its end is first told here."""
    ptrace = ctypes.CDLL(None, use_errno=True).ptrace
    ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    if ptrace(PTRACE_SEIZE, pid, None, None) != 0:
        pytest.skip(f"processes may not be traced here: {os.strerror(ctypes.get_errno())}")
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0x40000000)  # __WALL


def test_a_no_op_item(fleet):
    ended, log = fleet.run("true")
    ending = ended.ending
    assert (ending.exit_code, ending.signal, ending.killed, ending.reason) == (0, None, "", "")
    assert (ending.ran, ending.partial, ended.ending.left, log) == (False, False, (), b"")
    assert 0 < ending.start <= ending.stop <= ended.at
    assert ending.seconds < 1


@pytest.mark.parametrize("code", [1, 5, 77, 127, 255])
def test_exit_codes(fleet, code):
    assert fleet.sh(f"exit {code}")[0].ending.exit_code == code


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL, signal.SIGTERM])
def test_death_by_signal(fleet, number):
    ending = fleet.sh(f"ulimit -c 0; kill -{int(number)} $$")[0].ending
    assert (ending.exit_code, ending.signal, ending.killed) == (None, number, "")


def test_output_is_appended_in_order_and_byte_for_byte(fleet):
    (fleet.folder / "1.log").write_bytes(b"before\n")
    _, log = fleet.sh(r"printf 'out\377\000\n'; printf 'err\033[31m\n' >&2; printf 'no end'")
    assert log == b"before\nout\xff\x00\nerr\x1b[31m\nno end"


def test_standard_input_is_empty_and_no_other_descriptor_is_open(fleet):
    _, log = fleet.sh("cat; ls /proc/self/fd; readlink /proc/self/fd/0")
    assert log.split() == [b"0", b"1", b"2", b"3", b"/dev/null"]  # 3 is the folder that ls reads


def test_environment_is_exact(make_fleet):
    fleet = make_fleet(env={"BASE": "1", "OVER": "old", "DROPPED": "x", "ODD": "\udcff=\n", "EMPTY": ""})
    fleet.start()
    _, log = fleet.run("/usr/bin/env", "-0", env={"OVER": "new", "DROPPED": None, "NONE": None})
    got = dict(entry.split(b"=", 1) for entry in log.rstrip(b"\0").split(b"\0"))
    cookie = got.pop(b"SGPU_COOKIE")
    assert cookie.endswith(b"-gpu0-0")
    mark = fleet.mark.encode()
    assert got == {b"BASE": b"1", b"OVER": b"new", b"ODD": b"\xff=\n", b"EMPTY": b"", b"SGPU_TEST_MARK": mark}


def test_the_cookie_of_an_outer_run_is_kept(make_fleet):
    fleet = make_fleet(env={"SGPU_COOKIE": "outer"})
    fleet.start()
    _, log = fleet.sh("echo $SGPU_COOKIE")
    outer, inner = log.strip().split(b":")
    assert outer == b"outer"
    assert inner.endswith(b"-gpu0-0")


def test_signals_are_as_in_a_fresh_shell(fleet):
    _, log = fleet.sh("grep -E 'Sig(Blk|Ign)' /proc/self/status")
    # 32 and 33 are the C library's own: its posix_spawn leaves them ignored, and no program can set them.
    own = 1 << 31 | 1 << 32
    assert [int(line.split()[1], 16) & ~own for line in log.splitlines()] == [0, 0]


def test_own_session(fleet):
    _, log = fleet.sh("cut -d' ' -f1,5,6 /proc/$$/stat")
    assert len(set(log.split())) == 1


def test_working_directory(fleet):
    below = fleet.folder / "a b"
    below.mkdir()
    script = below / "tool.sh"
    script.write_text("#!/bin/sh\npwd\n")
    script.chmod(0o755)
    assert fleet.run("./tool.sh", cwd=str(below))[1].decode().strip() == str(below)


@pytest.mark.parametrize(
    ("argv", "code", "why"),
    [
        (("no-such-command",), 127, "cannot run no-such-command: No such file or directory"),
        (("./missing",), 127, "No such file or directory"),
        (("./plain/under",), 127, "Not a directory"),
        (("./plain",), 126, "Permission denied"),
        (("./",), 126, "Permission denied"),
        (("./bad-interpreter",), 127, "the interpreter in its first line does not exist"),
        (("true", "a" * 300_000), 126, "Argument list too long"),
        (("true", "nul\0inside"), 126, "null byte"),
        ((), 126, "cannot run"),
    ],
)
def test_what_cannot_be_run_has_the_code_of_a_shell_and_a_reason(fleet, argv, code, why):
    (fleet.folder / "plain").write_text("")
    bad = fleet.folder / "bad-interpreter"
    bad.write_text("#!/no/such/interpreter\n")
    bad.chmod(0o755)
    ending = fleet.run(*argv)[0].ending
    assert (ending.exit_code, ending.signal) == (code, None)
    assert why in ending.reason
    assert fleet.run("true")[0].ending.exit_code == 0  # the worker lives


def test_missing_working_directory_and_log_are_reasons(fleet):
    ending = fleet.run("true", cwd="/no/such/folder")[0].ending
    assert (ending.exit_code, ending.reason) == (
        126,
        "the working directory /no/such/folder is missing or no directory",
    )
    ending = fleet.run("true", log="/no/such/folder/x.log")[0].ending
    assert (ending.exit_code, ending.reason) == (
        126,
        "cannot write the log /no/such/folder/x.log: No such file or directory",
    )
    assert fleet.run("true")[0].ending.exit_code == 0


def test_a_log_that_an_item_planted_is_not_followed(fleet):
    victim = fleet.folder / "victim"
    victim.write_text("mine")
    link, pipe = fleet.folder / "link.log", fleet.folder / "pipe.log"
    link.symlink_to(victim)
    os.mkfifo(pipe)
    for log in (link, pipe):
        assert fleet.sh("echo gotcha", log=str(log))[0].ending.exit_code == 126
    assert victim.read_text() == "mine"


def test_below_its_root_no_folder_of_a_log_is_followed(fleet):
    root, elsewhere = fleet.folder / "root", fleet.folder / "elsewhere"
    (root / "items" / "a").mkdir(parents=True)
    elsewhere.mkdir()
    (fleet.folder / "link").symlink_to(root)  # above the root a link is the caller's own business

    def run(log, root=fleet.folder / "link"):
        return fleet.sh("echo hello", log=str(log), log_root=str(root))[0].ending

    assert run(fleet.folder / "link" / "items" / "a" / "x.log").exit_code == 0
    assert run(fleet.folder / "link" / "top.log", f"{fleet.folder}/link/").exit_code == 0
    assert (root / "items" / "a" / "x.log").read_text() == (root / "top.log").read_text() == "hello\n"
    (root / "items" / "a").rename(root / "gone")
    (root / "items" / "a").symlink_to(elsewhere)
    ending = run(fleet.folder / "link" / "items" / "a" / "y.log")
    where = f"{fleet.folder}/link/items/a/y.log"
    why = f"cannot write the log {where}: a: something else was put in the place of this folder"
    assert (ending.exit_code, ending.reason) == (126, why)
    (root / "items" / "file").write_text("")
    assert "in the place of this folder" in run(fleet.folder / "link" / "items" / "file" / "y.log").reason
    assert "none: No such file or directory" in run(fleet.folder / "link" / "none" / "y.log").reason
    (root / "y.log").symlink_to(elsewhere / "y.log")
    assert run(fleet.folder / "link" / "y.log").exit_code == 126
    for outside in (elsewhere / "y.log", fleet.folder / "link" / ".." / "y.log", fleet.folder / "linked", f"{root}/"):
        assert "it is not below" in run(outside).reason
    assert list(elsewhere.iterdir()) == []


def test_a_script_without_a_first_line_runs_as_a_shell_would_run_it(fleet):
    script = fleet.folder / "bare"
    script.write_text('echo "bare $0 $1"; exit 3\n')
    script.chmod(0o755)
    ended, log = fleet.run("./bare", "a b")
    assert (ended.ending.exit_code, log) == (3, b"bare ./bare a b\n")
    path = f"{fleet.folder}:{os.environ['PATH']}"
    ended, log = fleet.run("bare", "x", env={"PATH": path})
    assert (ended.ending.exit_code, log) == (3, f"bare {script} x\n".encode())


# ---------------------------------------------------------------- proof


@pytest.mark.parametrize(
    ("script", "ran"),
    [
        ("echo 'TE_CI_RAN a.b'", True),
        ("printf 'x\\nTE_CI_RAN a.b \\t\\r\\ny\\n'", True),
        ("printf 'TE_CI_RAN a.b'", True),
        ("printf 'TE_CI_RAN a.bc\\nxTE_CI_RAN a.b\\nTE_CI_RAN a.b c\\n'", False),
        ("printf 'TE_CI_RAN a.bc\\nTE_CI_RAN a.b\\n'", True),
        ("head -c 3000000 /dev/zero | tr '\\0' '\\n'; echo TE_CI_RAN a.b; echo more", True),
        ("head -c 1048570 /dev/zero; printf '\\nTE_CI_RAN a.b\\n'; head -c 99 /dev/zero", True),
        ("head -c 1048560 /dev/zero; printf '\\nTE_CI_RAN a.b\\n'", True),
        ("head -c 1048560 /dev/zero; printf '\\nTE_CI_RAN a.b x\\n'", False),
        ("true", False),
    ],
)
def test_the_line_that_proves_a_run(fleet, script, ran):
    assert fleet.sh(script, ran_line="TE_CI_RAN a.b")[0].ending.ran is ran


def test_the_line_of_an_earlier_attempt_proves_nothing(fleet):
    log = fleet.folder / "both.log"
    log.write_text("TE_CI_RAN a.b\n")
    assert fleet.run("true", log=str(log), ran_line="TE_CI_RAN a.b")[0].ending.ran is False
    assert fleet.sh("echo TE_CI_RAN a.b")[0].ending.ran is False  # not asked


def test_a_partial_file_that_outlived_the_process_is_seen(fleet):
    glob = str(fleet.folder / "junit-a*.partial")
    assert fleet.sh("> junit-a.xml.partial", partial_glob=glob)[0].ending.partial is True
    assert fleet.sh("rm junit-a.xml.partial; > junit-b.partial", partial_glob=glob)[0].ending.partial is False


# ---------------------------------------------------------------- what an item leaves


@pytest.mark.parametrize("program", [SPAWN, DOUBLE_FORK])
def test_what_left_the_session_is_killed_and_named(fleet, program):
    ended, _ = fleet.run(sys.executable, "-c", program)
    pid = fleet.pids()[0]
    assert ended.ending.exit_code == 0
    assert [one.pid for one in ended.ending.left] == [pid]
    assert "setsid" in ended.ending.left[0].command
    assert fleet.gone([pid], 0.0)


def test_leftovers_without_the_cookie_are_found_by_descent(fleet):
    ended, _ = fleet.sh("env -i setsid /bin/sleep 61 & env -i setsid /bin/sleep 62 > /dev/null 2>&1 & sleep 0.1")
    assert sorted(one.command for one in ended.ending.left) == ["/bin/sleep 61", "/bin/sleep 62"]


def test_a_child_that_keeps_the_output_open_delays_nothing(fleet):
    ended, log = fleet.sh("sleep 60 & echo done")
    assert log == b"done\n"
    assert ended.ending.seconds < 2
    assert ended.at - ended.ending.stop < 2
    assert [one.command for one in ended.ending.left] == ["sleep 60"]


@pytest.mark.parametrize("seconds", [0.01, 0.2])
def test_a_child_that_is_about_to_end_is_no_leftover(fleet, seconds):
    ended, log = fleet.sh(f"(sleep {seconds}; echo late) & exit 0")
    assert (ended.ending.left, ended.ending.late, log) == ((), 0.0, b"late\n")


def test_a_leftover_has_half_a_second_and_costs_the_item_no_time(fleet):
    ended, _ = fleet.sh("setsid sleep 60 < /dev/null > /dev/null 2>&1 & echo $! > pids")
    ending = ended.ending
    assert ending.left == (Leftover(fleet.pids()[0], "sleep 60"),)
    assert 0.5 <= ending.late <= ended.at - ending.stop
    assert ending.seconds < 0.5 + ended.at - ending.start - ending.late
    assert fleet.gone([], 0.0)


def test_a_tidy_item_waits_for_nothing(fleet):
    ended, _ = fleet.sh("sleep 0.1 & sleep 0.1 & wait")
    assert (ended.ending.left, ended.ending.late) == ((), 0.0)
    assert ended.at - ended.ending.stop < 0.5  # the time that a leftover has


def test_a_zombie_that_nobody_can_reap_is_no_leftover(fleet):
    # As long as somebody traces it, its own parent cannot collect it.
    fleet.order("/bin/sh", "-c", "(sleep 60 & echo $! > pids) ; while ! [ -e go ]; do sleep 0.02; done")
    pid = fleet.pids()[0]
    with _traced(pid):
        os.kill(pid, signal.SIGKILL)
        assert until(lambda: not alive(pid), 5.0)
        (fleet.folder / "go").touch()
        ended = fleet.next(ItemEnded)
        assert Path(f"/proc/{pid}").exists()  # or this proves nothing
    assert (ended.ending.exit_code, ended.ending.left) == (0, ())


def test_a_process_whose_first_thread_has_ended_is_a_leftover(fleet):
    # It looks like a zombie, and does what it likes.
    fleet.order("/bin/sh", "-c", 'exec "$0" "$@" & while ! [ -e go ]; do sleep 0.02; done', sys.executable, "-c", HALF)
    pid = fleet.pids()[0]
    assert until(lambda: not alive(pid), 5.0)
    assert len(list(Path(f"/proc/{pid}/task").iterdir())) == 2
    (fleet.folder / "go").touch()
    assert [one.pid for one in fleet.next(ItemEnded).ending.left] == [pid]
    assert not Path(f"/proc/{pid}").exists()


def test_hundreds_of_orphans_are_reaped_while_the_item_runs(fleet):
    ended, log = fleet.run(sys.executable, "-c", ORPHANS)
    assert (log, ended.ending.left) == (b"300, then 0\n", ())


def test_many_children_and_stopped_ones(fleet):
    ended, _ = fleet.sh("for i in $(seq 100); do sleep 60 & done; kill -STOP $!")
    assert len(ended.ending.left) == 100
    assert not fleet.survivors()


def test_an_unrelated_process_of_the_same_look_is_left_alone(fleet):
    mine = subprocess.Popen(["sleep", "63"], env={"SGPU_COOKIE": "another", "SGPU_TEST": "x"}, start_new_session=True)
    try:
        ended, _ = fleet.sh("sleep 63 & exit 0")
        assert [one.command for one in ended.ending.left] == ["sleep 63"]
        assert mine.poll() is None
    finally:
        mine.kill()
        mine.wait()


def test_what_carries_the_cookie_but_does_not_descend_is_killed_too(fleet):
    # As a server would that an item asked to start something for it.
    os.mkfifo(fleet.folder / "gate")
    fleet.order("/bin/sh", "-c", "echo $SGPU_COOKIE > cookie; echo $$ > pids; sleep 60 & read x < gate")
    fleet.pids()
    cookie = (fleet.folder / "cookie").read_text().strip()
    foreign = subprocess.Popen(["sleep", "64"], env={"SGPU_COOKIE": f"outer:{cookie}"}, start_new_session=True)
    try:
        # Until its exec is done it has no environment to be seen.
        assert until(lambda: cookie.encode() in Path(f"/proc/{foreign.pid}/environ").read_bytes(), 5.0)
        fleet.gateways.kill(fleet.workers[0], "test", 0.0)
        fleet.next(ItemEnded)
        assert foreign.wait(2) == -signal.SIGKILL
    finally:
        foreign.kill()
        foreign.wait()


# ---------------------------------------------------------------- killing an item


def test_kill_asks_first(fleet):
    fleet.order("/bin/sh", "-c", "trap 'echo asked; exit 9' TERM; echo $$ > pids; while :; do sleep 0.01; done")
    fleet.pids()
    fleet.gateways.kill(fleet.workers[0], "deadline", 10.0)
    ended = fleet.next(ItemEnded)
    assert (ended.ending.killed, ended.ending.exit_code, ended.ending.left) == ("deadline", 9, ())
    assert (fleet.folder / "1.log").read_bytes().endswith(b"asked\n")


def test_kill_ends_what_ignores_it_after_the_grace(fleet):
    fleet.order("/bin/sh", "-c", f'setsid sh -c "{DEAF}" & {DEAF}')
    pids = fleet.pids(count=2)
    fleet.gateways.kill(fleet.workers[0], "stop", 0.2)
    ended = fleet.next(ItemEnded)
    assert (ended.ending.killed, ended.ending.signal) == ("stop", signal.SIGKILL)
    assert fleet.gone(pids, 0.0)


def test_the_rest_of_the_tree_has_the_grace_too(fleet):
    inner = "trap 'sleep 0.1; echo child done; exit' TERM; echo $$ > pids; while :; do sleep 0.01; done"
    fleet.order("/bin/sh", "-c", f'(setsid sh -c "{inner}") & sleep 60')
    fleet.pids()
    fleet.gateways.kill(fleet.workers[0], "stop", 10.0)
    ended = fleet.next(ItemEnded)
    assert (fleet.folder / "1.log").read_bytes().endswith(b"child done\n")
    assert ended.ending.left == ()


def test_a_second_kill_shortens_the_grace(fleet):
    fleet.order("/bin/sh", "-c", DEAF)
    pids = fleet.pids()
    began = time.monotonic()
    fleet.gateways.kill(fleet.workers[0], "first", 60.0)
    fleet.gateways.kill(fleet.workers[0], "second", 0.0)
    assert fleet.next(ItemEnded).ending.killed == "first"
    assert time.monotonic() - began < 5
    assert fleet.gone(pids, 0.0)


def test_a_stopped_item_can_be_killed(fleet):
    fleet.order("/bin/sh", "-c", "echo $$ > pids; kill -STOP $$; sleep 60")
    fleet.pids()
    fleet.gateways.kill(fleet.workers[0], "stop", 10.0)
    assert fleet.next(ItemEnded).ending.signal == signal.SIGTERM


def test_an_item_that_not_even_sigkill_ends_is_given_up(fleet):
    # Somebody traces it, so its end is not seen; a process in a broken driver looks the same from here.
    fleet.order("/bin/sh", "-c", "echo $$ > pids; exec sleep 60")
    pid = fleet.pids()[0]
    with _traced(pid):
        fleet.gateways.kill(fleet.workers[0], "stopped", 0.0)
        ending = fleet.next(ItemEnded).ending
        assert (ending.signal, ending.left) == (signal.SIGKILL, ())
        assert ending.killed == f"stopped; process {pid} did not end, not even by SIGKILL"
        assert fleet.sh("exit 3")[0].ending.exit_code == 3


def test_a_kill_that_comes_too_late_hits_nobody(fleet):
    fleet.run("true")
    fleet.gateways.kill(fleet.workers[0], "late", 0.0)
    ended, _ = fleet.sh("exit 4")
    assert (ended.ending.exit_code, ended.ending.killed) == (4, "")


# ---------------------------------------------------------------- older and newer interpreters


@pytest.mark.parametrize("python", _others(), ids=lambda path: Path(path).name)
def test_other_interpreters_serve(make_fleet, python):
    fleet = make_fleet(python=python)
    fleet.start()
    fleet.order("/bin/sh", "-c", "setsid sleep 60 & exit 3")
    assert fleet.next(ItemStarted).pid > 0
    ended = fleet.next(ItemEnded)
    assert (ended.ending.exit_code, [one.command for one in ended.ending.left]) == (3, ["sleep 60"])
