from __future__ import annotations

import posixpath
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from pytest_sgpu.core.junit_place import junit_place

TAGS = st.one_of(
    st.lists(st.sampled_from(["..", ".", "", "a", "b.c", "..x"]), min_size=1, max_size=6).map("/".join),
    st.text(st.characters(blacklist_categories=["Cs", "Cc", "Z"]), min_size=1, max_size=20),
).filter(bool)


def test_a_plain_tag_has_the_plain_place():
    assert junit_place("/r/junit/torch", "test_numerics.ck") == (
        "/r/junit/torch/",
        "/r/junit/torch/test_numerics.ck.xml",
        "/r/junit/torch",
    )
    assert junit_place("/r/j", "..").file == "/r/j/...xml"


def test_a_tag_with_a_slash_has_a_private_folder():
    place = junit_place("/r/j", "a/b")
    assert place.prefix.startswith("/r/j/")
    assert place.file == f"{place.prefix}a/b.xml"
    assert place.folder == f"{place.prefix}a"


def test_a_tag_that_climbs_stays_inside():
    place = junit_place("/r/j", "../../x")
    private = place.prefix.split("/_/")[0]
    assert place.prefix == f"{private}/_/_/"
    assert place.file == f"{private}/x.xml"


@given(TAGS)
def test_what_the_script_writes_is_the_file_and_lies_inside(tag):
    with tempfile.TemporaryDirectory() as name:
        top = Path(name).resolve()
        folder = f"{top}/in/junit"
        place = junit_place(folder, tag)
        Path(place.folder).mkdir(parents=True, exist_ok=True)
        Path(f"{place.prefix}{tag}.xml").touch(exist_ok=False)
        assert Path(place.file).is_file()
        assert posixpath.commonpath([place.file, folder]) == folder
        assert [path.name for path in top.iterdir()] == ["in"]
        assert [path.name for path in (top / "in").iterdir()] == ["junit"]


@given(TAGS, TAGS)
def test_two_tags_never_share_a_file(one, other):
    if one != other:
        first, second = junit_place("/r", one), junit_place("/r", other)
        assert first.file != second.file
        assert not second.folder.startswith(first.file)
