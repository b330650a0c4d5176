"""The environment of a suite script: in list mode, for its setup, and for each item.

Pure. The table of variables is that of the suite protocol (spec: queue, 1). What the caller's own session
set for itself is taken out first: a filter, a mask or pytest options that leak into an item silently drop
tests.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from pytest_sgpu.core import masks
from pytest_sgpu.core.items import glob_escape
from pytest_sgpu.model import Device, Key

MARKER = "PYTEST_SGPU_ITEM"
"""Set in everything that the queue starts. The plugin does nothing under it, so no queue starts a queue."""

ITEM_ADDOPTS = "SGPU_ITEM_ADDOPTS"
"""What the caller wants the items' own pytest to get as ``PYTEST_ADDOPTS``."""

# Set by the scheduler, or said to the pytest that runs the queue and to no other.
_NOT_INHERITED = re.compile(
    r"TE_CI_(LIST_ITEMS|SKIP_CHECK_SUPPORTED|SETUP_ONLY|SKIP_SETUP|TAG|JUNITXML|GPUS)"
    r"|TEST_FILTER|JUNITXML_(PREFIX|SUFFIX)"
    r"|PYTEST_(ADDOPTS|CURRENT_TEST|VERSION|XDIST_.*)|SGPU_ITEM_ADDOPTS"
)
_OURS = re.compile(r"sgpu|pytest_sgpu.*")


def base(env: Mapping[str, str]) -> dict[str, str]:
    """Give the caller's environment without what is not for items: the protocol, masks, pytest's own state.

    ``PYTEST_ADDOPTS`` is addressed to the pytest that runs the queue and stays there; ``SGPU_ITEM_ADDOPTS``
    takes its place. Everything else passes through untouched, ``TEST_LEVEL`` and ``PYTEST_TIMEOUT`` too.
    A caller who chose no family of lines gets the single-GPU ones.
    """
    result = {
        name: value for name, value in env.items() if not _NOT_INHERITED.fullmatch(name) and name not in masks.ALL
    }
    if "TEST_SGPU" not in env and "TEST_MGPU" not in env:
        result |= {"TEST_SGPU": "1", "TEST_MGPU": ""}
    if ITEM_ADDOPTS in env:
        result["PYTEST_ADDOPTS"] = env[ITEM_ADDOPTS]
    plugins = [name.strip() for name in result.pop("PYTEST_PLUGINS", "").split(",")]
    others = [name for name in plugins if name and not _OURS.fullmatch(name)]
    if others:
        result["PYTEST_PLUGINS"] = ",".join(others)
    result[MARKER] = "1"
    return result


def listing(env: Mapping[str, str], *, known: bool) -> dict[str, str]:
    """Give the environment in which a suite lists its items; ``known``: those that exist, whatever runs here.

    It keeps the caller's masks: a script may list by what it sees.
    """
    result = base(env) | {name: env[name] for name in masks.ALL if name in env}
    result["TE_CI_LIST_ITEMS"] = "1"
    if known:
        result["TE_CI_SKIP_CHECK_SUPPORTED"] = "1"
    return result


def setup(env: Mapping[str, str], device: Device) -> dict[str, str]:
    """Give the environment in which a suite installs what it needs."""
    return base(env) | setup_overlay(device)


def setup_overlay(device: Device) -> dict[str, str]:
    """Give what a setup has on top of ``base``."""
    return device.pin() | {"TE_CI_SETUP_ONLY": "1"}


def health_overlay(device: Device) -> dict[str, str]:
    """Give what the health command has on top of ``base``: the mask of the device that it is about."""
    return device.pin()


def item(
    env: Mapping[str, str], item_key: Key, device: Device, *, junit_prefix: str, junit_suffix: str, opaque: bool
) -> dict[str, str]:
    """Give the environment of one item: its device, its JUnit file, and the filter that leaves only its line."""
    return base(env) | item_overlay(
        item_key, device, junit_prefix=junit_prefix, junit_suffix=junit_suffix, opaque=opaque
    )


def item_overlay(
    item_key: Key, device: Device, *, junit_prefix: str, junit_suffix: str, opaque: bool
) -> dict[str, str]:
    """Give what one item has on top of ``base``, which its worker holds already.

    An opaque suite knows neither filter nor a setup of its own, so it gets none of the two.
    """
    result = device.pin() | {"JUNITXML_PREFIX": junit_prefix, "JUNITXML_SUFFIX": junit_suffix}
    if not opaque:
        result |= {"TE_CI_SKIP_SETUP": "1", "TEST_FILTER": glob_escape(item_key.tag)}
    return result
