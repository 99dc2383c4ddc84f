"""A stream of records, scored by whoever does the work, for ``score`` and ``generate --score``."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple

from tokur_cli.commands.baselines.features import largest_window, over_samples
from tokur_cli.commands.baselines.samples import question_key, standing_together
from tokur_cli.commands.options.scoring import ScoringOptions, default_batch_tokens
from tokur_cli.commands.score.provenance import settings_for, settings_of
from tokur_cli.commands.session.work import AlreadyWritten, Stream
from tokur_cli.commands.shared.errors import InvalidRecords, say
from tokur_cli.commands.shared.progress import Progress
from tokur_cli.commands.shared.windows import window_sizes, windows
from tokur_cli.commands.workers.pool import DEATHS, InProcess, Pool
from tokur_cli.records.errors import RecordError
from tokur_cli.records.record import Record
from tokur_cli.records.writer import Continuation


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
        tu: the sum of their total uncertainties; NaN where there was no draw.
        entropy: the sum of the model's own entropies.
    """

    line: bytes
    tokens: int
    tu: float = math.nan
    entropy: float = math.nan


class ScoreStream(Stream):
    """Takes a stream of records through the scoring of a pool.

    Args:
        pool: who scores, by ``RecordScorer``.
        options: what is computed.
        progress: told of work done.
        invalid: what happens to bad records.
    """

    def __init__(
        self, pool: InProcess | Pool, options: ScoringOptions, progress: Progress, invalid: InvalidRecords
    ) -> None:
        self._pool, self._options, self._progress, self._invalid = pool, options, progress, invalid

    @property
    def resuming(self) -> Continuation:  # noqa: D102
        return Continuation(partial(settings_for, self._pool.settings), settings_of)

    def lines(self, items: Iterable[Record | RecordError | None], already_written: AlreadyWritten) -> Iterator[bytes]:
        """Yield the scored records that are not written already; stop at the first bad one unless they are skipped."""
        monitor = StrengthMonitor()
        for _, outcomes in self._pool.map(self._tasks(items, already_written), _lost):
            last = -1
            for place, outcome in outcomes:
                if place <= last:  # by a worker that has died since
                    continue
                last = place
                if isinstance(outcome, ScoredLine):
                    yield outcome.line
                    self._progress.advance(1, outcome.tokens)
                    monitor.add(outcome)
                else:
                    self._invalid.skip_or_raise(outcome)
                    self._progress.advance(1)
        if advice := monitor.advice():
            say(self._progress.command, advice)

    def _tasks(
        self, items: Iterable[Record | RecordError | None], already_written: AlreadyWritten
    ) -> Iterator[ScoringTask]:
        """Yield windows; a resumed run cuts the same ones as an undisturbed one, so that its numbers are the same."""
        needs, baselines = self._options.needs, self._options.baselines
        batch_tokens = self._options.batch_tokens or default_batch_tokens(self._pool.device)
        sizes = window_sizes(largest_window(needs, baselines, batch_tokens))
        key: Callable[[Record | RecordError], str | None] | None = None
        if over_samples(needs, baselines):
            items, key = standing_together(items), question_key()
        cut: Iterator[list[Record | RecordError]] = windows(items, sizes, key)
        for window in cut:
            wanted = [isinstance(item, RecordError) or not already_written(item) for item in window]
            self._progress.advance(len(window) - sum(wanted))
            if any(wanted):
                yield ScoringTask(window, wanted, self._invalid.skip)


class StrengthMonitor:
    """Tells whether the draws swamp the model: their mixture is much less sure than the model itself."""

    _MOST = 1.5  # times the model's entropy: draws of the strength that is chosen for a model reach 1.34
    _TOKENS = 100  # fewer say little

    def __init__(self) -> None:
        self.tokens, self.tu, self.entropy = 0, 0.0, 0.0

    def add(self, line: ScoredLine) -> None:
        """Count a response's tokens."""
        if math.isfinite(line.tu) and math.isfinite(line.entropy):
            self.tokens += line.tokens
            self.tu += line.tu
            self.entropy += line.entropy

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
            yield place, item.error(f"{DEATHS} workers died while they scored it: is there too little memory?")
