"""What test modules share: records, lines of JSON, processes of tokur, and the names of files that are read."""

from __future__ import annotations

import io
import json
import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import jsonlines

SAMPLES = Path(__file__).parent.parent / "samples"
SCORED = Path(__file__).parent / "data" / "scored.jsonl"
TOKUR = [sys.executable, "-m", "tokur_cli"]


def records(count: int) -> Iterator[dict[str, Any]]:
    """Yield responses of random characters, each to a question of its own."""
    rng = random.Random(0)
    for number in range(count):
        yield {
            "id": f"q{number}",
            "question": f"How many of {number}? " * rng.randint(1, 3),
            "response": "".join(rng.choice("abc 123=+") for _ in range(rng.randint(1, 30))),
            "level": number % 5,
        }


def write_lines(path: Path, lines: Any) -> Path:
    """Write objects as lines of JSON, bytes as they are; return the path."""
    path.write_bytes(b"".join(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n" for line in lines))
    return path


def parsed(text: str) -> list[Any]:
    """Return the objects of lines of JSON."""
    return list(jsonlines.Reader(io.StringIO(text)))


def page_data(page: str) -> list[Any]:
    """Return what a heat map's page holds: its scales, then two objects a response."""
    found = re.search(r'<script type="application/x-ndjson" id="data">(.*?)</script>', page, re.DOTALL)
    assert found
    return parsed(found[1])


def sample_lines(name: str, count: int) -> list[bytes]:
    """Return the first lines of a file of samples/."""
    with (SAMPLES / name).open("rb") as file:
        return [line for _, line in zip(range(count), file, strict=False)]


def start(arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
    """Start tokur in a process of its own, on one thread."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen([*TOKUR, *map(str, arguments)], env=environment, **options)


def finish(arguments: Any, **options: Any) -> tuple[int, str, str]:
    """Run tokur in a process of its own; return (exit code, standard output, standard error)."""
    process = start(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
    out, err = process.communicate(timeout=600)
    return process.returncode, out.decode(), err.decode()


def wait_for_lines(path: Path, count: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until a file has so many lines, at most two minutes or until the process ends."""
    deadline = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < deadline:
        if path.exists() and path.read_bytes().count(b"\n") >= count:
            return
        time.sleep(0.002)


def questions(count: int = 5) -> list[dict[str, Any]]:
    """Return questions with references."""
    return [{"id": f"q{n}", "question": f"What is {n}+{n}?", "reference": str(2 * n), "level": n} for n in range(count)]


def turn_of(form: str, row: dict[str, Any]) -> str:
    """Return the user's turn that asks about a response, as the tiny model's chat template writes it."""
    asked = form.format(question=row["question"], response=row["response"])
    return f"<|im_start|>user\n{asked}<|im_end|>\n<|im_start|>assistant\n"


def jaccard(one: str, other: str) -> float:
    """Return the share of the words of either text that both have."""
    words, others = set(one.lower().split()), set(other.lower().split())
    return len(words & others) / len(words | others) if words | others else 1.0


def install_vllm(monkeypatch: Any, load: Callable[..., Any], *modules: str) -> None:
    """Have a stand-in for vLLM be imported, on a CPU, whose class ``LLM`` is ``load``."""
    for name in ("vllm", "vllm.platforms", *modules):
        module = ModuleType(name)
        module.__spec__ = ModuleSpec(name, None)
        monkeypatch.setitem(sys.modules, name, module)
    vars(sys.modules["vllm"]).update(LLM=load, __version__="0")
    vars(sys.modules["vllm.platforms"]).update(current_platform=SimpleNamespace(is_cpu=lambda: True))
    for name in ("VLLM_LOGGING_STREAM", "VLLM_ENABLE_V1_MULTIPROCESSING"):
        monkeypatch.setenv(name, "as the user has it")
