from __future__ import annotations

from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from pytest_sgpu.core import hints, plan
from pytest_sgpu.core.crew import Crew
from pytest_sgpu.core.lines import Line, Memory, remember
from pytest_sgpu.core.waiting import Queue, Waiting
from pytest_sgpu.model import Estimate, Item, Key, Outcome, PlanEntry, Scope, Status, WeightTable

TAGS = [f"test_{file}.{backend}{label}" for file in "ab" for backend in ("ck", "flash", "auto") for label in ("", ".x")]
KEYS = [Key(suite, tag) for suite in "st" for tag in (*TAGS, "plain")] + [Key("core"), Key("more")]


def made(keys, entries=()):
    items = [Item(key, ("x",), 1, position) for position, key in enumerate(keys)]
    return plan.order(items, WeightTable(Scope("cpu", "1"), dict(entries)), 2)


def names(waiting):
    return [str(waiting.pop().item.key) for _ in range(len(waiting))]


def cold(*tags):
    return Waiting(made([Key("t", tag) for tag in tags]).entries, reorder=True)


class Slow:
    """The rules as they read: look at everything each time."""

    def __init__(self, entries):
        self.entries = list(entries)
        self.order = list(entries)
        self.hints = hints.Hints()

    def rank(self, entry):
        of = hints.kin(entry.item.key)
        if of is None:
            return (0, 0.0, entry.rank)
        longest = self.hints.longest(of)
        if entry.estimate.seconds is not None or self.hints.guess(of) is not None:
            table = max(
                (
                    other.estimate.seconds
                    for other in self.order
                    if not other.estimate.known and other.estimate.seconds is not None
                    if (kin := hints.kin(other.item.key)) is not None and kin.file == of.file
                ),
                default=0.0,
            )
            return (2, -max(longest, table), entry.rank)
        return (1, -longest, entry.rank)

    def pop(self):
        first = self.entries[0]
        unknown = [entry for entry in self.entries if not entry.estimate.known]
        best = first if first.estimate.known else min(unknown, key=self.rank)
        self.entries.remove(best)
        return best


@given(st.permutations(KEYS), st.dictionaries(st.sampled_from(KEYS), st.floats(0, 99)), st.data())
def test_re_ranking_is_what_the_rules_say(keys, table, data):
    entries = made(keys, table).entries
    fast, slow = Waiting(entries, reorder=True), Slow(entries)
    while len(fast):
        assert fast.rest() == tuple(slow.entries)
        if data.draw(st.booleans()):
            key, seconds = data.draw(st.sampled_from(KEYS)), data.draw(st.sampled_from([0.0, 1.0, 5.0, 50.0, 500.0]))
            fast.learn(key, seconds)
            slow.hints.learn(key, seconds)
        assert fast.pop() == slow.pop()


@given(st.permutations(KEYS), st.dictionaries(st.sampled_from(KEYS), st.floats(0, 99)))
def test_before_anything_is_measured_the_plan_holds(keys, table):
    entries = made(keys, table).entries
    for reorder in (True, False):
        waiting = Waiting(entries, reorder=reorder)
        assert tuple(waiting.pop() for _ in entries) == entries


@given(st.permutations(KEYS), st.lists(st.sampled_from(KEYS)))
def test_without_reorder_the_plan_holds(keys, learned):
    entries = made(keys).entries
    waiting = Waiting(entries, reorder=False)
    for key in learned:
        waiting.learn(key, 1.0)
    assert tuple(waiting.pop() for _ in entries) == entries


def test_the_file_of_a_long_item_comes_next_and_its_twins_last():
    waiting = cold("test_a.ck", "test_b.ck", "test_b.flash", "test_b.ck.label", "test_c.ck")
    assert str(waiting.pop().item.key) == "t/test_a.ck"
    waiting.learn(Key("t", "test_b.ck"), 70.0)
    assert names(waiting) == ["t/test_b.ck.label", "t/test_c.ck", "t/test_b.ck", "t/test_b.flash"]


def test_guessed_items_go_longest_first():
    waiting = cold("test_a.ck", "test_a.flash", "test_b.ck", "test_b.flash")
    waiting.learn(Key("t", "test_a.ck"), 7.0)
    waiting.learn(Key("t", "test_b.ck"), 70.0)
    assert names(waiting) == ["t/test_b.ck", "t/test_b.flash", "t/test_a.ck", "t/test_a.flash"]


def test_unknown_items_keep_their_places_among_known_ones():
    known = Estimate(3.0, known=True)
    entries = [
        PlanEntry(rank, Item(Key("t", tag), ("x",), 1, rank), estimate)
        for rank, (tag, estimate) in enumerate(
            [("k1", known), ("test_a.ck", Estimate(None, False)), ("k2", known), ("test_b.ck", Estimate(None, False))],
            start=4,  # ranks need not count from 1, when a suite was taken out
        )
    ]
    waiting = Waiting(entries, reorder=True)
    waiting.learn(Key("t", "test_b.flash.label"), 9.0)
    assert names(waiting) == ["t/k1", "t/test_b.ck", "t/k2", "t/test_a.ck"]


def test_clear_takes_all_that_is_left():
    waiting = cold("a", "b", "c")
    waiting.pop()
    assert [entry.item.key.tag for entry in waiting.clear()] == ["b", "c"]
    assert not waiting
    assert waiting.rest() == () == waiting.clear()


# -- lines and the queue ------------------------------------------------------------------------------


def waiting_for(tag, *avoid):
    entry = PlanEntry(1, Item(Key("t", tag), ("x",), 1, 0), Estimate(None, known=False))
    memory = Memory(entry)
    memory.avoid = avoid
    return memory


def tags(memories):
    return [memory.entry.item.key.tag for memory in memories]


def differs(name, avoid):
    return name not in avoid


@given(
    st.lists(
        st.one_of(
            st.lists(st.sampled_from(["w0", "w1", "w2"]), max_size=3, unique=True),
            st.sampled_from(["w0", "w1", "w2"]),
        ),
        max_size=60,
    )
)
def test_a_line_serves_the_first_that_fits(steps):
    line: Line = Line()
    slow: list[Memory] = []
    for number, step in enumerate(steps):
        if isinstance(step, list):
            memory = waiting_for(str(number), *step)
            line.add(memory)
            slow.append(memory)
        else:
            expected = next((one for one in slow if step not in one.avoid), None)
            assert line.take(partial(differs, step)) is expected
            if expected is not None:
                slow.remove(expected)
        assert len(line) == len(slow)
        assert list(line.all()) == slow
    assert list(line.clear()) == slow
    assert not line
    assert line.take(lambda _: True) is None


def test_a_mass_of_retries_costs_little_for_a_worker_that_none_of_them_fits():
    """All of them avoid the same worker: one look, not one for each."""
    line = Line()
    for number in range(1000):
        line.add(waiting_for(str(number), "w0"))
    looks = []

    def look(avoid):
        looks.append(avoid)
        return False

    assert line.take(look) is None
    assert looks == [("w0",)]


def test_the_queue_serves_probes_then_what_was_cut_off_then_the_plan_then_retries():
    queue = Queue(made([Key("t", "plan")]).entries, {}, reorder=True)
    crew = Crew(3, 0)
    probe = waiting_for("probe", "w1")
    probe.probe = "w1"
    for memory, why in ((waiting_for("retry"), "retry"), (waiting_for("cut off"), "lost"), (probe, "probe")):
        queue.add(memory, why)
    order = ["probe", "cut off", "plan", "retry"]
    assert [entry.item.key.tag for entry in queue.rest()] == order
    assert len(queue) == 4
    found = []
    while taken := queue.take("w0", crew):
        found.append(taken[0].item.key.tag)
    assert found == order
    assert len(queue) == 0


def test_clearing_the_queue_gives_everything_with_what_is_known_of_it():
    key = Key("t", "plan")
    entries = made([key]).entries
    queue = Queue(entries, remember(entries, {key: 2}, {}), reorder=False)
    queue.add(waiting_for("retry"), "retry")
    queue.add(waiting_for("cut off"), "lost")
    found = queue.clear()
    assert [entry.item.key.tag for entry, _ in found] == ["cut off", "plan", "retry"]
    assert [memory.tried for _, memory in found if memory] == [0, 2, 0]
    assert queue.take("w0", Crew(1, 0)) is None
    assert queue.clear() == []


def test_failures_of_earlier_parts_are_remembered_with_their_workers():
    key = Key("t", "a")
    entries = made([key, Key("t", "b")]).entries
    failures = [Outcome(key, Status.FAILED, worker=worker) for worker in ("w0", "w1", "w0")]
    assert remember(entries, {}, {}) == {}
    memory = remember(entries, {}, {key: failures, Key("t", "gone"): failures})[key]
    assert (memory.tried, memory.failures, memory.avoid) == (0, failures, ("w1", "w0"))
