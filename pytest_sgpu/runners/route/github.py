"""What the routing reads from GitHub: the first comment of an issue, the labels of a pull request."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pytest_sgpu.errors import OptionError
from pytest_sgpu.runners.github import Client
from pytest_sgpu.runners.loop import alone
from pytest_sgpu.runners.ports import Clock, Response, Transport
from pytest_sgpu.runners.wording import found

PATIENCE = 90.0  # seconds for all reads of one command together: jobs wait for the decision
MOST_PAGES = 10
_PAGE = 100  # the most that the API gives

_RIGHTS = "the token needs issues: read (of a private repository), pull-requests: read for --pr"
_REFUSED = re.compile(r"GET \S+: (401|403|404)\b(?!.*rate limit)", re.IGNORECASE)  # a token without rights
_REPOSITORY = re.compile(r"[A-Za-z0-9_.-]{1,100}/[A-Za-z0-9_.-]{1,100}")
_NUMBER = re.compile(r"[1-9][0-9]{0,17}")
_TOKEN = re.compile(r"[!-~]+")
_URL = re.compile(r"<[^>]*>")
_NEXT = re.compile(r';\s*rel\s*=\s*"?\s*(?:[^",;]*\s)?next(?=[\s",;]|$)', re.IGNORECASE)


Kind = type[dict[str, object]] | type[list[object]]


@dataclass(frozen=True, slots=True)
class Issue:
    """An issue or a pull request, which is one to this API."""

    repository: str
    number: str


def issue(text: str) -> Issue:
    """Read ``OWNER/REPO#N``. Raises OptionError."""
    repository, _, number = text.strip().partition("#")
    if not _is_repository(repository) or not _NUMBER.fullmatch(number):
        raise OptionError(f"--github-issue: found {found(text)}, expected OWNER/REPO#N", "quote it: # begins a comment")
    return Issue(repository, number)


def pull_request(repository: str, number: str) -> Issue:
    """Take the number of a pull request. Raises OptionError."""
    if not _NUMBER.fullmatch(number.strip()):
        raise OptionError(f"--pr: found {found(number)}, expected a number", "github.event.pull_request.number")
    if not _is_repository(repository):
        raise OptionError(f"--pr: its repository is {found(repository)}, expected OWNER/REPO", "--repo OWNER/REPO")
    return Issue(repository, number.strip())


class Api:
    """Reads, retried as all reads of the runner tools are, and all of them within ``PATIENCE``."""

    def __init__(self, connect: Callable[[], Transport], clock: Clock, env: Mapping[str, str]) -> None:
        self._wire = _Wire(connect)
        self._clock = clock
        self._env = env
        self._by = clock.monotonic() + PATIENCE
        self._client: tuple[str, Client] | None = None

    def first_comment(self, where: Issue) -> str:
        """Give the text of the first comment. Raises OptionError: it cannot be read, or there is none."""
        name = f"{where.repository}#{where.number}"
        comments = self._list(where, "comments?per_page=1", f"the first comment of {name}")
        if not comments:
            raise OptionError(f"{name}: it has no comment", "the rollout text is its first comment")
        body = comments[0].get("body") if isinstance(comments[0], dict) else None
        if not isinstance(body, str):
            raise OptionError(f"{name}: its first comment has no text")
        return body

    def labels(self, where: Issue) -> tuple[str, ...]:
        """Give the names of the labels, as they are at this moment. Raises OptionError."""
        names: list[str] = []
        for page in range(1, MOST_PAGES + 1):
            path = f"labels?per_page={_PAGE}&page={page}"
            labels = self._list(where, path, f"the labels of {where.repository}#{where.number}")
            for label in labels:
                name = label.get("name") if isinstance(label, dict) else None
                if not isinstance(name, str):  # the kill switch may be what cannot be read
                    what = f"the labels of {where.repository}#{where.number}"
                    raise OptionError(f"{what} cannot be read: found {found(label)}, expected a label with a name")
                names.append(name)
            if len(labels) < _PAGE and not self._wire.has_next:
                break
        return tuple(names)

    def author(self, where: Issue) -> str:
        """Give the login of who wrote a pull request. Raises OptionError."""
        what = f"the author of {where.repository}#{where.number}"
        answer = self._read(where, "", dict, what)
        user = answer.get("user") if isinstance(answer, dict) else None
        login = user.get("login") if isinstance(user, dict) else None
        if not isinstance(login, str) or not login:
            raise OptionError(f"{what} is not known: the account is gone", "--author LOGIN")
        return login

    def _list(self, where: Issue, path: str, what: str) -> list[object]:
        answer = self._read(where, f"/{path}", list, what)
        return answer if isinstance(answer, list) else []

    def _read(self, where: Issue, path: str, kind: Kind, what: str) -> object:
        if self._client is None or self._client[0] != where.repository:
            made = Client(self._wire, self._clock, _token(self._env), where.repository)
            self._client = (where.repository, made)
        asked = self._client[1].read(f"/issues/{where.number}{path}", kind=kind, by=self._by)
        answer, problem = alone(asked, self._clock)
        if problem:
            raise OptionError(f"{what} cannot be read: {problem}", _RIGHTS if _REFUSED.match(problem) else "")
        return answer


class _Wire:
    """A transport, opened at the first request, that remembers whether the last answer has a next page."""

    def __init__(self, connect: Callable[[], Transport]) -> None:
        self._connect = connect
        self._inner: Transport | None = None
        self.has_next = False

    def request(
        self, method: str, path: str, *, body: Mapping[str, object] | None, headers: Mapping[str, str], timeout: float
    ) -> Response:
        """Pass a request on. Of the header ``Link`` only that there is a next page counts, never where it leads to."""
        if self._inner is None:
            self._inner = self._connect()
        self.has_next = False
        response = self._inner.request(method, path, body=body, headers=headers, timeout=timeout)
        links = [str(value) for name, value in response.headers.items() if str(name).lower() == "link"]
        self.has_next = any(_NEXT.search(_URL.sub("", link)) for link in links)
        return response


def _is_repository(text: str) -> bool:
    return bool(_REPOSITORY.fullmatch(text)) and not {".", ".."} & set(text.split("/"))


def _token(env: Mapping[str, str]) -> str:
    text = env.get("GITHUB_TOKEN", "").strip()
    if not text:
        raise OptionError("no token: GITHUB_TOKEN is not set", "env: GITHUB_TOKEN: ${{ github.token }}")
    if not _TOKEN.fullmatch(text):
        raise OptionError("GITHUB_TOKEN: a token of printable ASCII characters was expected, without blanks in it")
    return text
