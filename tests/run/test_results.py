"""What a run leaves: every file of the run directory, readable by those who read it, whatever could not be written."""

from __future__ import annotations

import resource
import signal
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from pytest_sgpu.core import journal, tables
from pytest_sgpu.core.journal import line
from pytest_sgpu.engine import weight_file
from pytest_sgpu.engine.lock import Lock
from pytest_sgpu.errors import StoreError
from pytest_sgpu.model import Notice, Quarantine, Scope, Status
from pytest_sgpu.results import SUMMARY_LIMIT, finish

CASE = '<testsuite name="s"><testcase classname="m" name="{}"/></testsuite>'


@pytest.fixture
def done(kit):
    """Make a run with one of each: passed, failed, no tests, set up in vain, opaque, nothing to run here."""
    kit.suite(
        "one",
        {
            "a": f"junit a '{CASE.format('t1')}'",
            "b": f"junit b '{CASE.format('t2')}'; echo last words; exit 3",
            "none": "echo nothing",
        },
    )
    kit.passing("bad", "x", "y", setup="echo no wheel; exit 4")
    kit.opaque("whole", "echo whole")
    kit.suite("elsewhere", {}, elsewhere=["z"])
    return kit.run()


def end(run, **more):
    return finish(run.directory, run.session.prepared.place, rerun=lambda key: f"pytest {key}", env={}, **more)


def read(run, name):
    return (run.directory.path / name).read_text()


# ---------------------------------------------------------------- the files


def test_every_file_of_the_run_directory_is_there(done, kit):
    end(done)
    there = {path.relative_to(kit.logs).as_posix() for path in kit.logs.rglob("*") if path.is_file()}
    assert there - {".sgpu.lock", ".sgpu.owner.json"} == {
        *(f"items/one.{tag}.log{rc}" for tag in ("a", "b", "none") for rc in ("", ".rc")),
        "items/whole.whole.log",
        "items/whole.whole.log.rc",
        *(f"suites/{label}.log{rc}" for label in ("one", "bad", "whole", "elsewhere") for rc in ("", ".rc")),
        *(f"suites/{label}.xml" for label in ("one", "bad", "whole")),
        "queue/queue.tsv",
        "queue/items.tsv",
        "queue/timings.tsv",
        "queue/journal.jsonl",
        "junit/one/a.xml",
        "junit/one/b.xml",
        "report/schedule.md",
        "report/junit.xml",
        "setup/one.log",
        "setup/bad.log",
    }


def test_the_tables_are_read_back_without_a_word(done):
    end(done)
    rows, notices = tables.parse_queue(read(done, "queue/queue.tsv"))
    assert notices == ()
    assert [row.key for row in rows] == [entry.item.key for entry in done.session.plan.entries]
    keys, notices = tables.parse_items(read(done, "queue/items.tsv"))
    assert notices == ()
    assert {str(key) for key in keys} == {"one/a", "one/b", "one/none", "bad/x", "bad/y", "whole", "elsewhere/z"}
    timings, notices = tables.parse_timings(read(done, "queue/timings.tsv"))
    assert notices == ()
    by_key = {str(row.key): row for row in timings}
    assert set(by_key) == {"one/a", "one/b", "one/none", "whole"}  # what never started has no time
    assert [row.stop for row in timings] == sorted(row.stop or 0.0 for row in timings)
    assert (by_key["one/b"].rc, by_key["one/b"].incomplete) == (3, False)
    assert (by_key["one/none"].rc, by_key["one/none"].incomplete) == (5, True)
    assert by_key["one/a"].devices in {("0",), ("1",)}


def test_each_suite_has_its_index_and_its_code(done):
    finished = end(done)
    codes = {label: read(done, f"suites/{label}.log.rc") for label in ("one", "bad", "whole", "elsewhere")}
    assert codes == {"one": "5\n", "bad": "4\n", "whole": "0\n", "elsewhere": "0\n"}
    index = [row.split("\t") for row in read(done, "suites/one.log").splitlines()]
    assert {(row[0], row[3], row[4], row[5]) for row in index} == {
        ("rc=0", "passed", "a", "items/one.a.log"),
        ("rc=3", "failed", "b", "items/one.b.log"),
        ("rc=5", "no-tests", "none", "items/one.none.log"),
    }
    assert read(done, "suites/bad.log").splitlines()[0].split("\t") == ["rc=4", "0.0s", "-", "setup-failed", "x", "-"]
    assert read(done, "suites/whole.log").split("\t")[4:] == ["whole", "items/whole.whole.log\n"]
    assert read(done, "suites/elsewhere.log") == ""
    assert {v.suite: v.exit_code for v in finished.view.verdicts} == {"one": 5, "bad": 4, "whole": 0}


def cases(text):
    return sorted((case.get("classname"), case.get("name")) for case in ET.fromstring(text).iter("testcase"))


def test_the_tests_inside_are_in_one_file_and_by_suite(done):
    finished = end(done)
    whole = cases(read(done, "report/junit.xml"))
    names = {name for _, name in whole}
    assert {"t1", "t2"} <= names
    assert len(whole) == len(set(whole))
    parts = [case for label in ("one", "bad", "whole") for case in cases(read(done, f"suites/{label}.xml"))]
    assert sorted(parts) == whole
    assert finished.junit.endswith("report/junit.xml")


def test_a_suite_whose_index_has_that_name_keeps_it(kit):
    kit.passing("one", "a")
    run = kit.make()
    suites = tuple(replace(suite, log_name="one.xml") for suite in run.session.prepared.suites)
    run.session.prepared = replace(run.session.prepared, suites=suites)
    run.session.run()
    end(run)
    assert read(run, "suites/one.xml").startswith("rc=0\t")


def test_the_report_and_the_view_say_what_happened(done, kit):
    finished = end(done)
    text = read(done, "report/schedule.md")
    for word in ("one/b", "whole", "setup failed"):
        assert word in text
    view = finished.view
    assert set(view.rerun_of) == {"one/b", "one/none", "bad/x", "bad/y"}
    assert view.rerun_of["one/b"] == "pytest one/b"
    assert view.tail_of["one/b"].endswith("last words\n")
    assert view.tail_of["bad/x"] == "no wheel\n"
    assert view.log_of["bad/x"].endswith("setup/bad.log")
    assert view.log_of["one/a"].endswith("items/one.a.log")
    assert (view.devices, view.interrupted, view.scope.arch) == (("gpu0", "gpu1"), "", "cpu")
    assert (finished.late_notices, finished.logs) == ([], str(kit.logs))
    assert finished.report.endswith("report/schedule.md")


def test_what_ran_teaches(done, kit):
    kit.weights.write_text("one/a 100.0\none/gone 5.0\nleft/x 5.0\nelsewhere/z 7.0\none/none 3.0\n")
    finished = end(done)
    table, _, _ = tables.parse_weights(kit.weights.read_bytes(), "w", Scope("cpu", "99"))
    weights = {str(key): seconds for key, seconds in table.entries.items()}
    assert set(weights) == {"one/a", "one/b", "one/none", "whole", "elsewhere/z"}
    assert weights["one/none"] == 3.0
    assert weights["elsewhere/z"] == 7.0
    assert 90 <= weights["one/a"] < 100
    assert finished.weights == str(kit.weights)


def test_finishing_twice_gives_the_same_files(done, kit):
    end(done)
    names = [path for path in kit.logs.rglob("*") if path.is_file() and path.name != "journal.jsonl"]
    before = {path: path.read_bytes() for path in names}
    end(done)
    assert {path: path.read_bytes() for path in names} == before


def test_a_run_that_was_stopped_is_reported_as_such(kit):
    kit.suite("one", {"a": "exit 1", "b": "ran b"})
    run = kit.make(devices=1, only=["one/a", "one/b"])
    run.listener.stop_at = lambda outcome: "enough" if outcome.status.failed else ""
    run.session.run()
    finished = end(run)
    assert finished.view.interrupted == "enough"
    assert read(run, "suites/one.log.rc") == "1\n"
    assert "not-run" in read(run, "suites/one.log")


# ---------------------------------------------------------------- the job summary


def test_the_summary_is_appended(done, tmp_path):
    path = tmp_path / "summary.md"
    path.write_text("before\n")
    finished = finish(done.directory, done.session.prepared.place, rerun=str, env={"GITHUB_STEP_SUMMARY": str(path)})
    text = path.read_text()
    assert text.startswith("before\n")
    assert "one/b" in text
    assert finished.late_notices == []


def test_the_summary_stays_within_what_is_left_of_the_limit(done, tmp_path):
    path = tmp_path / "summary.md"
    path.write_text("x" * (SUMMARY_LIMIT - 17 * 1024))
    finish(done.directory, done.session.prepared.place, rerun=str, env={"GITHUB_STEP_SUMMARY": str(path)})
    assert path.stat().st_size <= SUMMARY_LIMIT
    path.write_text("x" * SUMMARY_LIMIT)
    finish(done.directory, done.session.prepared.place, rerun=str, env={"GITHUB_STEP_SUMMARY": str(path)})
    assert path.stat().st_size <= SUMMARY_LIMIT + 1024


@pytest.mark.parametrize("place", ["/dev/full", "a/b/summary.md", ""])
def test_a_summary_that_cannot_be_written_is_a_notice(done, place, tmp_path):
    name = place if place.startswith("/") else f"{tmp_path}/{place}"
    finished = finish(done.directory, done.session.prepared.place, rerun=str, env={"GITHUB_STEP_SUMMARY": name})
    (notice,) = finished.late_notices
    assert notice.text.startswith("the job summary could not be written: ")
    assert finished.report


# ---------------------------------------------------------------- what cannot be written


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("suites/one.log", "suites/one.log"),
        ("suites/one.log.rc", "suites/one.log"),
        ("suites/one.xml", "suites/one.xml"),
        ("queue/timings.tsv", "queue/timings.tsv"),
        ("report/junit.xml", "report/junit.xml"),
        ("report/schedule.md", "report/schedule.md"),
    ],
)
def test_a_file_that_cannot_be_written_costs_itself_and_is_told(done, kit, name, told):
    (kit.logs / name).mkdir()
    finished = end(done)
    (notice,) = finished.late_notices
    assert notice.text == f"{told} could not be written: Is a directory"
    assert {v.suite: v.exit_code for v in finished.view.verdicts} == {"one": 5, "bad": 4, "whole": 0}
    assert read(done, "suites/bad.log.rc") == "4\n"
    assert (finished.junit == "") == (name == "report/junit.xml")
    assert (finished.report == "") == (name == "report/schedule.md")
    assert not list(kit.logs.rglob("*.part"))
    assert kit.weights.exists()


def test_on_a_full_disk_the_verdict_stands_and_every_loss_is_told(done, kit):
    kit.weights.write_text("one/a 9.0\n")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, hard))
    try:
        finished = end(done)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    told = [notice.text.split(" could")[0] for notice in finished.late_notices]
    for what in ("suites/one.log", "queue/timings.tsv", "report/junit.xml", "suites/one.xml", "report/schedule.md"):
        assert what in told
    assert any("nothing was learned: File too large" in text for text in told)
    assert {v.suite: v.exit_code for v in finished.view.verdicts} == {"one": 5, "bad": 4, "whole": 0}
    assert not list(kit.folder.rglob("*.part"))
    assert kit.weights.read_text() == "one/a 9.0\n"


def test_a_weight_table_that_stays_locked_is_told_and_taught_the_next_time(done, kit):
    lock = Lock(kit.folder / ".weights.txt.lock")
    assert lock.take()
    finished = end(done, lock_wait=0.01)
    lock.release()
    assert finished.late_notices[0].text == "the weight table stayed locked for 0.01 s, nothing was learned"
    assert (finished.weights, kit.weights.exists(), done.state.taught) == ("", False, frozenset())
    assert end(done).weights == str(kit.weights)
    assert {str(key) for key in done.state.taught} == {"one/a", "one/b", "whole"}


def test_items_that_exist_no_more_are_told(kit):
    kit.passing("one", "a")
    kit.weights.write_text("".join(f"one/gone{number:02} {50 - number}.0\n" for number in range(12)) + "one/a 1.0\n")
    finished = end(kit.run())
    names = ", ".join(f"one/gone{number:02}" for number in range(10))
    told = Notice(f"12 items of earlier runs exist no more: {names} and 2 more", str(kit.weights))
    assert finished.late_notices == [told]
    assert end(kit.run()).late_notices == []


def test_what_was_said_of_the_table_before_the_run_is_not_said_again(kit):
    kit.passing("one", "a")
    kit.weights.write_text("one/a nonsense\none/b more\none/a 1.0\n")
    run = kit.make()
    _, notices, _ = weight_file.read_weights(kit.weights, Scope("cpu", "99"))
    run.session.prepared = replace(run.session.prepared, notices=notices[:1])
    run.session.run()
    finished = end(run)
    assert finished.view.notices == notices[:1]
    aside = Notice("set aside as weights.txt.damaged", str(kit.weights))
    assert finished.late_notices == [*notices[1:], aside]


# ---------------------------------------------------------------- damaged journals


def test_without_a_journal_nothing_is_claimed(done, kit):
    done.directory.close()
    (kit.logs / "queue" / "journal.jsonl").unlink()
    finished = end(done)
    assert "the journal of this run cannot be read" in finished.late_notices[0].text
    assert finished.view.verdicts == ()
    assert not list((kit.logs / "suites").glob("*.rc"))


@pytest.fixture
def closed(done):
    """Give such a run after its process has ended: only then may its journal be damaged without a word."""
    done.directory.close()
    return done


@pytest.mark.parametrize("text", ["", "garbage\n", '{"event":"run"}\n'])
def test_a_journal_that_knows_no_suites_prunes_no_weights(closed, kit, text):
    kit.weights.write_text("one/a 9.0\nleft/x 5.0\n")
    (kit.logs / "queue" / "journal.jsonl").write_text(text)
    end(closed)
    assert kit.weights.read_text() == "one/a 9.0\nleft/x 5.0\n"


def test_garbage_in_the_journal_is_told_and_the_rest_counts(closed, kit):
    path = kit.logs / "queue" / "journal.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    lines[1:1] = ["\x00\x00\n", line({"event": "outcome", "key": "one/a", "status": 7})]
    path.write_text("".join(lines) + '{"event":"outc')
    finished = end(closed)
    assert [notice.where for notice in finished.late_notices] == ["journal.jsonl:2"]
    assert [notice.where for notice in finished.view.notices] == ["journal.jsonl, record 2"]
    assert {v.suite: v.exit_code for v in finished.view.verdicts} == {"one": 5, "bad": 4, "whole": 0}


@pytest.mark.parametrize("first", ["run", "plan"])
def test_a_journal_without_its_head_still_has_its_verdicts(closed, kit, first):
    path = kit.logs / "queue" / "journal.jsonl"
    lines = [one for one in path.read_text().splitlines(keepends=True) if not one.startswith(f'{{"event":"{first}"')]
    path.write_text("".join(lines))
    finished = end(closed)
    assert {v.suite: v.exit_code for v in finished.view.verdicts} == {"one": 5, "bad": 4, "whole": 0}
    assert read(closed, "suites/bad.log.rc") == "4\n"
    assert not (kit.logs / "suites" / "elsewhere.log.rc").exists()  # nothing shows that it had nothing to run


def test_a_journal_cut_anywhere_can_be_finished(closed, kit):
    path = kit.logs / "queue" / "journal.jsonl"
    text = path.read_text()
    for cut in range(0, len(text), 97):
        path.write_text(text[:cut])
        finished = end(closed)
        assert finished.late_notices == []
        assert {v.suite for v in finished.view.verdicts} <= {"one", "bad", "whole"}


def test_names_that_are_no_text_are_written_all_the_same(kit):
    kit.passing("one", "a")
    run = kit.make()
    run.session.prepared = replace(run.session.prepared, notices=(Notice("bytes \udcff", "conf\udc80"),))
    run.session.run()
    path = kit.folder / "summary.md"
    finish(run.directory, run.session.prepared.place, rerun=str, env={"GITHUB_STEP_SUMMARY": str(path)})
    assert path.read_bytes().decode("utf-8")
    assert read(run, "report/schedule.md")


# ---------------------------------------------------------------- attempts, parts, what was taught


def records(run, *more):
    for record in more:
        run.directory.append(record)


def outcome(run, key, **changes):
    (found,) = (one for one in run.state.outcomes if str(one.key) == key)
    return replace(found, **changes)


def test_every_attempt_keeps_its_log_its_xml_and_its_time(kit):
    kit.suite("one", {"a": f"junit a '{CASE.format('t1')}'; echo again"})
    run = kit.run()
    first = outcome(run, "one/a", status=Status.FAILED, exit_code=3, reason="exit code 3")
    run.directory.archive(first.key, 1)
    run.directory.junit_place(first.key)
    records(run, journal.attempt_record(first, "retry"))
    (kit.logs / "items" / "one.a.log").write_text("the second time\n")
    (kit.logs / "junit" / "one" / "a.xml").write_text(CASE.format("t1"))
    last = replace(first, status=Status.FLAKY, exit_code=0, attempt=2, start=9.0, stop=9.5, reason="flaky")
    records(run, journal.outcome_record(last))
    view = end(run).view
    assert view.attempts == {"one/a": (first,)}
    assert view.attempt_log_of == {("one/a", 1): str(kit.logs / "attempts" / "1" / "items" / "one.a.log")}
    assert (view.tail_of["one/a"], view.rerun_of["one/a"]) == ("the second time\n", "pytest one/a")
    timings, _ = tables.parse_timings(read(run, "queue/timings.tsv"))
    assert [(row.rc, row.stop) for row in timings] == [(3, pytest.approx(first.stop, abs=1e-3)), (0, 9.5)]
    assert sum(lane.busy for lane in view.timeline.lanes) == pytest.approx(first.seconds + 0.5)
    text = read(run, "report/junit.xml")
    assert "attempts/1/items/one.a.log" in text
    # The attempt that passed teaches.
    assert tables.parse_weights(kit.weights.read_bytes(), "w", Scope("cpu", "99"))[0].entries[first.key] == 0.5


def test_what_was_taught_is_written_down_and_not_taught_again(done, kit):
    kit.weights.write_text("one/a 100.0\n")
    end(done)
    once = kit.weights.read_bytes()
    assert {str(key) for key in done.state.taught} == {"one/a", "one/b", "whole"}
    end(done)
    end(done)
    assert kit.weights.read_bytes() == once
    assert done.events.count("learned") == 1


def test_a_directory_that_is_not_held_is_finished_all_the_same(done, kit):
    done.directory.close()
    assert end(done).late_notices == []
    assert kit.weights.exists()
    assert done.state.taught == frozenset()


def test_a_journal_that_cannot_be_written_costs_the_note_and_is_told(done, kit, monkeypatch):
    def refuse(record):
        raise StoreError("journal.jsonl: cannot be written: No space left on device")

    monkeypatch.setattr(done.directory, "append", refuse)
    finished = end(done)
    told = "what was learned may be learned again: journal.jsonl: cannot be written: No space left on device"
    assert [notice.text for notice in finished.late_notices] == [told]
    assert kit.weights.exists()


def test_without_the_head_of_the_journal_nothing_is_learned(closed, kit):
    path = kit.logs / "queue" / "journal.jsonl"
    lines = [one for one in path.read_text().splitlines(keepends=True) if not one.startswith('{"event":"run"')]
    path.write_text("".join(lines))
    finished = end(closed)
    assert "the head of the journal is missing, so nothing was learned" in [n.text for n in finished.late_notices]
    assert not kit.weights.exists()


def test_a_summary_that_holds_the_report_gets_no_second_one(done, tmp_path):
    path = tmp_path / "summary.md"
    for _ in range(3):
        finish(done.directory, done.session.prepared.place, rerun=str, env={"GITHUB_STEP_SUMMARY": str(path)})
    assert path.read_text().count("# pytest-sgpu") == 1


def test_parts_quarantines_and_infrastructure_are_in_the_view(kit):
    kit.suite("one", {"a": "exit 3", "b": "ran b"})
    run = kit.run()
    lost = outcome(run, "one/a", status=Status.LOST, reason="worker gpu0 was killed")
    quarantine = Quarantine("gpu1", ("gpu1",), 1.0, "its health command failed")
    records(
        run,
        journal.resume_record(started=5000.0, at=20.0, commit="c2"),
        journal.quarantine_record(quarantine),
        journal.outcome_record(lost),
        {"event": "incomplete", "at": 21.0, "reason": "the budget is spent"},
    )
    view = end(run).view
    assert [(part.number, part.commit) for part in view.parts][1:] == [(2, "c2")]
    assert view.quarantines == (quarantine,)
    assert view.infrastructure
    assert view.interrupted == "the budget is spent"
    assert {str(one.key): one.part for one in view.outcomes} == {"one/a": 2, "one/b": 1}


def test_a_state_may_be_given(done):
    state = replace(done.state, interrupted="controller killed at +9 s")
    assert end(done, state=state).view.interrupted == "controller killed at +9 s"


def test_what_was_put_right_is_told_once(done, kit, tmp_path):
    (kit.logs / "report").rmdir()
    (kit.logs / "report").symlink_to(tmp_path / "nowhere")
    notice = Notice("a link was in the place of this folder; it is a folder again", "report")
    assert end(done).late_notices == [notice]
    assert end(done, state=replace(done.state, notices=(notice,))).late_notices == []


def test_only_items_of_a_failed_setup_show_its_log(done, kit):
    (kit.logs / "setup" / "one.log").write_text("the setup said so")
    (kit.logs / "items" / "one.b.log").unlink()
    tails = end(done).view.tail_of
    assert (tails["one/b"], tails["bad/x"]) == ("", "no wheel\n")
    assert "the setup said so" not in read(done, "report/junit.xml") + read(done, "report/schedule.md")
    assert "no wheel" in read(done, "report/junit.xml")


def test_without_the_secrets_of_the_run_no_output_is_quoted(kit):
    secret = "correct-horse-battery-staple"
    xml = f'<testsuite><testcase classname="m" name="t"><failure message="{secret}"/></testcase></testsuite>'
    kit.suite("one", {"a": f"junit a '{xml}'; echo {secret}; exit 3"})
    run = kit.run()
    state = replace(run.state, secrets=("A_KEY", "B_TOKEN", "HERE_TOKEN"))
    place = run.session.prepared.place

    def finished(**env):
        return finish(run.directory, place, rerun=lambda key: f"pytest {key}", env=env, state=state)

    done = finished(HERE_TOKEN="x" * 20, B_TOKEN="short")
    (notice,) = done.late_notices
    assert notice.text == (
        "A_KEY, B_TOKEN were secret in this run and are not set here, so they cannot be masked: log tails are left "
        "out, and what tests inside the items said"
    )
    assert "secrets of this run are not known here" in str(done.view.tail_of["one/a"])
    assert secret not in repr(replace(done.view, outcomes=(), verdicts=()))
    text = read(run, "report/junit.xml") + read(run, "suites/one.xml")
    assert secret not in text
    assert 'name="t"' in text
    assert "<failure" in text


def test_secrets_are_in_no_report_but_in_the_logs(kit):
    secret = "correct-horse-battery-staple"
    xml = f'<testsuite><testcase classname="m" name="t"><failure message="{secret}"/></testcase></testsuite>'
    kit.suite("one", {"a": f"junit a '{xml}'; echo {secret}; exit 3"})
    run = kit.run()
    env = {"MY_TOKEN": secret, "GITHUB_STEP_SUMMARY": str(kit.folder / "summary.md")}
    finished = finish(run.directory, run.session.prepared.place, rerun=lambda key: f"A={secret} {key}", env=env)
    assert secret not in repr(finished)
    assert finished.view.rerun_of["one/a"] == "A=*** one/a"
    written = [path for name in ("report", "suites") for path in (kit.logs / name).iterdir()]
    assert secret not in "".join(path.read_text() for path in (*written, kit.folder / "summary.md"))
    assert secret in read(run, "items/one.a.log")
