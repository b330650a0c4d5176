"""Where people are led to: the addresses of a child run, of its worker job, and the line of a log that says so."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pytest_sgpu.runners.ports import Attempt

PUBLIC = "https://github.com"
LOGS = "View worker job logs here"
FALLBACK = "(link to the run: its job is not known)"
URL = r"https?://[A-Za-z0-9._~:/?#=&%-]+"

_ADDRESS = re.compile(URL)


@dataclass(frozen=True, slots=True)
class Link:
    """Where the logs of a worker are. ``fallback``: only its run is known, not its job (R126)."""

    url: str
    fallback: bool = False


def worker_link(attempt: Attempt, *, repository: str, server_url: str) -> Link | None:
    """Give the address of the worker job; of its run when no job is known; None when there is neither (R124, R126).

    An address that the API gave is taken only when it leads to the server of this repository, if that is known.
    """
    if trusted(attempt.job_url, server_url):
        return Link(attempt.job_url)
    run = run_url(attempt, repository=repository, server_url=server_url)
    if not run:
        return None
    if attempt.run_id > 0 and attempt.job_id > 0:
        return Link(f"{run}/job/{attempt.job_id}")
    return Link(run, fallback=True)


def run_url(attempt: Attempt, *, repository: str, server_url: str) -> str:
    """Give the address of the child run, "" when there is none."""
    given = trusted(attempt.run_url, server_url)
    if attempt.run_id > 0 and (server_url or not given):
        return run_page(attempt.run_id, repository=repository, server_url=server_url)
    return given


def run_page(run_id: int, *, repository: str, server_url: str) -> str:
    """Give the address that a run has on its server, by default the public one."""
    return f"{server_url or PUBLIC}/{repository}/actions/runs/{run_id}"


def logs_line(attempt: Attempt, *, repository: str, server_url: str) -> str:
    """Give the line of a log that leads to the worker's logs, "" when there is nowhere to go (R124)."""
    link = worker_link(attempt, repository=repository, server_url=server_url)
    if link is None:
        return ""
    return f"{LOGS}: {link.url}{' ' + FALLBACK if link.fallback else ''}"


def trusted(url: str, server_url: str) -> str:
    """Give a link of the API when it leads to that server, or when no server is known; else ""."""
    leads = url.startswith(f"{server_url}/" if server_url else "http")
    return url if leads and _ADDRESS.fullmatch(url) else ""
