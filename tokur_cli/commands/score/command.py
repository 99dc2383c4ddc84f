"""``tokur score``: responses in, token-level and response-level uncertainty out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tokur_cli.commands.options.model import ModelOptions, PromptOptions
from tokur_cli.commands.options.scoring import ScoringOptions
from tokur_cli.commands.score.checked import checked
from tokur_cli.commands.score.windows import ScoreStream
from tokur_cli.commands.session.work import Work
from tokur_cli.commands.shared.errors import InvalidRecords
from tokur_cli.commands.shared.progress import Progress
from tokur_cli.commands.shared.prompts import PromptForm
from tokur_cli.commands.workers.pool import InProcess, Pool
from tokur_cli.records.record import Record

if TYPE_CHECKING:
    from tokur_cli.commands.score.pipeline import RecordScorer
    from tokur_cli.commands.session.session import Session


@dataclass(frozen=True)
class ScoreWork(Work):
    """Responses are scored."""

    command: ClassVar[str] = "score"
    needed: ClassVar[tuple[str, ...]] = ("prompt", "response")

    @classmethod
    def of(cls, model: ModelOptions, prompts: PromptOptions, scoring: ScoringOptions) -> ScoreWork:
        """Return the work, refusing what can be refused before a model is loaded."""
        kept = scoring.posterior.model  # which also says what is wrong with a kept posterior
        return cls(model.or_named(kept), PromptForm(prompts), checked(scoring))

    def pipeline(self, session: Session) -> RecordScorer:  # noqa: D102
        from tokur_cli.commands.score.pipeline import RecordScorer

        return RecordScorer(session, self.scoring, of_records=self.model.of_records)

    def stream(  # noqa: D102
        self, pool: InProcess | Pool, progress: Progress, invalid: InvalidRecords, session: Session | None = None
    ) -> ScoreStream:
        return ScoreStream(pool, self.scoring, progress, invalid)

    def count_tokens(self, session: Session, record: Record) -> tuple[int, int]:  # noqa: D102
        tokens = session.tokenize(record).tokens
        return len(tokens.prompt_ids), len(tokens.response_ids)
