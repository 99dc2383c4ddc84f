"""What happens before a model is loaded, and how what comes slowly is worked on as it comes."""

import itertools
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time

import pytest

from tests.helpers import parsed, records
from tokur_cli.commands.baselines.samples import question_key, standing_together
from tokur_cli.commands.options.model import ModelOptions
from tokur_cli.commands.options.scoring import ScoringOptions
from tokur_cli.commands.score.records import ScoredLine
from tokur_cli.commands.score.work import ScoreStream
from tokur_cli.commands.session.model import choose_model, model_named
from tokur_cli.commands.session.work import none_written
from tokur_cli.commands.shared.errors import InvalidRecords
from tokur_cli.commands.shared.progress import Progress
from tokur_cli.commands.shared.windows import as_they_come, windows
from tokur_cli.records.errors import RecordError
from tokur_cli.records.record import Record

GOOD = b'{"id": "a", "question": "1 + 1?", "response": "2"}\n'
SECONDS = 10.0
"""Generous: a mistake is told within half a second, and importing torch and transformers alone takes three."""

# Importing one of them is the failure itself, wherever it is caught
RUN = """
import sys
class Refusal:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "transformers", "accelerate", "sklearn", "sentence_transformers"):
            print(f"imported {name}", file=sys.stderr, flush=True)
            raise SystemExit(99)
sys.meta_path.insert(0, Refusal())
from tokur_cli.__main__ import main
main()
"""
CTRL_C = """
import os, signal
from tokur_cli.__main__ import main
set_action = signal.signal
def tell(*arguments):
    set_action(*arguments)
    signal.signal = set_action
    os.write(1, b".")
signal.signal = tell
main()
"""


def run(arguments, given=GOOD):
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", RUN, *map(str, arguments)], input=given, capture_output=True, check=False
    )
    return done.returncode, done.stdout, done.stderr.decode(), time.monotonic() - began


@pytest.mark.parametrize(
    ("arguments", "given", "code", "said"),
    [
        (["score", "nowhere.jsonl"], GOOD, 1, "nowhere.jsonl: cannot be read: No such file"),
        (["score", "--scores", "lll"], GOOD, 2, "unknown score"),
        (["score", "--sigma", "x"], GOOD, 2, '--sigma has "x"'),
        (["score", "--posterior", "nowhere"], GOOD, 1, "posterior.json: No such file or directory; write it with"),
        (["score", "--few-shot", "nowhere"], GOOD, 1, "nowhere: cannot be read: No such file"),
        (["score"], b'{"response": "2"}\n', 1, "<stdin>:1: "),
        (["generate", "--score", "--scores", "lll"], GOOD, 2, "unknown score"),
        (["generate"], b'{"id": "a"}\n', 1, "<stdin>:1: "),
    ],
)  # fmt: skip
def test_start_a_mistake_is_told_before_torch_is_imported(arguments, given, code, said):
    ended, out, err, seconds = run(arguments, given)
    assert (ended, out) == (code, b"")
    assert said in err
    assert err.count("\n") == 1
    assert seconds < SECONDS


def interrupt(milliseconds, arguments):
    process = subprocess.Popen(
        [sys.executable, "-c", CTRL_C, *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert process.stdout.read(1) == b"."
    time.sleep(milliseconds / 1000)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    return process.returncode, err.decode()


def interrupted_quietly(code, err, name):
    """Whether a run ended by itself, or by Ctrl-C (which shells tell as 130, also where no command had begun yet)."""
    lines = [line for line in err.splitlines() if line != f"tokur score: loading {name}"]
    return (code, lines) in [(0, []), (-signal.SIGINT, []), (130, []), (130, ["tokur score: interrupted"])]


@pytest.mark.parametrize("milliseconds", [0, 20, 100, 300])
def test_start_ctrl_c_while_tokur_starts_ends_it_without_a_traceback(milliseconds, tiny_folder, tmp_path):
    given = tmp_path / "in.jsonl"
    given.write_bytes(GOOD)
    ended = interrupt(milliseconds, ["score", given, "-m", tiny_folder])
    assert interrupted_quietly(*ended, tiny_folder), ended


PATIENCE = 60


def encoded(rows):
    return [json.dumps(row).encode() + b"\n" for row in rows]


class Running:
    """A command whose input stays open for as long as the test wants: of a new interpreter, or of what is there."""

    def __init__(self, *arguments, programs=None, **options):
        tokur = [sys.executable, "-m", "tokur_cli"] if programs is None else [programs / "tokur"]
        self.process = subprocess.Popen(
            [*tokur, *map(str, arguments)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env={**os.environ, "OMP_NUM_THREADS": "1"}, bufsize=0, **options,
        )  # fmt: skip
        self.out = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def give(self, data):
        self.process.stdin.write(data)

    def lines(self, count):
        """The first lines of the output, as records, waited for."""
        deadline = time.monotonic() + PATIENCE
        while self.out.count(b"\n") < count:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0, deadline - time.monotonic()))
            assert ready, f"only this of {count} lines: {self.out[:200]!r}"
            part = os.read(self.process.stdout.fileno(), 1 << 20)
            assert part, "the output ended"
            self.out += part
        return parsed(self.out.decode())

    def close(self):
        """End the input; the exit code and all of the output."""
        self.process.stdin.close()
        self.process.stdin = None
        rest, _ = self.process.communicate(timeout=PATIENCE)
        self.out += rest
        return self.process.returncode, parsed(self.out.decode())


def ids(found):
    return [record["id"] for record in found]


def test_arrivals_score_delivers_while_the_pipe_is_open(tiny_folder):
    first, second, third = encoded(records(3))
    with Running("score", "-m", tiny_folder) as running:
        running.give(first + second[:10])
        assert ids(running.lines(1)) == ["q0"], "half a line is waited for"
        running.give(second[10:])
        assert ids(running.lines(2)) == ["q0", "q1"]
        running.give(third)
        assert ids(running.lines(3)) == ["q0", "q1", "q2"]
        code, found = running.close()
    assert (code, len(found)) == (0, 3)


@pytest.mark.slow
@pytest.mark.parametrize("scored", [[], ["--score"]], ids=["plain", "scored"])
def test_arrivals_generate_delivers_while_the_pipe_is_open(programs, tiny_folder, scored):
    questions = encoded([{"id": f"q{number}", "question": "1 + 1?"} for number in range(3)])
    options = ["--max-new-tokens", 4, "-n", 2, "--temperature", 1]
    with Running("generate", "-m", tiny_folder, *options, *scored, programs=programs) as running:
        for number, line in enumerate(questions, start=1):
            running.give(line)
            found = running.lines(2 * number)
            assert [record["tokur"]["sample"] for record in found] == [0, 1] * number
            assert all(("scores" in record["tokur"]) == bool(scored) for record in found)
        assert running.close()[0] == 0


def test_arrivals_no_more_is_read_ahead_than_a_few_records(tmp_path):
    taken = []

    def counted():
        for number in range(1000):
            taken.append(number)
            yield number

    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    found = as_they_come(str(pipe), counted())
    assert next(found) == 0
    time.sleep(0.3)
    assert len(taken) < 20
    assert sum(1 for _ in found) == 999
    assert threading.active_count() < 20


def test_arrivals_a_pause_ends_a_window_before_the_last_question():
    def record(name):
        return Record.parse(json.dumps({"id": name, "question": name}).encode(), None, None)

    stream = [record("a"), record("a"), None, record("b"), None, record("b"), record("c"), None, None]
    found = windows(standing_together(stream), iter([9] * 9), question_key())
    assert [[one.id for one in window] for window in found] == [["a", "a"], ["b", "b"], ["c"]]


LIMIT = 10_000


def record(number, size):
    row = {"id": f"q{number}", "n": number, "pad": "x" * size}
    return Record.parse(json.dumps(row).encode(), "in", number)


SIZES = [0, 9_000, 0, 2_000, 30_000, 30_000, *[4_000] * 7, *[0] * 40]
ITEMS = [RecordError("bad") if number == 8 else record(number, size) for number, size in enumerate(SIZES)]


@pytest.mark.parametrize(
    "cut",
    [
        lambda items: windows(items, itertools.chain([16, 32], itertools.repeat(64))),
        lambda items: windows(items, iter([20] * 99), question_key()),
    ],
    ids=["scores", "questions"],
)
def test_windows_have_the_same_items_and_little_text(monkeypatch, cut):
    monkeypatch.setattr("tokur_cli.commands.shared.windows.WINDOW_BYTES", LIMIT)
    found = list(cut(ITEMS))
    assert [item for window in found for item in window] == ITEMS
    for window in found:
        texts = [item.size for item in window if isinstance(item, Record)]
        assert sum(texts) < LIMIT + max(texts), "without its largest record it is below the limit"
    assert max(map(len, found)) >= 16, "short records are as many as before"


@pytest.mark.parametrize(("device", "most"), [("cpu", 16), ("cuda", 256)])
def test_windows_what_is_read_or_generated_is_scored_once_it_fills_a_batch(device, most):
    """Not once 256 records are there, where a batch has room for fewer: generation would go on for minutes."""
    read = 0

    def items():
        nonlocal read
        for number in range(1000):
            read += 1
            yield record(number, 10)

    class Scoring:
        def __init__(self):
            self.device = device

        def map(self, tasks, lost):
            for task in tasks:
                yield [ScoredLine(b"", 1) for _ in task.window]

    stream = ScoreStream(Scoring(), ScoringOptions(), Progress("score"), InvalidRecords("score", skip=False))
    lines = stream.lines(items(), none_written)
    assert max(read - written for written, _ in enumerate(lines)) == most
    assert read == 1000


def test_progress_records_of_an_earlier_run_tell_nothing_of_the_time_left(monkeypatch, capsys):
    clock = iter([0, 0, 10, 100])
    monkeypatch.setattr("tokur_cli.commands.shared.progress.time.perf_counter", lambda: next(clock))
    progress = Progress("score")
    progress.start(lambda: 1000)
    progress.passed(800)
    progress.advance(100)
    assert capsys.readouterr().err == "tokur score: 900 of 1,000 records, 2 min so far, about 2 min left\n"


def test_model_that_records_name_is_loaded_at_the_revision_that_they_are_of():
    made = {"model": "us/m", "revision": "0a1b", "base_revision": "2c3d"}
    plain, of_base = (
        {"model": "us/m", "generation": made},
        {"model": "us/a", "base": "us/m", "run": made | {"model": "us/a"}},
    )
    chosen = [choose_model(ModelOptions(), model_named(Record({"tokur": tokur}))) for tokur in (plain, of_base)]
    assert [(one.name, one.adapter, one.revision) for one in chosen] == [
        ("us/m", None, "0a1b"),
        ("us/m", "us/a", "2c3d"),
    ]
