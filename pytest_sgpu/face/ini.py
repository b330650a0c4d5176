"""The ini keys of a queue: read as text, or refused by name.

A TOML file may give a key a number or a list. What pytest makes of that differs by its version and by the
table that the key stands in: the raw value, an error, or a warning. Here it is one usage error.
"""

from __future__ import annotations

import pytest

from pytest_sgpu.core.text import shown

# A value for each key that is one text, as an example in the message.
EXAMPLES = {
    "sgpu_plan": "text",
    "sgpu_gpus": "2",
    "sgpu_log_dir": "test-results/logs",
    "sgpu_weights": "ci-weights",
    "sgpu_suites": "a,b",
    "sgpu_timeout": "15m",
    "sgpu_stall": "90",
    "sgpu_grace": "4",
    "sgpu_budget": "45m",
    "sgpu_retries": "1",
    "sgpu_flaky": "fail",
    "sgpu_quarantine": "off",
    "sgpu_health_cmd": "./health.sh",
    "sgpu_leaks": "fail",
    "sgpu_junit_failures": "fail",
}
LISTS = {"sgpu_conf": "suite.conf", "sgpu_allow_empty": "bench/*"}


def text(config: pytest.Config, name: str) -> str:
    """Give the value of a key, "" when it is not set. Raises UsageError for anything but one text."""
    expected = f'expected one text, such as "{EXAMPLES[name]}"'
    value = _value(config, name, expected)
    if not isinstance(value, str):
        raise _wrong(name, value, expected)
    return value


def words(config: pytest.Config, name: str) -> tuple[str, ...]:
    """Give the values of a key that may have several. Raises UsageError for anything but texts."""
    expected = f'expected a list of texts, such as ["{LISTS[name]}"]'
    value = _value(config, name, expected)
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise _wrong(name, value, expected)
    return tuple(value)


def _value(config: pytest.Config, name: str, expected: str) -> object:
    try:
        return config.getini(name)
    except (TypeError, ValueError, AssertionError, pytest.UsageError, Warning) as error:
        raise pytest.UsageError(f"{name} in the ini-file: {expected}; pytest says: {error}") from None


def _wrong(name: str, value: object, expected: str) -> pytest.UsageError:
    what = "a list" if isinstance(value, list) else "no text"
    return pytest.UsageError(f"{name} in the ini-file: {shown(repr(value), 80)} is {what}; {expected}")
