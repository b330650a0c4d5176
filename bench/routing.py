"""How long `sgpu route prefix` takes with rollout texts of the largest size, whatever they are made of.

    python bench/routing.py [USERS] [MEGABYTES] [CASE]

Prints one line per case (or for those with CASE in their name): CPU seconds of the whole process, the best of two.
The bar is 2 s for 100,000 users in 10 MB.
"""

from __future__ import annotations

import resource
import string
import subprocess
import sys
import tempfile
from itertools import cycle, islice, product
from pathlib import Path

from pytest_sgpu.runners.routing.sections import MOST_LINES
from pytest_sgpu.runners.routing.settings import LARGEST

BAR = 2.0
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
    return HEAD + "\n".join(line.format(n=n) for n in range(min(size // (len(line.format(n=10**6)) + 1), count)))


def note(n: int) -> str:
    """Give items that no other user has, about as long as a line may be in 10 MB of 100,000 users."""
    return f"fleet{n % 8}:{n % 101},e{n}," + "-fleet1," * 6


def settings(size: int, one: str) -> str:
    """Give experiments until the settings have ``size`` characters."""
    parts = ["experiments:\n"]
    while size > 0:
        parts.append(one.format(n=len(parts)))
        size -= len(parts[-1])
    return "".join(parts[:-1]) + "---\n"


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
        "other percentages": wide(size, [f"n{n:06}:{n / 1e4}" for n in range(1_000_000)]),
        "percentages above": wide(size, [f"n{n:06}:{n + 101}" for n in range(1_000_000)]),
        "no names": wide(size, ["!"]),
        "one fault, own names": wide(size, [f"{'!' if n % 1000 == 0 else ''}n{n:06}" for n in range(1_000_000)], 1000),
        "noted users": HEAD + "".join(f"# why user {n}\n@user{n:06},{note(n)}\n" for n in range(count))[:size],
        "short users": lines(size, "@u{n},fleet1"),
        "shortest users": lines(size, "@u{n}"),
        "marked users": lines(size, "@name_firm{n},fleet1 # since May"),
        "out of all": lines(size, "#@u{n:06}"),
        "bots": lines(size, "@u{n}[BOT],fleet1"),
        "twice a line": lines(size, "@u{n},fleet1,fleet1,fleet1"),
        "above": lines(size, "@u{n},fleet1:101"),
        "own above": lines(size, "@u{n},fleet1:1{n:06}"),
        "own fraction": lines(size, "@u{n},a:1.{n:06}"),
        "own above, short": lines(size, "@u{n},a:1{n:06}"),
        "one line of one": HEAD + "@u" + ",fleet1" * (size // 7),
        "many users": lines(size, "@user{n:06},fleet1,-fleet2,fleet3:5,u{n:06}:7,v{n:06}"),
        "same user": lines(size, "@same,fleet1"),
        "same user, other items": lines(size, "@same,fleet1:{n},fleet2"),
        "no logins": lines(size, "@no login " + "x" * 30),
        "bullets": lines(size, "- @u{n:06},fleet1, fleet2 # text"),
        "starred": lines(size, "* @u{n:06},fleet1, fleet2 # text"),
        "comments": lines(size, "# a note"),
        "comments with users": lines(size, "# @u,fleet1"),
        "prose": lines(size, "some text in which there is an @ sign, {n:06}"),
        "unsigned": lines(size, "u{n},fleet1"),
        "nothing": lines(size, ""),
        "blank lines": lines(size, " " * 49),
        "no cut": "experiments:\n" + lines(size, "a --- b" + "x" * 40)[len(HEAD) :],
        "settings": settings(body, "  name{n}:\n    rollout_perc: 10\n    workflows: pull,trunk\n"),
        "settings and users": settings(body, "  name{n:06}:\n    rollout_perc: 10\n    workflows: pull,trunk\n")
        + users(count, size - body)[len(HEAD) :],
        "settings and noted": settings(body, "  name{n:06}:\n    rollout_perc: 10\n    workflows: pull,trunk\n")
        + "".join(f"# why user {n}\n@user{n:06},{note(n)}\n" for n in range(count))[: size - body],
        "settings, short": settings(body, "  n{n}:\n"),
        "settings, wrong": settings(body, "  n{n}: {{odd: 1, rollout_perc: x}}\n"),
        "settings, equal": settings(body, "  a: 1\n"),
        "settings, list": "experiments:\n  a: {workflows: [" + "a," * (body // 2 - 50) + "]}\n---\n",
        "settings, dashes": "experiments:\n  a: {workflows: '" + "-," * (body // 2 - 50) + "'}\n---\n",
    }


def best(text: str) -> tuple[float, str]:
    """Give the CPU seconds of `sgpu route prefix` as a whole, the best of two, and what it gives as the source."""
    took = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rollout.txt"
        path.write_text(text, encoding="utf-8", newline="\n")
        program = "import sys; from pytest_sgpu.cli import main; sys.exit(main())"
        command = [sys.executable, "-c", program, "route", "prefix", "--config", str(path), "--draw", "10"]
        for _ in range(2):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            took.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    return min(took), done.stdout.rpartition("decision-source=")[2].strip()


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    size = int(float(sys.argv[2]) * 1e6) if len(sys.argv) > 2 else 10_000_000
    only = sys.argv[3] if len(sys.argv) > 3 else ""
    slowest = 0.0
    for name, text in cases(count, size).items():
        if only not in name:
            continue
        took, why = best(text)
        slowest = max(slowest, took)
        print(
            f"{name:22} {text.count(chr(10)):>8} lines {len(text) / 1e6:6.2f} MB {took:6.2f} s  {why[:60]}", flush=True
        )
    print(f"slowest {slowest:.2f} s (bar {BAR} s)")
    return 0 if slowest < BAR else 1


if __name__ == "__main__":
    sys.exit(main())
