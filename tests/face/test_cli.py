"""The command `sgpu`: in this process, and as a program."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_sgpu import __version__, cli
from pytest_sgpu.suite import starter

ROOT = Path(__file__).resolve().parents[2]
TARGETS = [*(file.target for file in starter.FILES), "pytest.ini"]


@pytest.fixture
def repository(tmp_path, monkeypatch):
    place = tmp_path / "re po"
    place.mkdir()
    monkeypatch.chdir(place)
    return place


def files(place: Path) -> dict[str, str]:
    return {str(path.relative_to(place)): path.read_text() for path in place.rglob("*") if path.is_file()}


class TestShellLib:
    def test_prints_a_path_that_can_be_sourced(self, capsys):
        assert cli.main(["shell-lib"]) == 0
        path = Path(capsys.readouterr().out.removesuffix("\n"))
        assert path.is_absolute()
        assert path.name == "te_ci.sh"
        assert "te_ci_finish()" in path.read_text()

    def test_as_a_program(self):
        command = [sys.executable, "-m", "pytest_sgpu.cli", "shell-lib"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        assert done.stdout == f"{ROOT / 'pytest_sgpu' / 'suite' / 'te_ci.sh'}\n"

    def test_it_starts_fast(self):
        """Every entry of a suite script asks for it: nothing heavy may be imported for that."""
        code = "import sys; from pytest_sgpu import cli; cli.main(['shell-lib']); print(sorted(sys.modules))"
        done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
        assert not {"pytest", "execnet", "rich", "junitparser", "filelock"} & set(eval(done.stdout.splitlines()[-1]))


class TestInit:
    def test_an_empty_repository(self, repository, capsys):
        assert cli.main(["init"]) == 0
        assert sorted(files(repository)) == sorted(TARGETS)
        out = capsys.readouterr().out
        assert [line for line in out.splitlines() if line.startswith("wrote")] == [f"wrote  {name}" for name in TARGETS]
        assert "pytest -p sgpu --sgpu-conf=conf/ci_sgpu_queue.conf --sgpu-gpus=2" in out
        assert os.access(repository / "ci/suites/example.sh", os.X_OK)
        assert not os.access(repository / "ci/suites/test_example.py", os.X_OK)

    def test_a_second_run_changes_nothing_and_says_so(self, repository, capsys):
        cli.main(["init"])
        for name in TARGETS:
            (repository / name).write_text(f"mine: {name}")
        capsys.readouterr()
        assert cli.main(["init"]) == 0
        assert files(repository) == {name: f"mine: {name}" for name in TARGETS}
        out = capsys.readouterr().out
        assert "wrote" not in out
        assert [line for line in out.splitlines() if line.startswith("kept")] == [
            f"kept   {name}: exists, left as it is" for name in TARGETS
        ]

    def test_settings_of_pytest_that_are_there(self, repository, capsys):
        (repository / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
        assert cli.main(["init"]) == 0
        assert not (repository / "pytest.ini").exists()
        assert "kept   pytest.ini: not needed: pyproject.toml holds pytest's settings" in capsys.readouterr().out

    def test_another_folder(self, repository, capsys, tmp_path):
        assert cli.main(["init", "--dir", str(repository)]) == 0
        assert f"  cd {shlex.quote(str(repository))}\n" in capsys.readouterr().out

    def test_a_dangling_link_is_left_alone(self, repository):
        (repository / "conf").mkdir()
        (repository / starter.CONF).symlink_to("../nowhere")
        assert cli.main(["init"]) == 0
        assert not (repository / "nowhere").exists()

    def test_another_process_may_be_first(self, repository, capsys, monkeypatch):
        (repository / "conf").mkdir()
        (repository / starter.CONF).write_text("mine")
        monkeypatch.setattr("pytest_sgpu.cli.os.path.lexists", lambda _: False)
        assert cli.main(["init"]) == 0
        assert (repository / starter.CONF).read_text() == "mine"
        assert f"kept   {starter.CONF}: exists\n" in capsys.readouterr().out

    def test_no_such_folder(self, capsys):
        assert cli.main(["init", "--dir", "/no/such/folder"]) == 4
        err = capsys.readouterr().err
        assert err.startswith("sgpu: error: /no/such/folder: no such folder\n  hint: ")

    @pytest.mark.parametrize("name", ["ci", "conf", ".github"])
    def test_a_file_in_the_way(self, repository, capsys, name):
        (repository / name).write_text("a file")
        assert cli.main(["init"]) == 4
        err = capsys.readouterr().err
        assert err.startswith("sgpu: error: cannot write ")
        assert "Traceback" not in err
        assert (repository / name).read_text() == "a file"

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
    def test_a_folder_that_cannot_be_written(self, repository, capsys):
        repository.chmod(0o555)
        assert cli.main(["init"]) == 4
        repository.chmod(0o755)
        assert "cannot write ci/suites/example.sh: Permission denied" in capsys.readouterr().err

    def test_a_failing_write_is_an_error_with_a_hint(self, repository, capsys, monkeypatch):
        def refuse(*_):
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr("pytest_sgpu.cli.os.open", refuse)
        assert cli.main(["init"]) == 4
        assert "Permission denied\n  hint: make the folder writable" in capsys.readouterr().err

    def test_settings_that_cannot_be_read(self, repository, capsys):
        (repository / "tox.ini").mkdir()
        assert cli.main(["init"]) == 4
        assert "sgpu: error: cannot read tox.ini: Is a directory" in capsys.readouterr().err

    def test_what_it_wrote_runs_as_a_script(self, repository, tmp_path):
        cli.main(["init"])
        folder = tmp_path / "bin"
        folder.mkdir()
        for name, target in {"sgpu": "pytest_sgpu.cli", "python3": ""}.items():
            module = f" -m {target}" if target else ""
            (folder / name).write_text(f'#!/bin/sh\nexec {sys.executable}{module} "$@"\n')
            (folder / name).chmod(0o755)
        env = {"PATH": f"{folder}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "TEST_LEVEL": "1"}

        def script(**more):
            return subprocess.run(
                ["ci/suites/example.sh"], env=env | more, capture_output=True, text=True, check=False, timeout=120
            )

        tags = ["test_example.cpu.small", "test_example.cpu.large", "benchmark"]
        listed = script(TE_CI_LIST_ITEMS="1")
        assert (listed.returncode, listed.stdout) == (0, "".join(f"TE_CI_ITEM {tag}\n" for tag in tags))
        assert script(TE_CI_SETUP_ONLY="1").returncode == 0
        plain = script()
        assert plain.returncode == 0, plain.stdout + plain.stderr
        assert "3 run, 0 skipped here, worst exit code 0" in plain.stdout
        item = script(TEST_FILTER=tags[0], TE_CI_SKIP_SETUP="1", HIP_VISIBLE_DEVICES="1", JUNITXML_PREFIX="j/")
        assert item.returncode == 0, item.stdout
        assert "3 passed" in item.stdout
        assert (repository / "j" / f"{tags[0]}.xml").is_file()

    def test_without_sgpu_the_script_says_what_is_missing(self, repository, tmp_path):
        cli.main(["init"])
        env = {"PATH": str(tmp_path)}
        done = subprocess.run(["/bin/sh", "ci/suites/example.sh"], env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert "pip install pytest-sgpu" in done.stderr


class TestFront:
    def test_version(self, capsys):
        with pytest.raises(SystemExit) as ended:
            cli.main(["--version"])
        assert ended.value.code == 0
        assert capsys.readouterr().out == f"sgpu {__version__}\n"

    @pytest.mark.parametrize("words", [[], ["no-such-command"], ["init", "--dri", "x"], ["shell-lib", "x"]])
    def test_wrong_usage(self, words, capsys):
        with pytest.raises(SystemExit) as ended:
            cli.main(words)
        assert ended.value.code == 4
        assert "usage: sgpu" in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            ([], ["shell-lib", "init", "finalize", "pytest -p sgpu --sgpu-conf=FILE", "4 wrong usage"]),
            (["shell-lib"], ["te_ci.sh", "exit codes:"]),
            (["init"], ["--dir DIR", "exit codes:"]),
            (
                ["finalize"],
                [
                    "DIR",
                    "--weights FILE|DIR",
                    "--sgpu-resume",
                    "0 all passed, 1 failures, 2 interrupted or incomplete, 4",
                ],
            ),
        ],
    )
    def test_help_stands_alone(self, words, said, capsys):
        with pytest.raises(SystemExit) as ended:
            cli.main([*words, "--help"])
        assert ended.value.code == 0
        out = " ".join(capsys.readouterr().out.split())
        assert [one for one in said if one not in out] == []

    @pytest.mark.parametrize("words", [["--wrong"], ["init", "--dri", "x"], ["finalize"]])
    def test_wrong_usage_names_what_helps(self, words, capsys):
        with pytest.raises(SystemExit):
            cli.main(words)
        assert re.search(r"error: .+\n  hint: sgpu.* --help\n", capsys.readouterr().err)

    def test_interrupted(self, monkeypatch):
        def interrupt(_):
            raise KeyboardInterrupt

        monkeypatch.setattr(cli, "_shell_lib", interrupt)
        assert cli.main(["shell-lib"]) == 130
