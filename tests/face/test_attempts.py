"""Retries, what they prove of a device, health commands and quarantine, on real runs."""

from __future__ import annotations

import pytest

# Fails at its first attempt.
ONCE = 'note; if [ -e "$top/once.$tag" ]; then cases 1; else : >"$top/once.$tag"; cases 1 1; exit 3; fi'
# Fails on the first device, at once.
BAD_DEVICE = 'note "$tag on $HIP_VISIBLE_DEVICES"; [ "$HIP_VISIBLE_DEVICES" != 0 ] || exit 9; sleep 0.1; cases 1'


class TestRetries:
    @pytest.fixture
    def flaky(self, repo):
        repo.suite("s", {"flaky": ONCE, "bad": "note; exit 1", "fine": "note; cases 1"})
        repo.weights("s/flaky 9.0\ns/bad 8.0\ns/fine 7.0\n")
        return repo

    def test_without_them_a_failure_is_final(self, flaky):
        done = flaky.run()
        assert done.code == 1
        assert flaky.status() == {"s/flaky": "FAILED", "s/bad": "FAILED", "s/fine": "PASSED"}
        assert "RETRY" not in done.out

    def test_what_passes_later_is_flaky_and_no_failure(self, flaky):
        done = flaky.run("--sgpu-retries=1", "-k", "flaky or fine", "--junitxml=own.xml")
        assert done.code == 0
        assert flaky.status() == {"s/flaky": "FLAKY", "s/fine": "PASSED"}
        assert "1 flaky" in done.out
        assert "1 passed" in done.out
        (retry,) = [line for line in done.out.splitlines() if line.startswith("RETRY ")]
        outcome = flaky.outcomes()["s/flaky"]
        (attempt,) = [record for record in flaky.records() if record["event"] == "attempt"]
        first, then = attempt["devices"][0], outcome["devices"][0]
        assert first != then
        assert retry == (
            f"RETRY s/flaky failed on {first} (exit code 3, 1 test of 2 failed); again at the end, on another device"
        )
        (end,) = [line for line in done.out.splitlines() if line.startswith("[") and " s/flaky " in line]
        assert " FLAKY" in end
        assert outcome["reason"].startswith(f"failed on {first} (exit code 3, 1 test of 2 failed), passed on {then}")
        assert (attempt["why"], attempt["attempt"], outcome["attempt"]) == ("retry", 1, 2)
        assert (flaky.logs / "attempts/1/items/s.flaky.log").is_file()
        assert "test_bad_1" in flaky.left("attempts/1/junit/s/flaky.xml")
        assert "test_bad_1" not in flaky.left("junit/s/flaky.xml")
        own = flaky.read("own.xml")
        assert 'errors="0" failures="0" skipped="0" tests="2"' in own
        assert '<property name="attempt" value="2"' in own

    def test_or_one_when_the_caller_says_so(self, flaky):
        done = flaky.run("--sgpu-retries=1", "--sgpu-flaky=fail", "-k", "flaky or fine")
        assert done.code == 1
        assert flaky.status()["s/flaky"] == "FLAKY"
        assert "1 flaky" in done.out
        assert "again: " in done.out  # its block is shown
        assert flaky.run("--lf", "--sgpu-plan").out.count("s/flaky") >= 1

    def test_what_never_passes_fails_after_all_of_them(self, flaky):
        done = flaky.run("--sgpu-retries=2", "-k", "bad")
        assert done.code == 1
        assert flaky.seen == ["bad"] * 3
        assert flaky.outcomes()["s/bad"]["attempt"] == 3
        assert done.out.count("RETRY s/bad") == 2
        assert "1 failed" in done.out

    def test_the_ini_file_knows_them(self, flaky):
        flaky.ini("sgpu_retries = 1", "sgpu_flaky = fail")
        assert flaky.run("-k", "flaky").code == 1
        assert flaky.run("-k", "flaky").code == 0

    def test_on_one_device_it_runs_there_again(self, flaky):
        done = flaky.run("--sgpu-retries=1", "-k", "flaky", gpus=1)
        assert done.code == 0
        assert "; again at the end\n" in done.out
        assert flaky.status() == {"s/flaky": "FLAKY"}

    def test_with_x_the_run_stops_at_what_failed_for_good(self, flaky):
        done = flaky.run("--sgpu-retries=1", "-x", gpus=1)
        assert done.code == 1
        assert flaky.status()["s/fine"] == "PASSED"  # a failure that is tried again ends nothing

    def test_timings_are_those_of_the_attempt_that_passed(self, repo):
        body = 'if [ -e "$top/once" ]; then cases 1; else : >"$top/once"; sleep 1.5; exit 3; fi'
        repo.suite("s", {"a": body})
        assert repo.run("--sgpu-retries=1").code == 0
        assert repo.learned()["s/a"] < 1.5
        assert len(repo.timings()) == 2


class TestQuarantine:
    def test_a_device_that_fails_everything_fast_does_not_eat_the_queue(self, repo):
        tags = [f"t{number:02}" for number in range(14)]
        repo.suite("s", dict.fromkeys(tags, BAD_DEVICE))
        repo.weights("".join(f"s/{tag} 20.0\n" for tag in tags))
        done = repo.run(gpus=3)
        assert done.code == 1
        status = repo.status()
        failed = [key for key, one in status.items() if one == "FAILED"]
        assert 2 <= len(failed) <= 7  # the third one tells, or one soon after when the others began late
        assert list(status.values()).count("FLAKY") == 1
        assert list(status.values()).count("PASSED") == 13 - len(failed)
        told = [line.split(":")[0] for line in done.out.splitlines() if line.startswith(("HELD ", "QUARANTINE gpu"))]
        assert told == ["HELD gpu0", "QUARANTINE gpu0"]
        assert "PROBE s/" in done.out
        assert sum(line.endswith(" on 0") for line in repo.seen) == len(failed) + 1
        (record,) = [record for record in repo.records() if record["event"] == "quarantine"]
        assert (record["worker"], record["devices"]) == ("gpu0", ["gpu0"])

    def test_with_retries_all_that_it_failed_are_flaky_and_the_run_is_green(self, repo):
        tags = [f"t{number:02}" for number in range(8)]
        repo.suite("s", dict.fromkeys(tags, BAD_DEVICE))
        done = repo.run("--sgpu-retries=1", gpus=3)
        assert done.code == 0
        assert set(repo.status().values()) == {"FLAKY", "PASSED"}
        assert "QUARANTINE gpu0: no more items; 2 items failed there and passed elsewhere" in done.out

    def test_off_lets_it_go_on(self, repo):
        tags = [f"t{number:02}" for number in range(8)]
        repo.suite("s", dict.fromkeys(tags, BAD_DEVICE))
        repo.weights("".join(f"s/{tag} 20.0\n" for tag in tags))
        done = repo.run("--sgpu-quarantine=off", gpus=2)
        assert done.code == 1
        assert "HELD" not in done.out
        assert not [record for record in repo.records() if record["event"] in ("held", "quarantine")]

    def test_a_device_that_is_unwell_gets_nothing_more(self, repo):
        check = 'echo "checking $HIP_VISIBLE_DEVICES"; [ "$HIP_VISIBLE_DEVICES" != 0 ]'
        repo.file("check.sh", f"#!/bin/sh\n{check}\n", executable=True)
        repo.suite("s", {f"t{number}": BAD_DEVICE for number in range(8)})
        done = repo.run("--sgpu-health-cmd=./check.sh now", gpus=2)
        assert done.code == 1
        log = "test-results/logs/health/gpu0.log"
        assert f"UNHEALTHY gpu0: the health command failed with exit code 1; log: {log}" in done.out
        assert f", log of the health command {log}" in done.out.split("= sgpu =")[1]
        assert f", log of the health command `{log}`" in repo.left("report/schedule.md")
        assert "QUARANTINE gpu0: " in done.out
        assert list(repo.status().values()).count("FAILED") == 1
        assert repo.left("health/gpu0.log") == "checking 0\n"
        assert "infrastructure" in done.out

    def test_a_device_that_is_well_goes_on(self, repo):
        repo.file("check.sh", "#!/bin/sh\necho fine\n", executable=True)
        repo.suite("s", {"bad": "exit 1", "a": "cases 1"})
        done = repo.run("--sgpu-health-cmd=./check.sh", gpus=1)
        assert done.code == 1
        assert "UNHEALTHY" not in done.out
        assert repo.left("health/gpu0.log") == "fine\n"
        assert repo.status() == {"s/bad": "FAILED", "s/a": "PASSED"}
