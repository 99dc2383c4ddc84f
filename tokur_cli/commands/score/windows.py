"""A stream of records, cut into windows and scored by whoever does the work, for ``score`` and ``generate --score``."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeVar

from tokur_cli.commands.baselines.features import largest_window, over_samples
from tokur_cli.commands.baselines.samples import standing_together, windows_of_questions
from tokur_cli.commands.options.scoring import ScoringOptions, default_batch_tokens
from tokur_cli.commands.score.checked import needs_of
from tokur_cli.commands.shared.arrivals import Pause
from tokur_cli.commands.shared.errors import InvalidRecords, say
from tokur_cli.commands.shared.progress import Progress
from tokur_cli.commands.workers.pool import DEATHS, InProcess, Pool
from tokur_cli.records.errors import RecordError, TokurError
from tokur_cli.records.record import WINDOW_BYTES, Record, size_of

T = TypeVar("T")

_FIRST_WINDOW = 16  # records, so that results come soon


class ScoringTask(NamedTuple):
    """Records that are scored together, which of them are wanted, and whether to go on after a bad one."""

    window: list[Record | RecordError]
    wanted: list[bool]
    skip_invalid: bool


class ScoredLine(NamedTuple):
    """A record with its results, as it will be written.

    Args:
        line: the record.
        tokens: how many its response has.
        anew: whether these are not the tokens that the model wrote, which the record names but does not tell.
        doubt: sums of tu and of the entropy over its tokens; None where there was no draw.
    """

    line: bytes
    tokens: int
    anew: bool
    doubt: tuple[float, float] | None


def score_records(
    items: Iterable[Record | RecordError | Pause],
    invalid: InvalidRecords,
    already_written: Callable[[Record], Record | None],
    *,
    pool: InProcess | Pool,
    options: ScoringOptions,
    progress: Progress,
) -> Iterator[bytes]:
    """Yield the scored records that are not written already; stop at the first bad one unless they are skipped."""

    def tasks() -> Iterator[ScoringTask]:
        # A resumed run cuts the same windows and batches as an undisturbed one, so that its numbers are the same
        for window in _cut(items, options, options.batch_tokens or default_batch_tokens(pool.device)):
            wanted = [isinstance(item, RecordError) or not already_written(item) for item in window]
            progress.advance(len(window) - sum(wanted))
            if any(wanted):
                yield ScoringTask(window, wanted, invalid.skip)

    def outcomes() -> Iterator[ScoredLine | RecordError]:
        for _, of_window in pool.map(tasks(), _lost):
            told = -1
            for place, outcome in of_window:
                if place > told:  # else by a worker that has died since
                    told = place
                    yield outcome

    return lines_of(outcomes(), invalid, progress)


def lines_of(
    outcomes: Iterable[ScoredLine | RecordError], invalid: InvalidRecords, progress: Progress
) -> Iterator[bytes]:
    """Yield scored records as they are written; say at the end what the user should know of them."""
    anew = 0
    swamping = Swamping()
    for outcome in outcomes:
        if isinstance(outcome, ScoredLine):
            yield outcome.line
            progress.advance(1, outcome.tokens)
            anew += outcome.anew
            swamping.add(outcome)
        else:
            invalid.skip_or_raise(outcome)
            progress.advance(1)
    if anew:
        count = f"{anew:,} responses were" if anew > 1 else "1 response was"
        say(
            progress.command,
            f"{count} tokenized anew, perhaps not into the tokens that the model wrote: the records hold none that "
            "spell the text",
        )
    if advice := swamping.advice():
        say(progress.command, advice)


class Swamping:
    """Tells whether the draws swamp the model: their mixture is much less sure than the model itself."""

    _MOST = 1.5  # times the model's entropy: draws of the strength that is chosen for a model reach 1.34
    _TOKENS = 100  # fewer say little

    def __init__(self) -> None:
        self.tokens, self.tu, self.entropy = 0, 0.0, 0.0

    def add(self, line: ScoredLine) -> None:
        """Count a response's tokens."""
        if line.doubt is not None and all(map(math.isfinite, line.doubt)):
            self.tokens += line.tokens
            self.tu += line.doubt[0]
            self.entropy += line.doubt[1]

    def advice(self) -> str | None:
        """Return what is to be said at the end; None where all is well."""
        if self.tokens < self._TOKENS or self.tu <= self._MOST * self.entropy:
            return None
        tu, entropy = self.tu / self.tokens, self.entropy / self.tokens
        return (
            f"the draws swamp the model: its own entropy is {entropy:.2g} nats a token, tu is {tu:.2g}; give a smaller "
            "--sigma (`tokur perturb --sweep` shows what each does)"
        )


def _lost(task: ScoringTask) -> Iterator[tuple[int, RecordError]]:
    """Yield the errors of records that no worker outlives, by their places."""
    for place, (item, wanted) in enumerate(zip(task.window, task.wanted, strict=True)):
        if isinstance(item, RecordError):
            yield place, item
        elif wanted:
            reason = (
                f"{DEATHS} workers died while they scored it, or one of the {len(task.window)} records beside it: is "
                "there too little memory for --batch-tokens?"
            )
            yield place, item.error(reason)


def _cut(
    items: Iterable[Record | RecordError | Pause], options: ScoringOptions, batch_tokens: int
) -> Iterator[list[Record | RecordError]]:
    """Cut the input into the windows whose records are scored together; a pause ends one."""
    needs = needs_of(options)
    sizes = window_sizes(largest_window(needs, options.baselines, batch_tokens))
    if over_samples(needs, options.baselines):
        return windows_of_questions(standing_together(items), sizes)
    return windows(items, sizes)


def window_sizes(largest: int) -> Iterator[int]:
    """Yield 16, 32, 64, … records, at most the largest, if that is more."""
    size = _FIRST_WINDOW
    while True:
        yield size
        size = max(size, min(2 * size, largest))


def windows(items: Iterable[T | Pause], sizes: Iterator[int]) -> Iterator[list[T]]:
    """Cut a stream into windows of at most these sizes, shorter where text is long or it pauses, ends or fails."""
    window: list[T] = []
    size, text = next(sizes), 0
    try:
        for item in items:
            if not isinstance(item, Pause):
                window.append(item)
                text += size_of(item)
            if len(window) == size or text >= WINDOW_BYTES or (window and isinstance(item, Pause)):
                yield window
                window, size, text = [], next(sizes), 0
    except TokurError:
        if window:
            yield window
        raise
    if window:
        yield window
