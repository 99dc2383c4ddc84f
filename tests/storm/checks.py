"""What must hold after every run, whatever its input was."""

from __future__ import annotations

import json
import math
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.storm.hostile import MARKUP
from tests.storm.warm import HANG_SECONDS, MEMORY_BYTES, Outcome

EXIT_CODES = (0, 1, 2, 3)
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
PLACE = re.compile(r"^tokur \w+: \S*?(?:\[\d+\])?(?:/\S+)?:(\d+): ", re.MULTILINE)
WARNINGS = re.compile(r"^.*\w+Warning: |^Exception ignored|^Fatal Python error|^\[W|^WARNING", re.MULTILINE)


def faults_of_run(outcome: Outcome, command: str, codes: Sequence[int] = EXIT_CODES) -> Iterator[str]:
    """Yield what no run may do: hang, grow, crash, end without a word, write control codes to a terminal."""
    err = outcome.err.decode("utf-8", "replace")
    if outcome.hung:
        yield f"hung: more than {HANG_SECONDS:.0f} s"
    elif outcome.code not in codes:
        yield f"exit code {outcome.code}"
    if outcome.memory_bytes > MEMORY_BYTES:
        yield f"memory: more than {MEMORY_BYTES / 1e9:.0f} GB"
    if outcome.left_behind:
        yield "a process was left behind"
    if "Traceback (most recent call last)" in err:
        yield f"traceback: {_last_line(err)}"
    elif "TOKUR_DEBUG=1 shows where" in err:
        raw = next(line for line in err.splitlines() if "TOKUR_DEBUG=1" in line)
        yield f"raw error: {raw.partition(': ')[2][:60]}"
    elif found := WARNINGS.search(err):
        yield f"a library's warning: {found.group()[-60:]}"
    if "\ufffd" in err:
        yield "standard error is not UTF-8"
    if found := CONTROL.search(err):
        yield f"control code U+{ord(found.group()):04X} on standard error"
    if outcome.code in (1, 2, 3) and not re.search(rf"^tokur {command}: ", err, re.MULTILINE):
        yield f"exit code {outcome.code} without a message"


def faults_of_text(what: str, data: bytes) -> Iterator[str]:
    """Yield what is wrong with text for people: a table, a picture in the terminal, CSV."""
    text = COLOUR.sub("", data.decode("utf-8", "replace"))
    if "\ufffd" in text:
        yield f"{what} is not UTF-8"
    if found := CONTROL.search(text):
        yield f"control code U+{ord(found.group()):04X} in {what}"


def faults_of_lines(what: str, data: bytes) -> Iterator[str]:
    """Yield what is wrong with a stream of records: something that is no JSON object, a line without an end."""
    if data and not data.endswith(b"\n"):
        yield f"{what} ends within a line"
    for line in data.split(b"\n")[:-1]:
        try:
            if not isinstance(json.loads(line.decode("utf-8"), parse_int=str), dict):
                yield f"{what} has a line that is no object"
        except RecursionError:
            continue
        except ValueError as error:
            yield f"{what} has a line that is no JSON: {type(error).__name__}"


def faults_of_picture(name: str, data: bytes) -> Iterator[str]:
    """Yield what is wrong with a page or a figure: half of it, or markup that came from a record."""
    if name.endswith(".html") and not data.rstrip().endswith(b"</html>"):
        yield "the page is cut short"
    if MARKUP.encode() in data:
        yield f"markup of a record in {name}"
    if name.endswith(".svg"):
        try:
            ElementTree.fromstring(data)
        except ElementTree.ParseError:
            yield "the figure is not XML"


def read_values(data: bytes) -> list[Any]:
    """Return the records that are whole."""
    values = []
    for line in data.split(b"\n")[:-1]:
        try:
            values.append(json.loads(line))
        except (ValueError, RecursionError):
            values.append(None)
    return values


def lost(expected: Sequence[Any], found: Sequence[Any], ignored: Iterable[str] = ()) -> int | None:
    """Return the place of the first expected record that is not among those found, in order; None if all are."""
    rest = iter(found)
    for place, record in enumerate(expected):
        if not any(alike(record, other, frozenset(ignored)) for other in rest):
            return place
    return None


def is_beginning(expected: Sequence[Any], found: Sequence[Any], ignored: Iterable[str] = ()) -> bool:
    """Return whether the records found begin with the expected ones."""
    names = frozenset(ignored)
    return len(found) >= len(expected) and all(
        alike(record, other, names) for record, other in zip(expected, found, strict=False)
    )


def alike(one: Any, other: Any, ignored: frozenset[str]) -> bool:
    """Return whether two JSON values are the same up to the rounding of numbers and fields that are ignored."""
    if isinstance(one, dict) and isinstance(other, dict):
        names = one.keys() - ignored
        return names == other.keys() - ignored and all(alike(one[name], other[name], ignored) for name in names)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(alike, one, other, [ignored] * len(one)))
    if isinstance(one, float) and isinstance(other, (int, float)):
        return math.isclose(one, other, rel_tol=1e-3, abs_tol=1e-3) or one == other or (one != one and other != other)
    return type(one) is type(other) and one == other


def changed_files(folder: Path, before: dict[str, bytes]) -> list[str]:
    """Return the files of a case that are not what they were."""
    return [name for name, data in before.items() if not _holds(folder / name, data)]


def strays(folder: Path, allowed: Iterable[str]) -> list[str]:
    """Return what a run left in its folder without having been asked to."""
    known = {".stdin", ".stdout", ".stderr", *(name.split("/")[0] for name in allowed)}
    return sorted(path.name for path in folder.iterdir() if path.name not in known)


def _holds(path: Path, data: bytes) -> bool:
    return path.is_file() and path.read_bytes() == data


def _last_line(text: str) -> str:
    return text.rstrip().rpartition("\n")[2][:80]
