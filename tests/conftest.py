"""What every test may count on: an environment without anything of the caller's, and small Hypothesis profiles."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Generator

import pytest

pytest_plugins = ["pytester"]

# What a shell on a GPU machine, a CI service or an outer queue may have set, and what would then steer the
# code under test. Cleaned once, for the process and all that it starts; a test sets what it needs itself.
_FOREIGN = re.compile(
    r"TE_CI_.*|TEST_.*|JUNITXML_.*|SGPU_(?!(WHEEL|FUZZ_SEED)$).*|PYTEST_SGPU_.*"
    r"|PYTEST_(ADDOPTS|PLUGINS|TIMEOUT|DISABLE_PLUGIN_AUTOLOAD|THEME|THEME_MODE|DEBUG)|PYTEST_XDIST_.*"
    r"|(HIP|ROCR|CUDA|GPU|ZE)_VISIBLE_DEVICES|CUDA_DEVICE_ORDER|GPU_DEVICE_ORDINAL|ZE_AFFINITY_MASK"
    r"|GITHUB_.*|RUNNER_.*|ACTIONS_.*|GITLAB_CI|BUILD_NUMBER|CI|PY_COLORS|NO_COLOR|FORCE_COLOR|CLICOLOR(_FORCE)?"
    r"|COLUMNS|LINES|TTY_COMPATIBLE|TTY_INTERACTIVE|MASTER_(ADDR|PORT)|(LOCAL_)?(RANK|WORLD_SIZE)|SLURM_.*"
)


def pytest_configure(config: pytest.Config) -> None:
    """Clean the environment, unless this is no run of the tests: the queue of this repository loads this file too."""
    if not config.getoption("sgpu_conf", None):
        for name in [name for name in os.environ if _FOREIGN.fullmatch(name)]:
            del os.environ[name]
        _register_profiles()
    if hasattr(config, "workerinput"):
        threading.Thread(target=_watch, daemon=True).start()


def _register_profiles() -> None:
    """Make the profiles: time is no criterion on a shared machine.

    The usual one takes the same examples in every run, so that a change fails for what it does and not by chance.
    HYPOTHESIS_PROFILE=full looks harder, and elsewhere each time; it is for finding what nobody thought of.
    """
    from hypothesis import HealthCheck, settings

    patient = settings(derandomize=False, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
    settings.register_profile("quick", patient, max_examples=50, derandomize=True, database=None)
    settings.register_profile("full", patient, max_examples=400)
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


# A test that hangs must not hold CI for hours. In a worker of pytest-xdist its process is ended: xdist then names
# the test, counts it as failed and goes on. (pytest's own faulthandler_exit_on_timeout is not in pytest 8.)
_LIMIT = 300.0
_begun: list[float] = []


def _watch() -> None:
    while True:
        time.sleep(5)
        if any(time.monotonic() - begun > _LIMIT for begun in _begun):
            os._exit(70)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Generator[None, object, object]:
    """Note when a test began, for the watch."""
    _begun[:] = [time.monotonic()]
    try:
        return (yield)
    finally:
        _begun.clear()
