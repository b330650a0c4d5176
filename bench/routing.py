"""How long rollout texts of the largest size take to read, whatever they are made of.

    python bench/routing.py [USERS] [MEGABYTES]

Prints one line per case: CPU seconds, the best of three. The bar is 1.2 s for 100,000 users in 10 MB.
"""

from __future__ import annotations

import string
import sys
import time
from itertools import cycle, islice, product

from pytest_sgpu.runners.routing.rollout import parse_rollout
from pytest_sgpu.runners.routing.sections import MOST_LINES
from pytest_sgpu.runners.routing.settings import LARGEST

BAR = 1.2
SETTINGS = "experiments:\n" + "".join(f"  fleet{n}:\n    rollout_perc: {n}\n" for n in range(8))
HEAD = f"{SETTINGS}---\n"
SHORT = list(map("".join, product(string.ascii_letters + string.digits, repeat=3)))


def users(count: int, size: int) -> str:
    """Give a text of ``count`` user lines, ``size`` characters in all: opt-ins, percentages, opt-outs."""
    width = max(size // count - 1, 0)
    lines = []
    for n in range(count):
        line = f"{'#' if n % 50 == 0 else ''}@user-{n:06},fleet{n % 8}:{n % 101},-fleet{(n + 1) % 8}"
        while len(line) < width:
            line += f",fleet{(n + len(line)) % 8}:{n % 101}" if n % 2 else f",-fleet{(n + 1) % 8}"
        lines.append(line[:width].rsplit(",", 1)[0] if len(line) > width else line)
    return HEAD + "\n".join(lines) + "\n"


def bad(count: int) -> str:
    """Give a text in which every user line is wrong in some way."""
    kinds = ("@no login,fleet1", "@user{n},unknown{n}", "user{n},fleet1", "-@user{n}", "@same,fleet1:x", "@u{n},--")
    return HEAD + "\n".join(kinds[n % len(kinds)].format(n=n) for n in range(count))


def unknown(count: int, item: str) -> str:
    """Give nine names of their own to every user, and one that is there."""
    lines = (f"@user{n:06}," + ",".join(item.format(9 * n + k) for k in range(9)) + ",fleet3" for n in range(count))
    return HEAD + "\n".join(lines)


def wide(size: int, items: list[str], most: int = 999) -> str:
    """Give lines of ``most`` items each, ``size`` characters in all."""
    source = cycle(items)
    per_line = sum(map(len, items)) * most // len(items) + most + 12
    return HEAD + "\n".join(f"@w{n:07},{','.join(islice(source, most))}" for n in range(size // per_line))


def lines(size: int, line: str, *, count: int = MOST_LINES - 100) -> str:
    """Give a line, with its number put in, until the text has ``size`` characters or ``count`` lines."""
    return HEAD + "\n".join(line.format(n=n) for n in range(min(size // len(line), count)))


def settings(size: int, one: str) -> str:
    """Give experiments until the settings have ``size`` characters."""
    text = "experiments:\n"
    parts = []
    n = 0
    while len(text) + len(one) * n < size - 10 * n:
        parts.append(one.format(n=n))
        n += 1
    return (text + "".join(parts))[:size].rsplit("\n", 1)[0] + "\n---\n"


def cases(count: int, size: int) -> dict[str, str]:
    """Give the texts, by name."""
    body = LARGEST - 1000
    return {
        "users": users(count, size),
        "all wrong": bad(count),
        "unknown": unknown(count, "e{}:5"),
        "unknown, blanks": unknown(count, " e{} "),
        "unknown, out": unknown(count, "-e{}:5")[:size].rsplit("\n", 1)[0],
        "unknown, fractions": unknown(count, "e{}:1.25")[:size].rsplit("\n", 1)[0],
        "one line": HEAD + "@u," + ",".join(f"e{n}" for n in range(size // 8)),
        "one login": HEAD + "@" + "u" * size,
        "one comment": HEAD + "#" * size,
        "one blank": HEAD + "@u," + " " * size + ",",
        "one prose": HEAD + "a," * (size // 2) + " @",
        "short names": wide(size, SHORT),
        "long names": wide(size, [f"n{n:07}" for n in range(size // 9)]),
        "percentages": wide(size, [f"{name}:5" for name in SHORT]),
        "all percentages": wide(size, [f"n{n:06}:7" for n in range(size // 10)]),
        "out": wide(size, [f"-{name}" for name in SHORT]),
        "out, long": wide(size, [f"-n{n:06}" for n in range(size // 9)], 100),
        "empty items": wide(size, [""]),
        "blank items": wide(size, [" "]),
        "one fault a line": wide(size, [*(f"n{n:06}" for n in range(998)), "!"]),
        "equal items": wide(size, ["a"]),
        "equal items, few": wide(size, [*SHORT[:900], *SHORT[:99]]),
        "no percentages": wide(size, [f"{name}:x" for name in SHORT]),
        "no names": wide(size, ["!"]),
        "many users": lines(size, "@user{n:06},fleet1,-fleet2,fleet3:5,u{n:06}:7,v{n:06}"),
        "same user": lines(size, "@same,fleet1:{n},fleet2"),
        "no logins": lines(size, "@no login " + "x" * 30),
        "bullets": lines(size, "- @u{n:06},fleet1, fleet2 # text"),
        "comments": lines(size, "# @user{n:06},fleet1 and more text behind it"),
        "prose": lines(size, "some text in which there is an @ sign, {n:06}"),
        "nothing": HEAD + "\n" * size,
        "blank lines": lines(size, " " * 49),
        "no cut": "experiments:\n" + lines(size, "a --- b" + "x" * 40)[len(HEAD) :],
        "settings": settings(body, "  name{n}:\n    rollout_perc: 10\n    workflows: pull,trunk\n"),
        "settings, short": settings(body, "  n{n}:\n"),
        "settings, wrong": settings(body, "  n{n}: {{odd: 1, rollout_perc: x}}\n"),
        "settings, equal": settings(body, "  a: 1\n"),
        "settings, list": "experiments:\n  a: {workflows: [" + "a," * (body // 2 - 50) + "]}\n---\n",
        "settings, dashes": "experiments:\n  a: {workflows: '" + "-," * (body // 2 - 50) + "'}\n---\n",
    }


def best(text: str) -> tuple[float, str]:
    """Give the CPU seconds of the best of three, and why the text was refused."""
    took = []
    for _ in range(3):
        start = time.process_time()
        rollout = parse_rollout(text, "bench")
        took.append(time.process_time() - start)
    return min(took), rollout.why


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    size = int(float(sys.argv[2]) * 1e6) if len(sys.argv) > 2 else 10_000_000
    parse_rollout(HEAD, "warm up")
    slowest = 0.0
    for name, text in cases(count, size).items():
        took, why = best(text)
        slowest = max(slowest, took)
        print(f"{name:18} {text.count(chr(10)):>8} lines {len(text) / 1e6:6.2f} MB {took:6.2f} s  {why}", flush=True)
    print(f"slowest {slowest:.2f} s (bar {BAR} s)")
    return 0 if slowest < BAR else 1


if __name__ == "__main__":
    sys.exit(main())
