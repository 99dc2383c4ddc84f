"""``tokur generate``: questions in, N responses each out, as records that ``score`` takes as they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from tokur_cli.commands.options.guided import GuidedOptions
from tokur_cli.commands.options.model import BackendOptions, DecodingOptions, ModelOptions, PromptOptions
from tokur_cli.commands.options.scoring import BaselineOptions, PosteriorOptions, ScoringOptions
from tokur_cli.commands.score.work import validate_scoring
from tokur_cli.commands.session.work import Work, none_written
from tokur_cli.commands.shared.errors import InvalidRecords
from tokur_cli.commands.shared.progress import Progress
from tokur_cli.commands.shared.prompts import PromptForm
from tokur_cli.commands.workers.pool import InProcess, Pool
from tokur_cli.metrics.adaptive_consistency import FEWEST
from tokur_cli.records.errors import UsageError
from tokur_cli.records.record import Record

if TYPE_CHECKING:
    from tokur_cli.commands.generate.answering import Answering
    from tokur_cli.commands.generate.run import GenerateStream
    from tokur_cli.commands.session.session import Session


@dataclass(frozen=True)
class GenerateWork(Work):
    """Questions are answered."""

    decoding: DecodingOptions
    score: bool

    command: ClassVar[str] = "generate"
    needed: ClassVar[tuple[str, ...]] = ("prompt",)
    makes_prompts: ClassVar[bool] = True

    @classmethod
    def of(
        cls,
        model: ModelOptions,
        prompts: PromptOptions,
        engine: BackendOptions,
        decoding: DecodingOptions,
        guided: GuidedOptions,
        posterior: PosteriorOptions,
        scoring: ScoringOptions,
        baselines: BaselineOptions,
        score: bool,
        **_: Any,
    ) -> GenerateWork:
        """Return the work, of the options of ``generate``, refusing what can be refused before a model is loaded."""
        decoding = decoding.together(engine, guided, posterior.seed)
        scoring = replace(scoring, engine=engine, posterior=posterior, baselines=baselines)
        if decoding.temperature == 0 and decoding.samples > 1:
            raise UsageError(f"-n {decoding.samples} needs --temperature above 0: at 0 all samples are the same")
        if decoding.stop_at is not None:
            if not 0.5 < decoding.stop_at < 1:
                raise UsageError(f"--stop-at {decoding.stop_at:g}: give a probability between 0.5 and 1, such as 0.95")
            if decoding.samples <= FEWEST:
                raise UsageError(
                    f"--stop-at needs -n above {FEWEST}, since {FEWEST} are always drawn: for example -n 16"
                )
        if "" in decoding.stop:
            raise UsageError('--stop "" ends every response before it begins: give a text')
        if score or decoding.guidance:
            model = model.or_named(posterior.model)  # which also says what is wrong with a kept posterior
        if score:
            scoring = validate_scoring(scoring)
        return cls(model, PromptForm(prompts), scoring, decoding, score)

    @property
    def outputs(self) -> int | None:
        """Records that a question becomes; None where its vote tells."""
        return self.decoding.samples if self.decoding.stop_at is None else None

    @property
    def resumable(self) -> bool:
        """Whether responses depend on their question alone, not on its other responses that are there already."""
        return not (self.score and self.scoring.baselines.over == "samples")

    @property
    def takes_weights(self) -> bool:
        """Whether the weights are looked at, beside vLLM, which loads them itself."""
        return self.decoding.engine.backend != "vllm" or self.score

    def pipeline(self, session: Session) -> Answering:  # noqa: D102
        from tokur_cli.commands.generate.answering import Answering

        return Answering(session, self.decoding, self.scoring, score=self.score)

    def stream(  # noqa: D102
        self, pool: Pool, progress: Progress, invalid: InvalidRecords, session: Session | None = None
    ) -> GenerateStream:
        from tokur_cli.commands.generate.run import GenerateStream

        if session is None:
            assert isinstance(pool, InProcess)
            session = pool.pipeline.session
        scoring = self.scoring if self.score else None
        return GenerateStream(session, pool, self.decoding, scoring, progress, invalid)

    def count_tokens(self, session: Session, record: Record) -> tuple[int, int]:  # noqa: D102
        from tokur_cli.commands.generate.run import request_of

        _, request = request_of(session, self.decoding, 0, record, none_written)
        return len(request.prompt_ids), 0

    def count_batches(self, lengths: Sequence[int], device: str) -> int:  # noqa: D102
        from tokur_cli.commands.session.session import ROWS

        return -(-len(lengths) * self.decoding.samples // (self.decoding.batch_size or ROWS))
