"""Faults: kills, interrupts, full disks, closed pipes and descriptors, two runs with one output."""

from __future__ import annotations

import os
import random
import resource
import select
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.storm import checks
from tests.storm.corpus import ALWAYS, NEEDS_MODEL, RAW, Corpus
from tests.storm.report import Report
from tests.storm.warm import HANG_SECONDS, Outcome, Run, Warm

OUT = "out.jsonl"


@dataclass(frozen=True)
class Job:
    """A run that takes a while, and what it writes when nothing disturbs it.

    Attributes:
        command: the command.
        arguments: all of its arguments but the output's.
        expected: the bytes that it writes.
        exact: whether a resumed run writes the same bytes; else its numbers are those bytes' up to rounding.
        code: its exit code.
        seconds: how long it takes.
    """

    command: str
    arguments: tuple[str, ...]
    expected: bytes
    code: int
    seconds: float
    exact: bool = True

    def begins_with(self, found: bytes) -> bool:
        """Return whether that is the beginning of what it writes, perhaps ending within a line."""
        if self.exact:
            return self.expected.startswith(found)
        return checks.is_beginning(checks.read_values(found), checks.read_values(self.expected))

    def is_written(self, found: bytes) -> bool:
        """Return whether that is all that it writes."""
        if self.exact:
            return found == self.expected
        return self.begins_with(found) and found.count(b"\n") == self.expected.count(b"\n")


class Faults:
    """Disturbs runs, and looks at what they leave.

    Args:
        warm: runs the command line.
        corpus: the good inputs.
    """

    def __init__(self, warm: Warm, corpus: Corpus) -> None:
        self._warm, self._corpus = warm, corpus
        self._folder = corpus.folder / "jobs"
        self._folder.mkdir()
        self._jobs: dict[str, Job] = {}
        self._kinds: dict[str, tuple[float, Callable[[random.Random, Path, Report], tuple[str, list[str]]]]] = {
            "kills": (40, self._kills),
            "kills, one file": (8, self._kills_of_one_file),
            "interrupts": (16, self._interrupts),
            "full disks": (12, self._full_disks),
            "closed pipes": (12, self._closed_pipes),
            "closed descriptors": (6, self._closed_descriptors),
            "two runs at once": (6, self._two_runs),
            "by the console script": (1.5, self._by_the_script),
        }

    def one(self, rng: random.Random, place: Path, report: Report, kind: str | None) -> tuple[str, str, str, list[str]]:
        """Disturb one run in a folder; return the kind of fault, the command, its line, and what fell."""
        kind = kind or rng.choices(list(self._kinds), [weight for weight, _ in self._kinds.values()])[0]
        line, found = self._kinds[kind][1](rng, place, report)
        return kind, line.split()[1], line, found

    def _job(self, name: str) -> Job:
        """Return a job; it is run undisturbed when it is first asked for."""
        if not self._jobs:
            self._make_jobs()
        return self._jobs[name]

    def _make_jobs(self) -> None:
        questions, responses = self._corpus.many()
        for name, data in {"questions.jsonl": questions, "responses.jsonl": responses}.items():
            (self._folder / name).write_bytes(data)
        (self._folder / "scored.jsonl").write_bytes(self._corpus.scored.data * 30)
        given = {name: str(self._folder / f"{name}.jsonl") for name in ("questions", "responses", "scored")}
        sampled = ("-n", "2", "--temperature", "1", "--batch-size", "8")
        for name, command, arguments in (
            ("score", "score", (given["responses"], "--skip-invalid", "--batch-tokens", "400")),
            ("generate", "generate", (given["questions"], "--skip-invalid", *sampled)),
            (
                "generate --stop-at",
                "generate",
                (given["questions"], "--skip-invalid", *sampled, "-n", "6", "--stop-at", "0.51"),
            ),
            ("generate --score", "generate", (given["questions"], "--skip-invalid", *sampled, "--score")),
            ("select", "select", (given["scored"], "--records")),
            ("evaluate", "evaluate", (given["scored"],)),
            ("heatmap", "heatmap", (given["scored"],)),
            ("perturb", "perturb", (given["responses"], "--skip-invalid", "--limit", "20")),
        ):
            model = (*self._corpus.model_options(command), *RAW) if command in NEEDS_MODEL else ()
            line = (command, *arguments, *model, *ALWAYS[command])
            outcome = self._warm.run(line, self._folder)
            self._jobs[name] = Job(
                command, line, outcome.out, outcome.code, outcome.seconds, exact=name != "generate --score"
            )

    def _kills(self, rng: random.Random, place: Path, report: Report) -> tuple[str, list[str]]:
        """Kill a run at random moments; resumed, it ends with the bytes of an undisturbed one."""
        job = self._job(rng.choice(("score", "score", "generate", "generate --stop-at", "generate --score")))
        line = (*job.arguments, "-o", OUT, "--resume")
        output = place / OUT
        faults = []
        for _ in range(rng.choice((1, 2, 3))):
            run = self._warm.start(line, place)
            if run.wait(rng.uniform(0, job.seconds * 1.05)):
                run.finish()
                break
            run.send(signal.SIGKILL)
            report.add("kills", job.command, *_measured(run.finish()))
            found = output.read_bytes() if output.exists() else b""
            if not job.begins_with(found):
                faults.append("after a kill the output is no beginning of an undisturbed run's")
            if rng.random() < 0.3:  # as if it came within a write
                with output.open("ab") as file:
                    file.write(job.expected[len(found) :][: rng.randint(1, 300)].split(b"\n")[0])
        return _shown(line), [*faults, *self._resumed(job, line, place)]

    def _resumed(self, job: Job, line: tuple[str, ...], place: Path) -> Iterator[str]:
        """Resume a job undisturbed, and yield what is wrong then."""
        outcome = self._warm.run(line, place)
        yield from checks.faults_of_run(outcome, job.command, (job.code,))
        if not job.is_written((place / OUT).read_bytes()):
            yield "the resumed output is not that of an undisturbed run"

    def _kills_of_one_file(self, rng: random.Random, place: Path, report: Report) -> tuple[str, list[str]]:
        """Kill a run that makes a page or a posterior: it is there as a whole or not at all."""
        if rng.random() < 0.5:
            line = (*self._job("heatmap").arguments, "--html", "page.html")
            name = "page.html"
        else:
            line = ("perturb", *self._corpus.model_options("perturb"), "-o", "posterior")
            name = "posterior/posterior.json"
        whole = self._corpus.folder / "whole"
        if not (whole / name).exists():
            whole.mkdir(exist_ok=True)
            self._warm.run(line, whole)
        if rng.random() < 0.5:
            (place / name).parent.mkdir(exist_ok=True)
            (place / name).write_bytes(b"{}")
            line = (*line, *(("--force",) if line[0] == "perturb" else ()))
        started = time.monotonic()
        run = self._warm.start(line, place)
        run.wait(rng.uniform(0, 0.4))
        report.add("kills, one file", line[0], time.monotonic() - started)
        with suppress(ProcessLookupError):
            run.send(signal.SIGKILL)
        run.finish()
        found = (place / name).read_bytes() if (place / name).exists() else None
        faults = [] if found in (None, b"{}", (whole / name).read_bytes()) else [f"half of {name} is left"]
        if found not in (None, b"{}"):
            names = {path.relative_to(whole) for path in (whole / name).parent.rglob("*") if name != "page.html"}
            faults += [f"{part} is missing" for part in names if not (place / part).exists()]
        return _shown(line), faults

    def _interrupts(self, rng: random.Random, place: Path, report: Report) -> tuple[str, list[str]]:
        """Interrupt or end a run at a random moment: a word, an exit code, whole lines."""
        job = self._job(
            rng.choice(("score", "generate", "generate --score", "select", "evaluate", "heatmap", "perturb"))
        )
        resumable = job.command in ("score", "generate")
        line = (*job.arguments, *(("-o", OUT, "--resume") if resumable else ()))
        number = rng.choice((signal.SIGINT, signal.SIGINT, signal.SIGTERM))
        run = self._warm.start(line, place)
        run.wait(rng.uniform(0, job.seconds))
        with suppress(ProcessLookupError):
            run.send(number)
        outcome = run.finish()
        report.add("interrupts", job.command, *_measured(outcome))
        codes = (job.code, 130, -signal.SIGINT) if number == signal.SIGINT else (job.code, 143, -signal.SIGTERM)
        faults = list(checks.faults_of_run(outcome, job.command, codes))
        found = (place / OUT).read_bytes() if (place / OUT).exists() else outcome.out
        if not job.begins_with(found):
            faults.append("after a signal the output is no beginning of an undisturbed run's")
        if number == signal.SIGINT and resumable and found and not found.endswith(b"\n"):
            faults.append("after an interrupt the output ends within a line")
        return _shown(line), [*faults, *(self._resumed(job, line, place) if resumable else ())]

    def _full_disks(self, rng: random.Random, place: Path, report: Report) -> tuple[str, list[str]]:
        """Let the disk be full: the error names the file, and what was written is resumed."""
        if rng.random() < 0.4:
            return self._full_device(rng, place, report)
        job = self._job(rng.choice(("score", "generate", "generate --score")))
        line = (*job.arguments, "-o", OUT, "--resume")
        limit = rng.randrange(4096, len(job.expected))
        size = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (limit, limit))
        outcome = self._warm.run(line, place, prepare=size)
        report.add("full disks", job.command, *_measured(outcome))
        faults = list(checks.faults_of_run(outcome, job.command, (1,)))
        if OUT.encode() not in outcome.err:
            faults.append("the error does not name the file")
        if not job.begins_with((place / OUT).read_bytes()):
            faults.append("on a full disk the output is no beginning of an undisturbed run's")
        return _shown(line), [*faults, *self._resumed(job, line, place)]

    def _full_device(self, rng: random.Random, place: Path, report: Report) -> tuple[str, list[str]]:
        job = self._job(rng.choice(list(self._jobs) or ["score"]))
        by_name = rng.random() < 0.5 and job.command != "perturb"
        line = (*job.arguments, *(("-o", "/dev/full") if by_name else ()))
        full = os.open("/dev/full", os.O_WRONLY)
        outcome = self._warm.run(line, place, stdout=None if by_name else full)
        os.close(full)
        report.add("full disks", job.command, *_measured(outcome))
        faults = list(checks.faults_of_run(outcome, job.command, (1,)))
        if b"cannot be written" not in outcome.err:
            faults.append("/dev/full: the error does not say that it cannot be written")
        return _shown(line) + ("" if by_name else " > /dev/full"), faults

    def _closed_pipes(self, rng: random.Random, place: Path, report: Report) -> tuple[str, list[str]]:
        """Stop reading the output somewhere: a quiet end."""
        job = self._job(rng.choice(("score", "generate", "select", "evaluate", "heatmap", "perturb")))
        count = rng.choice((0, 1, rng.randrange(len(job.expected)), len(job.expected)))
        reader, writer = os.pipe()
        run = self._warm.start(job.arguments, place, stdout=writer)
        os.close(writer)
        read = _read(reader, count)
        os.close(reader)
        outcome = run.finish()
        report.add("closed pipes", job.command, *_measured(outcome))
        faults = list(checks.faults_of_run(outcome, job.command, (0, job.code)))
        if not job.expected.startswith(read):
            faults.append("what was read is no beginning of an undisturbed run's output")
        if b"roken pipe" in outcome.err:
            faults.append("a closed pipe is an error")
        return f"{_shown(job.arguments)} | head -c {count}", faults

    def _closed_descriptors(self, rng: random.Random, place: Path, report: Report) -> tuple[str, list[str]]:
        """Close standard input, output or error before the start."""
        job = self._job(rng.choice(("score", "generate", "select", "evaluate", "heatmap", "perturb")))
        closed = rng.choice(((0,), (1,), (2,), (1, 2), (0, 2), (0, 1, 2)))
        outcome = self._warm.run(job.arguments, place, closed=closed)
        report.add("closed descriptors", job.command, *_measured(outcome))
        codes = (1, 2) if 1 in closed else (job.code,)
        faults = list(checks.faults_of_run(outcome, job.command, codes))
        if 2 in closed:
            faults = [fault for fault in faults if "without a message" not in fault]
        if 1 not in closed and outcome.out != job.expected:
            faults.append("the records are not those of a run with all descriptors")
        return _shown(job.arguments) + "".join(f" {number}{'<' if number == 0 else '>'}&-" for number in closed), faults

    def _two_runs(self, rng: random.Random, place: Path, report: Report) -> tuple[str, list[str]]:
        """Let two runs write one output: one writes it as if it were alone, the other is refused or finds it done."""
        job = self._job(rng.choice(("score", "generate")))
        line = (*job.arguments, "-o", OUT, *(("--resume",) if rng.random() < 0.5 else ()))
        folders = [place / "first", place / "second"]
        runs: list[Run] = []
        for folder in folders:
            folder.mkdir()
            (folder / OUT).symlink_to(place / OUT)
            runs.append(self._warm.start(line, folder))
            time.sleep(rng.uniform(0, job.seconds * 0.7))
        outcomes = [run.finish() for run in runs]
        faults = []
        for outcome in outcomes:
            report.add("two runs at once", job.command, *_measured(outcome))
            faults += checks.faults_of_run(outcome, job.command, (job.code, 1, 2))
        if job.code not in [outcome.code for outcome in outcomes]:
            faults.append("neither of two runs did its work")
        if (place / OUT).read_bytes() != job.expected:
            codes = " and ".join(str(outcome.code) for outcome in outcomes)
            faults.append(f"two runs at once (exit codes {codes}): the output is not that of one run")
        return f"{_shown(line)} & {_shown(line)}", faults

    def _by_the_script(self, rng: random.Random, place: Path, report: Report) -> tuple[str, list[str]]:
        """Start the console script itself, and kill or interrupt it; imports are part of it here."""
        job = self._job(rng.choice(("score", "generate", "select", "heatmap")))
        resumable = job.command in ("score", "generate")
        line = (*job.arguments, *(("-o", OUT, "--resume") if resumable else ()))
        number = rng.choice((signal.SIGINT, signal.SIGKILL))
        script = Path(sys.executable).with_name("tokur")
        with (place / ".stdout").open("wb") as out, (place / ".stderr").open("wb") as err:
            process = subprocess.Popen([script, *line], cwd=place, stdout=out, stderr=err, start_new_session=True)
            time.sleep(rng.choice((rng.uniform(0, 0.5), rng.uniform(0, 8))))
            process.send_signal(number)
            with suppress(subprocess.TimeoutExpired):
                process.wait(HANG_SECONDS)
            hung = process.poll() is None
            process.kill()
            code = process.wait()
        report.add("by the console script", job.command)
        outcome = Outcome(code, b"", (place / ".stderr").read_bytes(), 0, 0, hung)
        codes = (job.code, 130, -number)
        faults = list(checks.faults_of_run(outcome, job.command, codes))
        return _shown(line), [*faults, *(self._resumed(job, line, place) if resumable else ())]


def _measured(outcome: Outcome) -> tuple[float, int]:
    return outcome.seconds, outcome.memory_bytes


def _shown(line: tuple[str, ...]) -> str:
    return shlex.join(["tokur", *line])


def _read(reader: int, count: int) -> bytes:
    """Read so many bytes, or what comes until the end."""
    data = b""
    deadline = time.monotonic() + HANG_SECONDS
    while len(data) < count and select.select([reader], [], [], max(0, deadline - time.monotonic()))[0]:
        chunk = os.read(reader, min(1 << 16, count - len(data)))
        if not chunk:
            break
        data += chunk
    return data
