"""Ask the vendors' tools which GPUs there are. A tool may be missing, lie, or never answer.

The parsers are pure: text in, what was found out, in the tool's order. They never raise: what they do not
understand is not there. Forms of the outputs: spec, engine facts 8.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_sgpu.core.masks import ALL, AMD, NVIDIA, Found
from pytest_sgpu.core.text import printable
from pytest_sgpu.engine.processes import Command, Ended, side_by_side

Parser = Callable[[str], tuple[Found, ...]]

# More than any host can have to say. A tool that goes on for ever is not read to its end.
_MOST_BYTES = 1 << 20
_NO_UUID = re.compile(r"(?:0x)?0*|n/?a|\[n/a\]|unknown", re.IGNORECASE)
_GFX = re.compile(r"gfx[0-9a-f]{3,}")
_COMPUTE = re.compile(r"([0-9]+)\.([0-9]+)")
_AGENT = re.compile(r"^Agent [0-9]+\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Tool:
    """One question to one tool."""

    argv: tuple[str, ...]
    parse: Parser

    @property
    def name(self) -> str:
        """Give the name of the program."""
        return self.argv[0]


@dataclass(frozen=True, slots=True)
class Answers:
    """What a round of questions brought: GPUs, a line per tool for people, and the tools that never answered."""

    found: tuple[Found, ...] = ()
    looked: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()


def decode_gfx(version: int) -> str:
    """Give ``gfx90a`` for KFD's 90010: major * 10000 + minor * 100 + stepping, the last two in hex. "" for 0."""
    major, rest = divmod(version, 10000)
    minor, stepping = divmod(rest, 100)
    return f"gfx{major}{minor:x}{stepping:x}" if version > 0 else ""


def amd_uuid(unique_id: int) -> str:
    """Give the UUID that ROCr makes of a unique id, "" for 0, which means that there is none."""
    return f"GPU-{unique_id:016x}" if unique_id else ""


def parse_nvidia_smi(text: str) -> tuple[Found, ...]:
    """Read lines ``index, uuid, name[, compute_cap]``. A name may hold commas; without a capability: ``nvidia``."""
    found: list[Found] = []
    for line in text.splitlines():
        parts = [part.strip() for part in line.split(",")]
        if len(parts) < 3 or not re.fullmatch(r"[0-9]{1,4}", parts[0]):  # noqa: PLR2004
            continue
        compute = _COMPUTE.fullmatch(parts[-1])
        arch = f"sm_{compute[1]}{compute[2]}" if compute else NVIDIA
        uuid = parts[1] if parts[1].startswith("GPU-") else ""
        found.append(Found(int(parts[0]), NVIDIA, arch, uuid))
    return tuple(found)


def parse_agent_enumerator(text: str) -> tuple[Found, ...]:
    """Read one target per line. ``gfx000`` is the CPU."""
    lines = (line.strip() for line in text.splitlines())
    return _amd((line, "") for line in lines if _GFX.fullmatch(line) and line != "gfx000")


def parse_rocminfo(text: str) -> tuple[Found, ...]:
    """Read the blocks ``Agent N`` of device type GPU. Their ISA parts repeat ``Name:``, so the first one counts."""
    blocks = _AGENT.split(text)[1:]
    gpus = (block for block in blocks if re.search(r"^\s*Device Type:\s*GPU\s*$", block, re.MULTILINE))
    return _amd((_field(block, "Name"), _field(block, "Uuid")) for block in gpus)


def _field(block: str, name: str) -> str:
    hit = re.search(rf"^\s*{name}:\s*(.*?)\s*$", block, re.MULTILINE)
    return hit[1] if hit else ""


def parse_amd_smi(text: str) -> tuple[Found, ...]:
    """Read ``amd-smi static --asic --json``: a list, in newer releases inside ``gpu_data``."""
    data = _json(text)
    data = data.get("gpu_data") if isinstance(data, dict) else data
    gpus = [gpu.get("asic") for gpu in data if isinstance(gpu, dict)] if isinstance(data, list) else []
    return _amd((str(asic.get("target_graphics_version", "")), "") for asic in gpus if isinstance(asic, dict))


def parse_rocm_smi(text: str) -> tuple[Found, ...]:
    """Read ``rocm-smi ... --json``: ``card0``, ``card1``, ... with changing key names, all values text."""
    data = _json(text)
    cards = data.items() if isinstance(data, dict) else ()
    numbered = sorted(
        (int(name[4:]), card)
        for name, card in cards
        if re.fullmatch(r"card[0-9]{1,4}", name) and isinstance(card, dict)
    )
    return _amd((str(card.get("GFX Version", "")), str(card.get("Unique ID", ""))) for _, card in numbered)


def _json(text: str) -> Any:  # noqa: ANN401 - whatever a tool prints
    """Read the JSON part of an output that may have warnings before it. None when there is none."""
    start = re.search(r"^\s*[\[{]", text, re.MULTILINE)
    with contextlib.suppress(ValueError, RecursionError):
        return json.JSONDecoder().raw_decode(text[start.start() :].lstrip())[0] if start else None
    return None


def _amd(rows: Iterable[tuple[str, str]]) -> tuple[Found, ...]:
    """Make GPUs of pairs (target, uuid). Targets lose their feature flags; an unreadable one is called ``amd``."""
    found: list[Found] = []
    for index, (target, uuid) in enumerate(rows):
        gfx = _GFX.match(target.lower())
        found.append(Found(index, AMD, gfx[0] if gfx else AMD, _amd_uuid_text(uuid)))
    return tuple(found)


def _amd_uuid_text(text: str) -> str:
    if text.startswith("GPU-"):
        return "" if text == "GPU-XX" else text
    number = "" if _NO_UUID.fullmatch(text) else text.lower().removeprefix("0x")
    return amd_uuid(int(number, 16)) if re.fullmatch(r"[0-9a-f]{1,16}", number) else ""


_QUERY = "--query-gpu=index,uuid,name{}"
_CSV = "--format=csv,noheader,nounits"
NVIDIA_SMI = Tool(("nvidia-smi", _QUERY.format(",compute_cap"), _CSV), parse_nvidia_smi)
# Drivers of before 2021 do not know the field.
OLD_NVIDIA_SMI = Tool(("nvidia-smi", _QUERY.format(""), _CSV), parse_nvidia_smi)
AMD_TOOLS = (
    Tool(("rocm_agent_enumerator",), parse_agent_enumerator),
    Tool(("rocminfo",), parse_rocminfo),
    Tool(("amd-smi", "static", "--asic", "--json"), parse_amd_smi),
    Tool(("rocm-smi", "--showid", "--showuniqueid", "--showbus", "--showproductname", "--json"), parse_rocm_smi),
)


def ask(tools: Sequence[Tool], env: Mapping[str, str], time_limit: float) -> Answers:
    """Ask all tools side by side, until one names a GPU. Takes at most ``time_limit`` seconds and a little.

    Tools are looked up in ``env["PATH"]``. They run without the caller's masks: a mask counts in the list of
    all GPUs, and some tools would show only its part.
    """
    open_env = {name: value for name, value in env.items() if name not in ALL}
    paths = [shutil.which(tool.name, path=env.get("PATH", os.defpath)) for tool in tools]
    lines = {tool.name: "not found" for tool in tools}
    present = [(tool, path) for tool, path in zip(tools, paths, strict=True) if path]
    lines.update((tool.name, "not waited for") for tool, _ in present)
    commands = [Command((path, *tool.argv[1:]), open_env) for tool, path in present]
    found: tuple[Found, ...] = ()
    silent: list[str] = []
    running = side_by_side(commands, time_limit=time_limit, parallel=max(1, len(commands)))
    with contextlib.closing(running):
        for ended in running:
            tool = present[ended.position][0]
            found = () if ended.failure else tool.parse(_text(ended))
            lines[tool.name] = ended.failure or (f"{len(found)} found" if found else "names no GPU")
            if ended.timed_out:
                silent.append(tool.name)
            elif ended.failure:
                lines[tool.name] += _complaint(ended)
            if found:
                break
    return Answers(found, tuple(f"{name}: {line}" for name, line in lines.items()), tuple(sorted(silent)))


def _text(ended: Ended) -> str:
    return ended.stdout.read(_MOST_BYTES).decode("utf-8", "replace")


def _complaint(ended: Ended) -> str:
    """Give the first line that a failing tool printed, in brackets."""
    raw = ended.stderr.read(1000) or ended.stdout.read(1000)
    first = printable(raw.decode("utf-8", "replace").strip().partition("\n")[0].strip())
    return f" ({first[:120]})" if first else ""
