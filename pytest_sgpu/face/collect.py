"""Suites and items as pytest nodes, and positional arguments as node-id prefixes.

The collectors hang below the session and their node ids are given as text, so that an id does not
depend on the root directory and keeps its brackets (``--lf`` compares ids as text).
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from pytest_sgpu.core.names import node_id
from pytest_sgpu.core.text import one_line
from pytest_sgpu.model import Item, Key, Mode, Suite

SEPARATOR = "::"


class ConfCollector(pytest.Collector):
    """One conf file."""

    children: list[pytest.Collector | pytest.Item]

    def collect(self) -> Iterator[pytest.Collector | pytest.Item]:
        """Give the suites."""
        return iter(self.children)


class SuiteCollector(pytest.Collector):
    """One list suite."""

    children: list[pytest.Item]

    def collect(self) -> Iterator[pytest.Item]:
        """Give the items."""
        return iter(self.children)


class SgpuItem(pytest.Item):
    """One item of the queue. It never runs in this process; the session's loop hands it to a device."""

    entry: Item
    suite: Suite

    def runtest(self) -> None:
        """Refuse: only the queue's own loop can run this."""
        raise NotImplementedError("items of the queue run on its workers")

    def reportinfo(self) -> tuple[Path, int, str]:
        """Point at the conf line that the item comes from."""
        return self.path, self.suite.line - 1, str(self.entry.key)


def build(
    session: pytest.Session, suites: Sequence[Suite], items: Sequence[Item], paths: dict[str, Path]
) -> list[ConfCollector]:
    """Make the nodes of all items. ``paths`` maps the name of a conf file to its path.

    Labels are unique over all conf files, so ids are too, even when two files have the same name.
    """
    confs: dict[str, ConfCollector] = {}
    by_suite: dict[str, list[Item]] = {suite.label: [] for suite in suites}
    for item in items:
        by_suite[item.key.suite].append(item)
    for suite in suites:
        conf = confs.get(suite.conf)
        if conf is None:
            path = paths[suite.conf]
            conf = confs[suite.conf] = ConfCollector.from_parent(session, name=path.name, path=path, nodeid=path.name)
            conf.children = []
        conf.children += _suite_nodes(conf, suite, by_suite[suite.label])
    return list(confs.values())


def _suite_nodes(conf: ConfCollector, suite: Suite, items: Sequence[Item]) -> list[pytest.Collector | pytest.Item]:
    """Give the one item of an opaque suite, or the collector with the items of a list suite."""
    if suite.mode is Mode.OPAQUE:
        return [_item_node(conf, suite, item, suite.label) for item in items]
    if not items:
        return []
    nodeid = node_id(suite.conf, Key(suite.label))
    collector: SuiteCollector = SuiteCollector.from_parent(conf, name=suite.label, path=conf.path, nodeid=nodeid)
    collector.children = [_item_node(collector, suite, item, item.key.tag) for item in items]
    return [collector]


def _item_node(parent: pytest.Collector, suite: Suite, item: Item, name: str) -> SgpuItem:
    nodeid = node_id(suite.conf, item.key)
    node: SgpuItem = SgpuItem.from_parent(parent, name=name, path=parent.path, nodeid=nodeid)
    node.entry, node.suite = item, suite
    return node


def chosen_by_arguments(items: Sequence[SgpuItem], arguments: Sequence[str]) -> list[SgpuItem]:
    """Give the items whose node id is an argument, or lies below one. Raises UsageError for one without any."""
    wanted: set[str] = set()
    for argument in arguments:
        text = argument.rstrip(":")
        found = {item.nodeid for item in items if item.nodeid == text or item.nodeid.startswith(text + SEPARATOR)}
        if not found:
            raise pytest.UsageError(_not_found(argument, items))
        wanted |= found
    return [item for item in items if item.nodeid in wanted]


def _not_found(argument: str, items: Sequence[SgpuItem]) -> str:
    names = {item.nodeid for item in items}
    for nodeid in list(names):
        parts = nodeid.split(SEPARATOR)
        names.update(SEPARATOR.join(parts[:count]) for count in range(1, len(parts)))
    near = difflib.get_close_matches(argument, sorted(names), n=1, cutoff=0.85)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return (
        f"not found: {one_line(argument)}: with --sgpu-conf, arguments are node ids of the queue\n"
        f"  hint: {hint}--collect-only -q lists them all"
    )
