"""The good files that are mutated: samples, rows of other programs, and what the command line itself makes of them."""

from __future__ import annotations

import json
import re
import zlib
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.storm.in_turn import InTurn
from tests.storm.warm import Warm

ROOT = Path(__file__).parents[2]
FORMATS = ROOT / "tests" / "data" / "formats"
RESPONSES_OF = ("gsm8k_model_solutions", "messages", "prompt_completion", "lm_eval_new", "lm_eval_old")
QUESTIONS_OF = ("gsm8k", "math", "svamp", "humaneval", "messages", "prompt_completion", "vllm_logprobs_requests")
MAPPED = {"gsm8k_model_solutions": ("--response-field", "175b_finetuning.solution")}
BATCHES = ("openai_batch", "vllm_batch", "vllm_logprobs")
RAW = ("--template", "raw")
"""No chat, whose process takes a second to start."""

ALWAYS = {
    "score": ("--draws", "2", "--dtype", "float32"),
    "generate": ("--max-new-tokens", "6", "--dtype", "float32"),
    "select": (),
    "evaluate": ("--bootstrap", "20", "--json"),
    "heatmap": (),
    "perturb": ("--sweep", "0.1"),
}
"""What keeps the runs short, the numbers near each other in every batch, and the tables JSON."""
NEEDS_MODEL = ("score", "generate", "perturb")


@dataclass(frozen=True)
class Base:
    """A good input.

    Attributes:
        file: its name, whose ending says what it is.
        data: its bytes.
        commands: which read it.
        companions: other files that belong to it, by name.
        options: what it needs.
        own: whether each line is a record of tokur's own format, so that a line in is a record out.
    """

    file: str
    data: bytes
    commands: tuple[str, ...]
    companions: dict[str, bytes] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    own: bool = False

    @property
    def in_lines(self) -> bool:
        """Whether it is JSON lines."""
        return self.file.endswith(".jsonl")


class Corpus:
    """Good inputs for every command, made in a folder.

    Args:
        warm: runs the command line, and learns from it.
        runner: runs it faster.
        folder: where the model and the posterior are, and where the files are made.
        model: the model's folder.
    """

    def __init__(self, warm: Warm, runner: InTurn, folder: Path, model: Path) -> None:
        self._warm, self._runner, self.folder, self.model = warm, runner, folder, model
        self._expected: dict[tuple[Any, ...], tuple[int, list[Any]]] = {}
        responses = _responses()
        scored = self._make("score", responses, *ALWAYS["score"])
        labelled = b"".join(_labelled(number, line) for number, line in enumerate(scored.splitlines()))
        self.responses = Base("responses.jsonl", responses, ("score", "perturb"), own=True)
        self.questions = Base("questions.jsonl", _questions(), ("generate",), own=True)
        self.scored = Base("scored.jsonl", labelled, ("score", "select", "evaluate", "heatmap", "perturb"), own=True)
        generated = self._make("generate", self.questions.data, "-n", "2", "--temperature", "1", *ALWAYS["generate"])
        self.bases = (
            *(self.responses, self.questions, *[self.scored] * 6),
            Base("generated.jsonl", generated, ("score",), own=True),
            *(Base(f"{name}.jsonl", _rows(name), ("score",), options=MAPPED.get(name, ())) for name in RESPONSES_OF),
            *(Base(f"{name}.jsonl", _rows(name), ("generate",)) for name in QUESTIONS_OF if "requests" not in name),
            *(_batch(name) for name in BATCHES),
            Base("inspect.eval", (FORMATS / "inspect.eval").read_bytes(), ("score",)),
            Base("inspect.json", (FORMATS / "inspect.json").read_bytes(), ("score",)),
            Base("deepscaler.json", (FORMATS / "deepscaler.json").read_bytes(), ("generate",)),
        )
        self.few_shot = b'{"question":"What is 1 + 1?","response":"2"}\n{"question":"2 + 2?","reference":"4"}\n'
        self._make("perturb", None, "-o", "posterior")
        self.posterior = {
            str(path.relative_to(folder / "posterior")): path.read_bytes()
            for path in sorted((folder / "posterior").rglob("*"))
            if path.is_file()
        }
        self._learn()

    def _learn(self) -> None:
        """Have the warm process import what the commands import late."""
        for arguments in (
            ("--help",),
            ("score", "-", "--sigma", "x"),
            ("score", "-", "--scores", "default,u_deg,p_true", "--similarity", "jaccard", *self.model_options("score")),
            ("select", "-"),
            ("evaluate", "-", "--as", "latex", "--group-by", "level"),
            ("evaluate", "-", "--as", "table", "--scaling", "2"),
            ("heatmap", "-"),
            ("heatmap", "-", "--svg", "s.svg", "--html", "s.html"),
        ):
            self._warm.learn(arguments, self.folder, stdin=self.scored.data)

    def many(self) -> tuple[bytes, bytes]:
        """Return many questions, and responses to them, among both some lines that are no records."""
        rows = [row for row in _sample_rows("questions.jsonl") if len(row["question"]) < 110]
        lines = [json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in rows[:50]]
        questions = b"".join(lines)
        options = ("-n", "2", "--temperature", "1", "--max-new-tokens", "12")
        responses = self._make("generate", questions, *options).splitlines(keepends=True)
        for many in (lines, responses):
            for place in (3, 20, 41):
                many.insert(place, b"broken\n")
        return b"".join(lines), b"".join(responses)

    def _make(self, command: str, data: bytes | None, *options: str) -> bytes:
        given = () if data is None else ("-", *RAW)
        arguments = [command, *given, "-m", str(self.model), *options]
        outcome = self._warm.learn(arguments, self.folder, stdin=data)
        if outcome.code != 0:
            raise RuntimeError(f"tokur {' '.join(arguments)}: exit code {outcome.code}: {outcome.err.decode()}")
        return outcome.out

    def expected(
        self, base: Base, command: str, options: tuple[str, ...], lines: int | None = None
    ) -> tuple[int, list[Any]]:
        """Return the exit code and the records that come of a good input, or of its first lines.

        Args:
            base: the input.
            command: the command.
            options: of the command; those that name files of the case and ``--skip-invalid`` change nothing here.
            lines: how many of its lines are read; None for all.
        """
        data = base.data if lines is None else b"".join(base.data.splitlines(keepends=True)[:lines])
        key = base.file, command, options, None if lines is None else zlib.crc32(data)
        if key not in self._expected:
            folder = self.folder / "expected"
            folder.mkdir(exist_ok=True)
            for name, content in {base.file: data, **base.companions}.items():
                (folder / name).write_bytes(content)
            records = folder / "records.jsonl"
            records.unlink(missing_ok=True)
            arguments = [command, base.file, *self.model_options(command), *options, *output_options(command)]
            code = self._runner.run(arguments, folder).code if data else 0
            self._expected[key] = code, [json.loads(line) for line in _lines_of(records)]
        return self._expected[key]

    def model_options(self, command: str) -> tuple[str, ...]:
        """Return the options that give the tiny model to a command that takes one."""
        return ("-m", str(self.model)) if command in NEEDS_MODEL else ()

    @cached_property
    def model_files(self) -> dict[str, bytes]:
        """The files of the model's folder."""
        return {path.name: path.read_bytes() for path in sorted(self.model.iterdir())}


def output_options(command: str, name: str = "records.jsonl") -> tuple[str, ...]:
    """Return the options that have a command write the records, one by one, to a file."""
    return {"evaluate": ("--graded", name), "perturb": (), "select": ("--records", "-o", name)}.get(
        command, ("-o", name)
    )


def _lines_of(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines() if path.is_file() else []


def _rows(name: str) -> bytes:
    """Return the rows of a format that fit the tiny model's context."""
    return (FORMATS / f"{name}.jsonl").read_bytes()


def _batch(name: str) -> Base:
    requests = f"{name}_requests.jsonl"
    companions = {requests: (FORMATS / requests).read_bytes()}
    return Base(f"{name}.jsonl", _rows(name), ("score",), companions, ("--requests", requests))


def _sample_rows(file: str) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in (ROOT / "samples" / file).read_text(encoding="utf-8").splitlines()]
    return [row for row in rows if len(row["question"]) + len(row.get("response", "")) < 280]


def _questions() -> bytes:
    rows = [{**row, "level": number % 3} for number, row in enumerate(_sample_rows("questions.jsonl")[:6])]
    return b"".join(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in rows)


def _responses() -> bytes:
    """Return two samples each of four questions; every second one is changed so that they differ."""
    lines = []
    for row in _sample_rows("responses.jsonl")[:4]:
        plain = {name: row[name] for name in ("id", "question", "reference")}
        for sample in (0, 1):
            number = re.sub(r"\D", "", row["reference"]) or "7"
            text = f"{row['response']} The answer is {int(number) + sample}."
            record = {
                **plain,
                "level": len(lines) % 3,
                "response": text,
                "tokur": {"sample": sample},
                "note": "é\u2028",
            }
            lines.append(json.dumps(record, ensure_ascii=len(lines) % 2 == 0).encode() + b"\n")
    return b"".join(lines)


def _labelled(number: int, line: bytes) -> bytes:
    return json.dumps({**json.loads(line), "correct": number % 2 == 0}, ensure_ascii=False).encode() + b"\n"
