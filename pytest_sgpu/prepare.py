"""What happens before anything runs: conf, devices, listings, weights, plan. Writes nothing."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pytest_sgpu.core import conf, items, plan
from pytest_sgpu.core.limits import Limits
from pytest_sgpu.core.text import printable, shown
from pytest_sgpu.core.verdict import Policy
from pytest_sgpu.engine import devices, scripts
from pytest_sgpu.engine.files import read_regular
from pytest_sgpu.engine.store import RunDirectory, why
from pytest_sgpu.engine.weight_file import WeightPlace, read_weights, weight_place
from pytest_sgpu.errors import ConfError, OptionError, StoreError
from pytest_sgpu.model import Census, Device, Item, Key, Mode, Notice, Plan, Scope, Suite, WeightTable

_LARGEST_CONF = 16 << 20  # bytes; a conf file has a line per suite
GRACE = 4.0  # seconds between SIGTERM and SIGKILL: what a CI service leaves of its ten, with time to write
DEFAULT_LEVEL = "99"  # what the suite scripts take an unset or empty TEST_LEVEL for


@dataclass(frozen=True, slots=True)
class Options:
    """What the caller asked for. ``root`` is the directory that suite commands are relative to.

    ``grace``: seconds between SIGTERM and SIGKILL. ``budget``: seconds for the whole run, None without
    limit. ``health_cmd``: what tells whether a device is well, () for nothing. ``resume``: go on with the
    run in ``log_dir``; ``force``: also when conf, plan or commit have changed.
    """

    confs: tuple[Path, ...]
    root: Path
    log_dir: Path
    weights: Path
    env: Mapping[str, str]
    gpus: str | None = None
    suites: tuple[str, ...] | None = None
    policy: Policy = field(default_factory=Policy)
    writes: bool = True
    conf_names: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)
    grace: float = GRACE
    retries: int = 0
    flaky_fails: bool = False
    quarantine: bool = True
    health_cmd: tuple[str, ...] = ()
    budget: float | None = None
    resume: bool = False
    force: bool = False


@dataclass(frozen=True, slots=True)
class Prepared:
    """Everything that is known before the run. ``items`` are in listing order, of selected suites only.

    ``digest`` stands for the text of the conf files.
    """

    options: Options
    labels: tuple[str, ...]
    suites: tuple[Suite, ...]
    argv: Mapping[str, tuple[str, ...]]
    items: tuple[Item, ...]
    census: Census
    devices: tuple[Device, ...]
    scope: Scope
    table: WeightTable
    place: WeightPlace
    notices: tuple[Notice, ...]
    digest: str = ""

    def suite(self, key: Key) -> Suite:
        """Give the suite that an item belongs to."""
        return next(suite for suite in self.suites if suite.label == key.suite)

    def opaque(self, key: Key) -> bool:
        """Whether an item is a whole opaque suite."""
        return self.suite(key).mode is Mode.OPAQUE

    def wanted_by_filter(self, item: Item) -> bool:
        """Whether the caller's TEST_FILTER selects an item, by the rule that the suite scripts use."""
        return items.filter_matches(self.options.env.get("TEST_FILTER", ""), item.key.tag)


def prepare(options: Options) -> Prepared:
    """Phases 0 to 2 of the queue: everything that can be wrong is found here, before anything runs.

    Raises SgpuError of the kind that fits: ConfError, OptionError, DeviceError, ListingError, StoreError.
    """
    texts = _texts(options)
    everything = conf.parse_all(texts)
    suites = conf.select(everything, options.suites) if options.suites is not None else everything
    argv = {suite.label: scripts.resolve(suite, options.root, options.env) for suite in suites}
    level = _level(options.env)
    pool = devices.pool(options.env, options.gpus)
    _check_place(options)
    listings = scripts.list_all([suite for suite in suites if suite.mode is Mode.LIST], options.root, options.env)
    found, census, listing_notices = items.build(suites, listings)
    scope = Scope(pool.arch, level)
    place, place_notices = weight_place(options.weights, scope)
    table, table_notices, _ = read_weights(place.read, scope)
    return Prepared(
        options=options,
        labels=tuple(suite.label for suite in everything),
        suites=suites,
        argv=argv,
        items=found,
        census=census,
        devices=pool.devices,
        scope=scope,
        table=table,
        place=place,
        notices=(*pool.notices, *listing_notices, *place_notices, *table_notices, *_idle_globs(options, census)),
        digest=_digest(texts),
    )


def _check_place(options: Options) -> None:
    directory = RunDirectory(options.log_dir)
    if options.writes:
        directory.check()
    if options.resume and not directory.holds_run:
        raise StoreError(
            f"{options.log_dir}: no run has left its journal here, so there is none to go on with",
            "name its run directory with --sgpu-resume=DIR, or start a run without --sgpu-resume",
        )


def _idle_globs(options: Options, census: Census) -> list[Notice]:
    """Say which globs of ``sgpu_allow_empty`` excuse nothing; a slip there turns into a red run much later."""
    if options.suites is not None:
        return []  # it may be about a suite that is left out
    keys = census.runnable | census.known
    return [
        Notice(f"matches no key: {shown(glob)}; it goes by the whole key, as in suite/tag", "sgpu_allow_empty")
        for glob in options.policy.allow_empty
        if not any(Policy((glob,)).excuses(key) for key in keys)
    ]


def make_plan(prepared: Prepared, chosen: Sequence[Item], *, keep_order: bool) -> Plan:
    """Order the chosen items: longest first, or just as they come when the caller ordered them (--ff)."""
    devices_ = len(prepared.devices)
    if keep_order:
        return plan.fixed(chosen, prepared.table, devices_)
    return plan.order(chosen, prepared.table, devices_)


def _texts(options: Options) -> list[tuple[str, str]]:
    texts = []
    for name, path in zip(options.conf_names, options.confs, strict=True):
        shown_name = printable(name) or "--sgpu-conf="
        try:
            data = read_regular(path, most=_LARGEST_CONF)
        except (OSError, ValueError) as error:
            raise ConfError(
                f"{shown_name}: the conf file cannot be read: {why(error)}", "check --sgpu-conf=FILE"
            ) from None
        try:
            texts.append((name, data.decode("utf-8-sig")))
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise ConfError(
                f"{shown_name}:{line}: not UTF-8 text (byte 0x{data[error.start]:02x})", "save it as UTF-8"
            ) from None
    return texts


def _digest(texts: Sequence[tuple[str, str]]) -> str:
    """Give a short hash of the conf files' contents; where they lie does not matter."""
    parts = (hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest() for _, text in texts)
    return hashlib.sha256(b"".join(parts)).hexdigest()[:16]


def _level(env: Mapping[str, str]) -> str:
    level = env.get("TEST_LEVEL", "") or DEFAULT_LEVEL
    if not re.fullmatch(r"[0-9]{1,9}", level):
        raise OptionError(
            f"TEST_LEVEL={shown(level)} is no level: a whole number of at most 9 digits, such as 1 or 3, is expected",
            f"unset it to run everything (level {DEFAULT_LEVEL})",
        )
    return str(int(level))
