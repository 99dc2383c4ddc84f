"""Windows of records are bounded by their text, too: what stands in the output does not change, memory does."""

import itertools
import json

import pytest

from tokur_cli.commands.baselines.samples import question_key
from tokur_cli.commands.options.scoring import ScoringOptions
from tokur_cli.commands.score.records import ScoredLine
from tokur_cli.commands.score.work import ScoreStream
from tokur_cli.commands.session.work import none_written
from tokur_cli.commands.shared.errors import InvalidRecords
from tokur_cli.commands.shared.progress import Progress
from tokur_cli.commands.shared.windows import windows
from tokur_cli.records import record as bounds
from tokur_cli.records.errors import RecordError
from tokur_cli.records.record import Record

LIMIT = 10_000


@pytest.fixture
def low(monkeypatch):
    """Let windows be bounded at 10 kB, wherever they are cut."""
    monkeypatch.setattr(bounds, "WINDOW_BYTES", LIMIT)
    monkeypatch.setattr("tokur_cli.commands.shared.windows.WINDOW_BYTES", LIMIT)


def record(number, size, question=None):
    row = {"id": question or f"q{number}", "n": number, "pad": "x" * size}
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
def test_windows_have_the_same_items_and_little_text(low, cut):
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
                yield task, [(place, ScoredLine(b"", 1)) for place in range(len(task.window))]

    stream = ScoreStream(Scoring(), ScoringOptions(), Progress("score"), InvalidRecords("score", skip=False))
    lines = stream.lines(items(), none_written)
    assert max(read - written for written, _ in enumerate(lines)) == most
    assert read == 1000
