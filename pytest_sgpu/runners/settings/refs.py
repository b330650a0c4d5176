"""Names of git and of workflow files: which ones can be meant, before anyone is asked for them."""

from __future__ import annotations

import re
import unicodedata

from pytest_sgpu.errors import OptionError
from pytest_sgpu.runners.wording import found

_LONGEST = 1000
_FORBIDDEN = set(" ~^:?*[\\\x7f")
_SHA = re.compile(r"[0-9a-fA-F]{40}")
_FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*\.ya?ml")
_LONGEST_FILE = 255
_FOLDER = ".github/workflows/"
_FULL = re.compile(r"refs/[^/]+/.+", re.DOTALL)
_PULL = re.compile(r"(refs/)?pull/\d+/(head|merge)")
_BRANCH = "a branch or a tag, such as main or refs/tags/v1"


def workflow(name: str, text: str) -> str:
    """Check the file name of the child workflow (R8). Raises OptionError."""
    if len(text) <= _LONGEST_FILE and _FILE.fullmatch(text):
        return text
    hint = "the name of a file in .github/workflows on the default branch"
    if text.startswith((_FOLDER, "/" + _FOLDER, "./" + _FOLDER)):
        hint = f"leave {_FOLDER} out: the name of the file alone"
    raise OptionError(f"{name}: found {found(text)}, expected a file name such as runner-worker.yml", hint)


def workflow_ref(name: str, text: str) -> str:
    """Check the ref that the child is dispatched at: a branch or a tag that is trusted (R4, R8). Raises OptionError."""
    hint = "the child is dispatched at a trusted branch or tag; what is tested goes into source-ref and source-sha"
    if _SHA.fullmatch(text):
        raise OptionError(f"{name}: found the SHA {text}, expected {_BRANCH}: a dispatch takes no SHA", hint)
    other = text.startswith("refs/") and not text.startswith(("refs/heads/", "refs/tags/"))
    if other or text == "HEAD" or text.startswith("-") or _PULL.fullmatch(text):
        raise OptionError(f"{name}: found {found(text)}, expected {_BRANCH}", hint)
    return _checked(name, text, _BRANCH)


def source_ref(name: str, text: str) -> str:
    """Check the full ref of what is tested, such as ``refs/pull/12/merge`` (R9). Raises OptionError."""
    expected = "a full ref such as refs/pull/12/merge or refs/heads/main"
    if not _FULL.fullmatch(text):
        hint = f"did you mean refs/{text}?" if text.startswith(("heads/", "tags/", "pull/")) else ""
        raise OptionError(f"{name}: found {found(text)}, expected {expected}", hint)
    return _checked(name, text, expected)


def source_sha(name: str, text: str) -> str:
    """Check the full SHA that was approved (R9), in either case. Raises OptionError."""
    if not _SHA.fullmatch(text):
        raise OptionError(
            f"{name}: found {found(text)}, expected a full SHA of 40 hexadecimal digits",
            "give the whole SHA, not a short one and not a ref",
        )
    return text


def _checked(name: str, text: str, expected: str) -> str:
    wrong = _wrong(text)
    if wrong:
        raise OptionError(f"{name}: found {found(text)}, expected {expected}; {wrong}", "see git check-ref-format")
    return text


def _wrong(ref: str) -> str:
    """Say which rule of ``git check-ref-format`` a ref breaks, "" when none."""
    if len(ref) > _LONGEST:
        return f"a ref has at most {_LONGEST} characters"
    if any(one in _FORBIDDEN or unicodedata.category(one) in {"Cc", "Cs"} for one in ref):
        return "a ref holds no blank, no control character and none of ~ ^ : ? * [ \\"
    for part in ("..", "@{", "//"):
        if part in ref:
            return f"a ref does not hold {part}"
    if ref.startswith("/") or ref.endswith(("/", ".")) or ref == "@":
        return "a ref is not @, starts with no / and ends with neither / nor ."
    if any(part.startswith(".") or part.endswith(".lock") for part in ref.split("/")):
        return "no part of a ref starts with . or ends with .lock"
    return ""
