"""``tokur score``: responses in, token-level and response-level uncertainty out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar, cast

from tokur_cli.commands.baselines.features import over_samples
from tokur_cli.commands.baselines.samples import standing_together
from tokur_cli.commands.options.model import ModelOptions, PromptOptions
from tokur_cli.commands.options.scoring import ScoringOptions
from tokur_cli.commands.score.checked import checked, needs_of
from tokur_cli.commands.score.windows import score_records
from tokur_cli.commands.session.job import AlreadyWritten, Planned, Run, StreamJob
from tokur_cli.commands.shared.progress import Progress
from tokur_cli.commands.shared.prompts import PromptForm
from tokur_cli.commands.workers.pool import InProcess, Pool
from tokur_cli.records.errors import RecordError
from tokur_cli.records.record import Record
from tokur_cli.records.writer import Continuation

if TYPE_CHECKING:
    from tokur_cli.commands.score.pipeline import RecordScorer
    from tokur_cli.commands.session.session import Session
    from tokur_cli.engine.loading.models import ModelDescription


@dataclass(frozen=True)
class ScoreJob(StreamJob):
    """Responses are scored."""

    command: ClassVar[str] = "score"
    needed: ClassVar[tuple[str, ...]] = ("prompt", "response")
    makes_prompts: ClassVar[bool] = False

    @classmethod
    def of(cls, model: ModelOptions, prompts: PromptOptions, scoring: ScoringOptions) -> ScoreJob:
        """Return the job, refusing what can be refused before a model is loaded."""
        kept = scoring.posterior.model  # which also says what is wrong with a kept posterior
        return cls(model.or_named(kept), PromptForm(prompts), checked(scoring))

    def pipeline(self, session: Session) -> RecordScorer:  # noqa: D102
        return session.scorer(self.scoring)

    @property
    def identity(self) -> Callable[[Record], object]:
        """What is not computed."""
        return Record.identity

    def plan(  # noqa: D102
        self, session: Session, items: Iterable[Record | RecordError], already_written: AlreadyWritten
    ) -> Iterator[Planned | RecordError]:
        if over_samples(needs_of(self.scoring), self.scoring.baselines):
            items = cast("Iterator[Record | RecordError]", standing_together(items))
        for item in items:
            try:
                if isinstance(item, RecordError):
                    raise item
                written = int(already_written(item) is not None)
                tokens = session.tokenize(item).tokens
            except RecordError as error:
                yield error
            else:
                yield Planned(tokens.prompt_ids, tokens.response_ids, written, 1 - written)

    def run(  # noqa: D102
        self, pool: InProcess | Pool, progress: Progress, description: ModelDescription | None = None
    ) -> Run:
        from tokur_cli.commands.score.pipeline import settings_for, settings_of

        lines = partial(score_records, pool=pool, options=self.scoring, progress=progress)
        return Run(lines, Continuation(partial(settings_for, pool.settings), settings_of))
