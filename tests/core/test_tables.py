"""The text formats: what is written is read back, and nothing that is read can end a run."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sgpu.core import tables
from pytest_sgpu.core.redact import Redactor
from pytest_sgpu.core.tables import QueueRow, Timing
from pytest_sgpu.core.text import is_plain
from pytest_sgpu.model import (
    UNKNOWN,
    Census,
    Estimate,
    Item,
    Key,
    Notice,
    Outcome,
    PlanEntry,
    Scope,
    Status,
    WeightTable,
)

SCOPE = Scope("cpu", "1")
LABELS = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,8}", fullmatch=True)
TAGS = st.text(st.characters(exclude_categories=["C", "Z"]) | st.sampled_from("*[]\\#/%"), max_size=9).filter(
    is_plain  # a key that cannot be shown is left out
) | st.sampled_from(["", "whole", "\\whole", "a b"])
KEYS = st.builds(Key, LABELS, TAGS).filter(lambda key: key.tag.strip() != "-")
WILD = st.text("ab\\\t\n\r#w ", max_size=6)
WILD_KEYS = st.builds(Key, WILD.filter(bool), WILD)
TENTHS = st.integers(0, 10**9).map(lambda tenths: tenths / 10)
ESTIMATES = st.just(UNKNOWN) | st.builds(Estimate, TENTHS, known=st.just(True))


def parse(text: str | bytes) -> tuple[WeightTable, tuple[Notice, ...], bool]:
    return tables.parse_weights(text.encode() if isinstance(text, str) else text, "w.txt", SCOPE)


def entries(text: str | bytes) -> dict[str, float]:
    table, _, newer = parse(text)
    assert table.scope == SCOPE
    assert not newer
    return {str(key): seconds for key, seconds in table.entries.items()}


DAMAGED = (
    b"s/c 30.0\n\n# a comment\n12.5\ns/a\ns/a nan\ns/b inf\ns/d -3\ns/e 1e3\ns/f 1,5\ns/f 10.0\r\n"
    b"other suite/with space 3.0\nz/unknown 7.0\ns/c 31.0\n\0\1\2\n\xff\xfe 9.0\ns/b"
)


def test_a_damaged_table():
    """The table of the case of that name: a warning for each bad line, and every good line is kept."""
    _, notices, _ = parse(DAMAGED)
    assert entries(DAMAGED) == {
        "s/c": 31.0,
        "s/e": 1000.0,
        "s/f": 10.0,
        "other suite/with space": 3.0,
        "z/unknown": 7.0,
    }
    assert [str(notice) for notice in notices] == [
        "w.txt:4: no key, only a number: '12.5'; this weight is left out",
        "w.txt:5: no seconds behind the key: 's/a'; this weight is left out",
        "w.txt:6: 'nan' is no number of seconds; this weight is left out",
        "w.txt:7: 'inf' is no number of seconds; this weight is left out",
        "w.txt:8: '-3' is negative; this weight is left out",
        "w.txt:10: '1,5' is no number of seconds; this weight is left out",
        "w.txt:14: s/c was in line 1 already; the last one counts, 31.0",
        r"w.txt:15: control characters, or invisible ones: '\x00\x01\x02'; this weight is left out",
        r"w.txt:16: not UTF-8: '\xff\xfe 9.0'; this weight is left out",
        "w.txt:17: no seconds behind the key: 's/b'; this weight is left out",
    ]


@pytest.mark.parametrize(
    ("line", "seconds"),
    [
        ("k 1", 1.0),
        ("k +1.5", 1.5),
        ("k .5", 0.5),
        ("k 5.", 5.0),
        ("k 1e-3", 0.001),
        ("  k\t 2.0 \r", 2.0),
        ("k -0.0", 0.0),
        ("\ufeffk 999999", 999999.0),
    ],
)
def test_numbers(line, seconds):
    assert str(entries(line)) == str({"k": seconds})


@pytest.mark.parametrize("value", ["1e999", "1e10", "1_0", "0x1", "\u0661", "infinity", "NaN", "1.0.0", "-1e-9", "--1"])
def test_what_is_no_number(value):
    _, (notice,), _ = parse(f"k {value}\n")
    assert notice.where == "w.txt:1"
    assert entries(f"k {value}") == {}


@pytest.mark.parametrize("words", ["/x", "s/", "/", "a\x85b", "a\u2028b"])
def test_what_is_no_key(words):
    assert entries(f"{words} 1.0") == {}


def test_versions():
    assert entries("# pytest-sgpu weights 1\nk 1.0") == {"k": 1.0}
    assert entries("k 1.0\n# pytest-sgpu weights 2") == {"k": 1.0}
    table, notices, newer = parse("# pytest-sgpu weights 2\r\nk 1.0 new")
    assert newer
    assert table == WeightTable(SCOPE)
    assert [str(notice) for notice in notices] == [
        "w.txt:1: a weight table of version 2, from a newer pytest-sgpu; not used"
    ]


def test_a_file_of_something_else_is_told_in_few_words():
    _, notices, _ = parse("rubbish\n" * 1000)
    assert len(notices) == 51
    assert str(notices[-1]) == "w.txt: and 950 more lines with something wrong"


def test_the_order_of_weights():
    table = WeightTable(
        SCOPE,
        {Key("b"): 2.0, Key("a", "z"): 2.04, Key("a", "y"): 2.0, Key("c"): 1000.26, Key("d"): 0.0},
    )
    assert tables.format_weights(table) == "c 1000.3\na/y 2.0\na/z 2.0\nb 2.0\nd 0.0\n"


def test_what_could_not_be_read_back_is_not_written():
    bad = [
        Key("a", "b\nc"),
        Key("#a"),
        Key("a", "\udc80"),
        Key("a", "\ud800"),
        Key("a/b", "c"),
        Key("a", "x\ty"),
        Key(""),
    ]
    table = WeightTable(
        SCOPE, dict.fromkeys(bad, 1.0) | {Key("n"): float("nan"), Key("i"): float("inf"), Key("k"): 1.0}
    )
    assert tables.format_weights(table) == "k 1.0\n"


@given(st.dictionaries(KEYS, TENTHS))
def test_weights_come_back(entries):
    table = WeightTable(SCOPE, entries)
    text = tables.format_weights(table)
    back, notices, newer = tables.parse_weights(text.encode(), "w", SCOPE)
    assert (back, notices, newer) == (table, (), False)
    values = [float(line.rpartition(" ")[2]) for line in text.splitlines()]
    assert values == sorted(values, reverse=True)


@given(st.dictionaries(KEYS | WILD_KEYS, st.floats(0, 1e8)))
def test_writing_what_was_read_changes_nothing(entries):
    text = tables.format_weights(WeightTable(SCOPE, entries))
    back, notices, _ = tables.parse_weights(text.encode(), "w", SCOPE)
    assert notices == ()
    assert tables.format_weights(back) == text
    assert all(abs(seconds - entries[key]) <= 0.0500001 for key, seconds in back.entries.items())


LINES = st.lists(
    st.sampled_from(["s/a", " ", "1.5", "\t", "\n", "\r", "nan", "#", "-", "\\", "whole", "'", "0", "é"])
).map("".join)


@given(st.binary() | LINES.map(str.encode) | st.text().map(str.encode))
def test_any_bytes_are_a_weight_table(data):
    table, notices, _ = tables.parse_weights(data, "w", SCOPE)
    assert all(0 <= seconds < float("inf") for seconds in table.entries.values())
    assert all(is_plain(str(notice)) for notice in notices)


def entry(key: Key, estimate: Estimate, command: tuple[str, ...] = ("./a.sh",), gpus: int = 1) -> PlanEntry:
    return PlanEntry(1, Item(key, command, gpus, 0), estimate)


def test_queue():
    rows = [
        entry(Key("a", "new"), UNKNOWN, ("./a.sh", "-x", "a b")),
        entry(Key("a", "guess"), Estimate(5.0, known=False)),
        entry(Key("core"), Estimate(1251.0, known=True), gpus=2),
        entry(Key("b", "whole"), Estimate(999999.0, known=True)),
    ]
    text = tables.format_queue(rows)
    assert text == (
        "999999\ta\t./a.sh\tnew\t-x 'a b'\t1\n"
        "999999\ta\t./a.sh\tguess\t\t1\n"
        "1251.0\tcore\t./a.sh\twhole\t\t2\n"
        "999999.0\tb\t./a.sh\t\\whole\t\t1\n"
    )
    back, notices = tables.parse_queue(text)
    assert notices == ()
    assert back[0] == QueueRow(Key("a", "new"), ("./a.sh", "-x", "a b"), 1, UNKNOWN)
    assert back[2] == QueueRow(Key("core"), ("./a.sh",), 2, Estimate(1251.0, known=True))
    assert back[3] == QueueRow(Key("b", "whole"), ("./a.sh",), 1, Estimate(999999.0, known=True))


def test_the_queue_has_no_secrets_in_its_commands():
    clean = Redactor({"A_TOKEN": "conf tok8899"}).text
    command = ("./conf tok8899.sh", "--token=conf tok8899", "https://bob:pw44@h/?sig=x", "b")
    text = tables.format_queue([entry(Key("a", "conf tok8899"), UNKNOWN, command)], clean)
    assert tables.parse_queue(text)[0] == (
        QueueRow(Key("a", "conf tok8899"), ("./***.sh", "--token=***", "https://***@h/?sig=***", "b"), 1, UNKNOWN),
    )


@given(
    st.lists(
        st.builds(
            entry,
            KEYS | WILD_KEYS,
            ESTIMATES,
            st.lists(st.text(), min_size=1).map(tuple),
            st.integers(1, 9),
        )
    )
)
def test_the_queue_comes_back(rows):
    back, notices = tables.parse_queue(tables.format_queue(rows))
    assert notices == ()
    assert back == tuple(QueueRow(r.item.key, r.item.command, r.item.gpus, r.estimate) for r in rows)


def test_items():
    known = frozenset({Key("b", "x"), Key("a", "y"), Key("core"), Key("a", "whole")})
    text = tables.format_items(Census(frozenset({Key("a", "run")}), known, frozenset()))
    assert text == "a\trun\na\t\\whole\na\ty\nb\tx\ncore\twhole\n"
    assert tables.parse_items(text) == (known | {Key("a", "run")}, ())


@given(st.frozensets(KEYS | WILD_KEYS))
def test_items_come_back(known):
    assert tables.parse_items(tables.format_items(Census(frozenset(), known, frozenset()))) == (known, ())


ROW = Timing(Key("a", "x"), ("0", "GPU-5f"), 12.25, 1, 0.5, 12.75, Estimate(10.0, known=True), incomplete=False)


def test_timings():
    bare = Timing(Key("core"), (), 0.0, None, None, None, Estimate(3.0, known=False), incomplete=True)
    text = tables.format_timing(ROW) + tables.format_timing(bare)
    assert text == ("a\tx\t0,GPU-5f\t12.250\t1\t0.500\t12.750\t10.0\t0\ncore\twhole\t-\t0.000\t-\t-\t-\t-\t1\n")
    back, notices = tables.parse_timings(text)
    assert notices == ()
    assert back == (ROW, Timing(Key("core"), (), 0.0, None, None, None, UNKNOWN, incomplete=True))


def test_timing_of_an_outcome():
    outcome = Outcome(Key("a", "x"), Status.TIMED_OUT, None, 1.0, 3.5, devices=("gpu0", "gpu1"))
    row = tables.timing(outcome, {"gpu0": "GPU-5f"})
    assert row == Timing(Key("a", "x"), ("GPU-5f", "gpu1"), 2.5, 124, 1.0, 3.5, UNKNOWN, incomplete=True)
    assert tables.timing(outcome).devices == ("gpu0", "gpu1")


MILLIS = st.integers(0, 10**9).map(lambda millis: millis / 1000)


@given(
    st.builds(
        Timing,
        KEYS | WILD_KEYS,
        st.lists(st.text("ab\t\\", min_size=1)).map(tuple),
        MILLIS,
        st.none() | st.integers(-99, 255),
        st.none() | MILLIS,
        st.none() | MILLIS,
        ESTIMATES,
        st.booleans(),
    )
)
def test_timings_come_back(row):
    assert tables.parse_timings(tables.format_timing(row)) == ((row,), ())


def test_readers_skip_what_they_do_not_know():
    assert tables.parse_items("# version 7\n\r\n\na\tx\tmore\tcolumns\r\n") == (frozenset({Key("a", "x")}), ())
    assert tables.parse_timings(tables.format_timing(ROW).rstrip("\n") + "\tnew\n") == ((ROW,), ())


@pytest.mark.parametrize(
    ("read", "line", "said"),
    [
        (tables.parse_items, "a", "items.tsv:2: 1 columns where 2 are expected; this line is left out"),
        (tables.parse_items, "a\t", "items.tsv:2: no label or no tag; this line is left out"),
        (tables.parse_queue, "1.0\ta\tc\tt\t'\t1", "queue.tsv:2: ''' is no list of arguments; this line is left out"),
        (tables.parse_queue, "1.0\ta\tc\tt\t\tx", "queue.tsv:2: 'x' is no whole number; this line is left out"),
        (tables.parse_queue, "nan\ta\tc\tt\t\t1", "queue.tsv:2: 'nan' is no number of seconds; this line is left out"),
        (
            tables.parse_timings,
            "a\tx\t-\t1.0\t0\t0.0\t1.0\t-\t7",
            "timings.tsv:2: '7' is neither 0 nor 1; this line is left out",
        ),
    ],
)
def test_bad_lines_are_told(read, line, said):
    rows, notices = read(f"\n{line}\n")
    assert not rows
    assert [str(notice) for notice in notices] == [said]


@given(st.text() | LINES | st.lists(st.sampled_from(["a", "\t", "1", "-", "\n", "'", "\\"])).map("".join))
def test_any_text_is_a_table(text):
    for read in (tables.parse_queue, tables.parse_items, tables.parse_timings):
        _, notices = read(text)
        assert all(is_plain(str(notice)) for notice in notices)
