"""Get a CI runner: dispatch one job to a preferred pool, and fall back when no runner comes.

A slice of its own: it imports ``errors`` and nothing else of the rest, and what holds a token (``coordinator``,
``guard``) needs the standard library alone. The names here are public and stable: docs/reference/runners.md.
"""

from __future__ import annotations

from pytest_sgpu.runners.ports import Attempt, Clock, Response, Result, Transport, TransportError

__all__ = ["Attempt", "Clock", "Response", "Result", "Transport", "TransportError"]
