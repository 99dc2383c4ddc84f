"""``tokur score``: responses in, token-level and response-level uncertainty out."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from tokur_cli.commands.baselines.features import over_samples, window_sizes
from tokur_cli.commands.baselines.samples import question_key, standing_together
from tokur_cli.commands.options.model import BackendOptions, ModelOptions, PromptOptions
from tokur_cli.commands.options.scoring import BaselineOptions, PosteriorOptions, ScoringOptions, default_batch_tokens
from tokur_cli.commands.score.records import ScoredLine, ScoringTask, settings_for, settings_of
from tokur_cli.commands.session.work import AlreadyWritten, Items, Stream, Work
from tokur_cli.commands.shared.errors import InvalidRecords, say
from tokur_cli.commands.shared.progress import Progress
from tokur_cli.commands.shared.prompts import PromptForm, refuse_other_model
from tokur_cli.commands.shared.windows import windows
from tokur_cli.commands.workers.pool import DEATHS, Pool
from tokur_cli.engine.posterior.settings import settings_of_draws
from tokur_cli.records.errors import RecordError, UsageError
from tokur_cli.records.record import Record
from tokur_cli.records.writer import Continuation
from tokur_cli.scores.calibration import read_calibration
from tokur_cli.scores.catalogue import BEYOND_TOKENS
from tokur_cli.scores.quantities import OF_DRAWS

if TYPE_CHECKING:
    from tokur_cli.commands.score.pipeline import RecordScorer
    from tokur_cli.commands.session.session import Session


_SWAMPING = 1.5  # times the model's entropy, from which on tu is that of the draws: of a chosen strength at most 1.34
_TELLING_TOKENS = 100  # fewer say little


@dataclass(frozen=True)
class ScoreWork(Work):
    """Responses are scored."""

    command: ClassVar[str] = "score"
    needed: ClassVar[tuple[str, ...]] = ("prompt", "response")

    @classmethod
    def of(
        cls,
        model: ModelOptions,
        prompts: PromptOptions,
        engine: BackendOptions,
        posterior: PosteriorOptions,
        scoring: ScoringOptions,
        baselines: BaselineOptions,
        **_: Any,
    ) -> ScoreWork:
        """Return the work, of the options of ``score``, refusing what can be refused before a model is loaded."""
        kept = posterior.model  # which also says what is wrong with a kept posterior
        scoring = validate_scoring(replace(scoring, engine=engine, posterior=posterior, baselines=baselines))
        return cls(model.or_named(kept), PromptForm(prompts), scoring)

    def pipeline(self, session: Session) -> RecordScorer:  # noqa: D102
        from tokur_cli.commands.score.pipeline import RecordScorer

        return RecordScorer(session, self.scoring, of_records=self.model.of_records)

    def stream(  # noqa: D102
        self, pool: Pool, progress: Progress, invalid: InvalidRecords, session: Session | None = None
    ) -> ScoreStream:
        return ScoreStream(pool, self.scoring, progress, invalid)

    def count_tokens(self, session: Session, record: Record) -> tuple[int, int]:  # noqa: D102
        if self.model.of_records:
            refuse_other_model(record, session.description.name)
        tokens = session.tokenize(record).tokens
        return len(tokens.prompt_ids), len(tokens.response_ids)

    def count_batches(self, lengths: Sequence[int], device: str) -> int:  # noqa: D102
        from tokur_cli.engine.forward.batching import HalvingBatches, pass_positions

        rows = 1 if self.scoring.needs.isdisjoint(OF_DRAWS) else 1 + self.scoring.posterior.members
        batch_tokens = self.scoring.batch_tokens or default_batch_tokens(device)
        batches = HalvingBatches(batch_tokens // rows, pass_positions(device, rows))
        cut = windows(lengths, window_sizes(self.scoring, batch_tokens))
        return sum(1 for window in cut for _ in batches.padded(dict(enumerate(window))))


class ScoreStream(Stream):
    """Takes a stream of records through the scoring of a pool, by ``RecordScorer``."""

    def __init__(self, pool: Pool, options: ScoringOptions, progress: Progress, invalid: InvalidRecords) -> None:
        self._pool, self._options, self._progress, self._invalid = pool, options, progress, invalid
        self.resuming = Continuation(lambda record: settings_for(pool.settings, record), settings_of)

    def lines(self, items: Items, already_written: AlreadyWritten) -> Iterator[bytes]:
        """Yield the scored records that are not written already; stop at the first bad one unless they are skipped."""
        tokens, tu, entropy = 0, 0.0, 0.0
        for outcome in itertools.chain.from_iterable(self._pool.map(self._tasks(items, already_written), _lost)):
            if isinstance(outcome, ScoredLine):
                yield outcome.line
                self._progress.advance(1, outcome.tokens)
                if math.isfinite(outcome.tu + outcome.entropy):
                    tokens, tu, entropy = tokens + outcome.tokens, tu + outcome.tu, entropy + outcome.entropy
            else:
                self._invalid.skip_or_raise(outcome)
                self._progress.advance(1)
        if tokens >= _TELLING_TOKENS and tu > _SWAMPING * entropy:
            say(
                self._progress.command,
                f"the draws swamp the model: its own entropy is {entropy / tokens:.2g} nats a token, tu is "
                f"{tu / tokens:.2g}; give a smaller --sigma (`tokur perturb --sweep` shows what each does)",
            )

    def _tasks(self, items: Items, already_written: AlreadyWritten) -> Iterator[ScoringTask]:
        """Yield windows; a resumed run cuts the same ones as an undisturbed one, so that its numbers are the same."""
        batch_tokens = self._options.batch_tokens or default_batch_tokens(self._pool.device)
        key: Callable[[Record | RecordError], str | None] | None = None
        if over_samples(self._options):
            items, key = standing_together(items), question_key()
        cut: Iterator[list[Record | RecordError]] = windows(items, window_sizes(self._options, batch_tokens), key)
        for window in cut:
            wanted = [isinstance(item, RecordError) or not already_written(item) for item in window]
            self._progress.passed(len(window) - sum(wanted))
            if any(wanted):
                yield ScoringTask(window, wanted, bool(self._invalid.skip))


def _lost(task: ScoringTask) -> Iterator[RecordError]:
    """Yield the errors of records that no worker outlives."""
    for item, wanted in zip(task.window, task.wanted, strict=True):
        if isinstance(item, RecordError):
            yield item
        elif wanted:
            yield item.error(f"{DEATHS} workers died while they scored it: is there too little memory?")


def validate_scoring(scoring: ScoringOptions) -> ScoringOptions:
    """Return the options with what the file of the calibration holds.

    Raises:
        TokurError: the file cannot be read.
        UsageError: it is of scores that are not computed here or made in another way, or the backend does not give what
            is asked for.
    """
    if scoring.calibration is not None:
        posterior, calibration = scoring.posterior, read_calibration(scoring.calibration)
        # What is known of ``tokur.run`` before the model is there
        declared = settings_of_draws(posterior.settings, posterior.members, scoring.sampling, scoring.estimator)
        declared |= {"backend": scoring.engine.backend}
        if posterior.chooses_sigma:  # known, and checked, once the model is there
            del declared["sigma"]
        calibration.check(declared, scoring.calibration)
        scoring = replace(scoring, fitted=calibration)
    chosen = scoring.chosen  # a misspelt name is reported before a model is loaded
    if scoring.engine.backend != "vllm":
        return scoring
    # The samples of a question are compared by their texts and likelihoods, unless the model is asked or looked into
    among_samples = {need for need in BEYOND_TOKENS if need.startswith("set_") and need != "set_states"}
    of_texts = scoring.baselines.over == "samples" and scoring.baselines.entailment != "judge"
    given = {"p_correct", *(among_samples if of_texts else ())}
    beyond = [score.name for score in chosen if not {*BEYOND_TOKENS}.isdisjoint({*score.needs} - given)]
    if beyond:
        raise UsageError(f"--backend vllm gives what is predicted at each token, not {', '.join(beyond)}: leave it out")
    if scoring.sampling == "stepwise" and not scoring.needs.isdisjoint(OF_DRAWS):
        raise UsageError("--backend vllm keeps one draw for a whole response: give --sampling shared (or joint)")
    return scoring
