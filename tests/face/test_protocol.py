"""Suites that follow the published protocol: the queue gives the verdicts that a plain run of the script gives."""

from __future__ import annotations

import shutil

import pytest

COUNT = 100

# Written as suites in the wild are: a function that owns a call line, levels, a filter, no library.
SUITE = r"""
: ${TEST_LEVEL:=99}
worst=0

wanted() {
    [ -z "$TEST_FILTER" ] && return 0
    set -f
    for glob in $TEST_FILTER; do
        case "$1" in $glob) set +f; return 0 ;; esac
    done
    set +f
    return 1
}

run() { # level tag exit_code
    if [ "$1" -gt "$TEST_LEVEL" ]; then return; fi
    wanted "$2" || return 0
    if [ "$TE_CI_LIST_ITEMS" = 1 ]; then echo "TE_CI_ITEM $2"; return; fi
    if [ "$TE_CI_SETUP_ONLY" = 1 ]; then return; fi
    tag=$2
    bad=0; [ "$3" -eq 0 ] || bad=1
    file="${JUNITXML_PREFIX}$tag${JUNITXML_SUFFIX}"
    [ -n "$JUNITXML_SUFFIX" ] || file=/dev/null
    failure=""; [ $bad -eq 0 ] || failure='<failure message="m"/>'
    head="<testsuite name='p' tests='1' failures='$bad'><testcase classname='m' name='t'>"
    echo "$head$failure</testcase></testsuite>" >"$file"
    echo "VERDICT $tag $3" >>"$RECORD"
    [ "$3" -eq 0 ] || worst=1
}

if [ "$TE_CI_LIST_ITEMS" != 1 ] && [ "$TE_CI_SKIP_SETUP" != 1 ]; then
    echo setup >>"$RECORD"
fi
n=0
while [ $n -lt 100 ]; do
    code=0
    case $n in 7 | 42 | 77) code=1 ;; esac
    run 1 "test_mod_$n.ck.label+$n" $code
    n=$((n + 1))
done
run 3 only.at.level.three 1
exit $worst
"""


@pytest.mark.parametrize("shell", ["/bin/sh", "/bin/bash"])
def test_a_hundred_items(repo, shell):
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell}")
    repo.file("p.sh", f"#!{shell}\n{SUITE}", executable=True)
    repo.conf_line("p p.log list ./p.sh")
    plain = repo.command("./p.sh", env={"RECORD": "plain"})
    assert plain.code == 1
    done = repo.run("-q", gpus=3, env={"RECORD": str(repo.path / "queued")})
    assert done.code == 1
    queued = repo.read("queued").splitlines()
    assert queued.count("setup") == 1
    assert sorted(queued) == sorted(repo.read("plain").splitlines())
    codes = {key: record["exit_code"] for key, record in repo.outcomes().items()}
    assert len(codes) == COUNT
    verdicts = dict(line.split()[1:] for line in repo.read("plain").splitlines() if line != "setup")
    assert codes == {f"p/{tag}": int(code) for tag, code in verdicts.items()}
    assert repo.left("suites/p.log.rc") == f"{plain.code}\n"
    assert repo.junit().results == {"passed": 97, "failure": 3}
    assert "p/only.at.level.three" not in repo.learned()


def test_a_published_conf_and_table(repo):
    """Comments, blank lines, arguments with quotes; a table as it was left by the other implementation."""
    repo.script(
        "unit.sh",
        {"test_numerics.ck": "cases 1; note", "nvfp4..ck": "cases 1; note"},
        head='echo "$1|$2" >>"$(dirname "$0")/words"',
    )
    repo.file(
        "suite.conf",
        "# label logfile mode command\n\n"
        "torch   test_torch.log\tlist   ./unit.sh  'two words' x#y  # a comment\n"
        "core test_core.log opaque /bin/sh -c 'echo core >>seen'\n",
    )
    repo.weights("core 880.4\ntorch/test_numerics.ck 410.2\ntorch/nvfp4..ck 12.0\n")
    done = repo.run(gpus=1)
    assert done.code == 0, done.text
    assert repo.seen == ["core", "test_numerics.ck", "nvfp4..ck"]
    assert set(repo.read("words").splitlines()) == {"two words|x#y"}
    assert repo.left("suites/test_torch.log.rc") == "0\n"
    assert repo.left("suites/test_core.log.rc") == "0\n"


def test_levels(repo):
    repo.file("p.sh", f"#!/bin/sh\n{SUITE}", executable=True)
    repo.conf_line("p p.log list ./p.sh")
    env = {"RECORD": "/dev/null"}
    assert repo.plan(env={**env, "TEST_LEVEL": "3"})["totals"]["items"] == COUNT + 1
    assert repo.plan(env={**env, "TEST_LEVEL": None})["scope"]["level"] == "99"
