"""Where an item's JUnit file goes. A tag is data, also when it looks like a path."""

from __future__ import annotations

import posixpath
from typing import NamedTuple

from pytest_sgpu.core.names import file_name


class JunitPlace(NamedTuple):
    """``prefix`` is for ``JUNITXML_PREFIX``; the script then writes ``file``, once ``folder`` exists.

    ``folder`` is to be made with its parents and as it is spelled: ``a/..`` is a way through ``a``.
    """

    prefix: str
    file: str
    folder: str


def junit_place(folder: str, tag: str, suffix: str = ".xml") -> JunitPlace:
    """Give the place where a script that writes ``<prefix><tag><suffix>`` will leave the file of ``tag``.

    It lies inside ``folder`` whatever the tag is, and no other tag of the suite has the same. A tag without
    a slash has ``<folder>/<tag>.xml``. One with a slash gets a private folder, as deep as the tag climbs.
    """
    if "/" not in tag:
        prefix = f"{folder}/"
        return JunitPlace(prefix, f"{prefix}{tag}{suffix}", folder)
    # No file of another tag has such a name: those end in the suffix.
    private = f"{folder}/{file_name(tag)}.d/"
    prefix = private + "_/" * tag.split("/").count("..")
    written = f"{prefix}{tag}{suffix}"
    return JunitPlace(prefix, posixpath.normpath(written), posixpath.dirname(written))
