"""A case: a command, its files and its options; how it is run, and how its run is judged."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.storm import checks
from tests.storm.corpus import Base, Corpus
from tests.storm.in_turn import InTurn
from tests.storm.warm import Outcome, Warm

RECORDS = "records.jsonl"
PASSED_ON = ("heatmap", "evaluate")
"""Commands that pass records on: a file of theirs appears when it is complete."""
SAMPLED = ("response", "token_ids", "finish_reason", "prompt_token_ids", "votes")
"""What rounding may change in what ``generate`` and ``select`` write."""


@dataclass
class Case:
    """One run to come.

    Attributes:
        kind: what is hostile about it.
        command: the command.
        options: without the input and the model.
        files: all files of its folder.
        input: the name of the input; None for none.
        base: the good input that it was made of; None where nothing is known about it.
        lines: the input's lines as they are after unpacking; None where that cannot be told.
        stdin: whether the input comes by ``path``, ``pipe`` or as the ``file`` that standard input is.
        plain: the options that its good run has, too.
        codes: the exit codes that are right.
        records: where records go: a file, ``-`` for standard output, None for nowhere.
        text: whether standard output is text for people.
        mixed: whether it may be a page or records in place of text.
        made: what else the run may leave in its folder.
        links: (new name, file, whether hard) of links to make.
        exact: whether its records are those of the good run, all of them.
        needs_place: whether an error must name a line.
    """

    kind: str
    command: str
    options: list[str] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    input: str | None = None
    base: Base | None = None
    lines: bytes | None = None
    stdin: str = "path"
    plain: tuple[str, ...] = ()
    codes: tuple[int, ...] = checks.EXIT_CODES
    records: str | None = "-"
    text: bool = False
    mixed: bool = False
    made: tuple[str, ...] = ()
    links: list[tuple[str, str, bool]] = field(default_factory=list)
    exact: bool = False
    needs_place: bool = False

    @property
    def skips(self) -> bool:
        """Whether bad records are skipped."""
        return "--skip-invalid" in self.options

    def arguments(self, model: str) -> list[str]:
        """Return the command line after ``tokur``; without an input in the way of ``perturb``."""
        given = [] if self.input is None else [self.input if self.stdin == "path" else "-"]
        model_options = (
            ["-m", model] if self.command in ("score", "generate", "perturb") and "-m" not in self.options else []
        )
        return [self.command, *given, *model_options, *self.options]

    def shown(self, model: str) -> str:
        """Return the command for a shell."""
        line = shlex.join(["tokur", *self.arguments(model)])
        if self.stdin == "path" or self.input is None:
            return line
        return f"{line} < {self.input}" if self.stdin == "file" else f"cat {self.input} | {line}"

    def write(self, folder: Path) -> None:
        """Make its files."""
        folder.mkdir(parents=True)
        for name, data in self.files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)
        for name, target, hard in self.links:
            (os.link if hard else os.symlink)(folder / target, folder / name)

    def run(self, runner: Warm | InTurn, folder: Path, model: str) -> Outcome:
        """Run it in its folder."""
        stdin: Path | bytes | None = None
        if self.input is not None and self.stdin == "pipe":
            stdin = self.files[self.input]
        elif self.input is not None and self.stdin == "file":
            stdin = folder / self.input
        return runner.run(self.arguments(model), folder, stdin=stdin)

    def faults(self, outcome: Outcome, folder: Path, corpus: Corpus) -> list[str]:
        """Return what was wrong with its run."""
        return list(self._faults(outcome, folder, corpus))

    def _faults(self, outcome: Outcome, folder: Path, corpus: Corpus) -> Iterator[str]:
        yield from checks.faults_of_run(outcome, self.command, self.codes)
        if changed := checks.changed_files(folder, self._kept()):
            yield f"an input was changed, exit code {outcome.code}: {', '.join(changed)}"
        if strays := checks.strays(folder, [*self.files, *self.made, RECORDS, *(name for name, *_ in self.links)]):
            yield f"left in the folder: {re.sub('[0-9a-z_]{8}$', '…', strays[0])}"
        whole = not outcome.hung and outcome.code >= 0
        if self.text and not self.mixed:
            yield from checks.faults_of_text("standard output", outcome.out)
        elif whole and not self.text:
            yield from checks.faults_of_lines("standard output", outcome.out)
        for name in self.made:
            if name.endswith((".html", ".svg")) and (folder / name).is_file():
                yield from checks.faults_of_picture(name, (folder / name).read_bytes())
        if self.records is None or not whole:
            return
        data = outcome.out if self.records == "-" else _read(folder / self.records)
        if self.records != "-":
            yield from checks.faults_of_lines("the output", data)
        if self.base is not None and outcome.code != 2:
            yield from self._faults_of_records(outcome, checks.read_values(data), self.base, corpus)

    def _kept(self) -> dict[str, bytes]:
        """Return the files that the run may not change: all but those that it may make."""
        return {name: data for name, data in self.files.items() if name not in self.made}

    def _faults_of_records(self, outcome: Outcome, found: list[Any], base: Base, corpus: Corpus) -> Iterator[str]:
        """Yield which good records are missing, and whether the error names the wrong place."""
        code, whole = corpus.expected(base, self.command, self.plain)
        ignored = SAMPLED if self.command in ("generate", "select") else ()
        if self.exact:
            if outcome.code != code and not (code == 1 and self.skips):
                yield f"exit code {outcome.code} for the records of a run that ends with {code}"
            elif (len(whole) != len(found) and code == 0) or not checks.is_beginning(whole, found, ignored):
                yield "records are not those of the good run"
        if self.lines is None:
            return
        old, new = base.data.split(b"\n")[:-1], self.lines.split(b"\n")
        same = [one.rstrip(b"\r") == other.rstrip(b"\r") for one, other in zip(old, new, strict=False)]
        first = same.index(False) if False in same else len(same)
        err = outcome.err.decode("utf-8", "replace")
        places = [int(number) for number in checks.PLACE.findall(err)]
        if outcome.code == 1 and self.needs_place and not places:
            yield f"the error names no line: {err.strip()[-70:]}"
        if code == 0 and any(place <= first for place in places):
            yield f"the error names line {min(places)}, which is good"
        if outcome.code == 1 and self.command in PASSED_ON and self.records != "-":  # a file that appears when complete
            if found:
                yield "a part of a file took its name"
            return
        if self.command != "select":
            _, expected = corpus.expected(base, self.command, self.plain, first)
            if not checks.is_beginning(expected, found, ignored):
                yield f"good records before the bad one are lost, exit code {outcome.code}"
        looks_like_array = first == 0 and new[:1] != old[:1] and new[0].lstrip().startswith(b"[")  # which is one record
        if base.own and (self.skips or outcome.code == 0) and (first or b'"tokur"' in old[0]) and not looks_like_array:
            yield from self._faults_of_rest(outcome, found, whole, old, new, first)

    def _faults_of_rest(
        self, outcome: Outcome, found: list[Any], whole: list[Any], old: list[bytes], new: list[bytes], first: int
    ) -> Iterator[str]:
        """Yield which good records are missing where nothing but bad records may be."""
        last = 0
        while last < min(len(old), len(new) - 1) - first and old[-1 - last] == new[-2 - last]:
            last += 1
        each = len(whole) // len(old)
        kept = whole[: first * each] + whole[len(whole) - last * each :]
        ignored = SAMPLED if self.command in ("generate", "select") else ()
        if self.command == "select":
            # A changed record may lack either
            ids = {(record.get("id"), record["tokur"].get("sample")) for record in found if isinstance(record, dict)}
            # Where two responses to a question disagree about it, the later one is refused, changed or not
            doubtful = {record["id"] for record in whole[first * each : len(whole) - last * each]}
            sure = [record for record in kept if record["id"] not in doubtful]
            if any((record["id"], record["tokur"]["sample"]) not in ids for record in sure):
                yield f"good records are lost, exit code {outcome.code}"
            return
        if checks.lost(kept, found, ignored) is not None:
            yield f"good records are lost, exit code {outcome.code}"
        elif self.command not in PASSED_ON:
            skipped = re.search(rb"skipped (\d+) invalid", outcome.err)
            total = sum(bool(line.strip()) for line in new)
            if len(found) + each * (int(skipped[1]) if skipped else 0) != total * each:
                yield "records are neither written nor counted as skipped"


def _read(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b""
