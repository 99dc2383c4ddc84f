"""``tokur generate``: questions in, N responses each out, as records that ``score`` takes as they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from tokur_cli.commands.options.model import DecodingOptions, ModelOptions, PromptOptions
from tokur_cli.commands.options.scoring import ScoringOptions
from tokur_cli.commands.score.checked import checked
from tokur_cli.commands.score.windows import score_records
from tokur_cli.commands.session.job import AlreadyWritten, Planned, Run, StreamJob, none_written, session_of
from tokur_cli.commands.shared.arrivals import Pause
from tokur_cli.commands.shared.errors import InvalidRecords
from tokur_cli.commands.shared.progress import Progress
from tokur_cli.commands.shared.prompts import PromptForm
from tokur_cli.commands.workers.pool import InProcess, Pool
from tokur_cli.metrics.adaptive_consistency import FEWEST
from tokur_cli.records.errors import RecordError, UsageError
from tokur_cli.records.record import Record
from tokur_cli.records.writer import Continuation

if TYPE_CHECKING:
    from tokur_cli.commands.generate.responder import Responder
    from tokur_cli.commands.session.session import Session
    from tokur_cli.engine.loading.models import ModelDescription


@dataclass(frozen=True)
class GenerateJob(StreamJob):
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
        decoding: DecodingOptions,
        scoring: ScoringOptions,
        *,
        score: bool,
    ) -> GenerateJob:
        """Return the job, refusing what can be refused before a model is loaded."""
        if decoding.temperature == 0 and decoding.samples > 1:
            raise UsageError(f"-n {decoding.samples} needs --temperature above 0: at 0 all samples are the same")
        if decoding.stop_at is not None:
            if not 0.5 < decoding.stop_at < 1:
                raise UsageError(f"--stop-at {decoding.stop_at:g}: give a probability between 0.5 and 1, such as 0.95")
            if decoding.samples <= FEWEST:
                raise UsageError(f"--stop-at needs -n above {FEWEST}, for so many are always drawn: give -n 16, say")
        if "" in decoding.stop:
            raise UsageError('--stop "" ends every response before it begins: give a text')
        if score or decoding.guidance:
            kept = scoring.posterior.model  # which also says what is wrong with a kept posterior
            model = model.or_named(kept)
        if score:
            scoring = checked(scoring)
        return cls(model, PromptForm(prompts), scoring, decoding, score)

    @property
    def outputs(self) -> int | None:
        """Records that a question becomes; None where its vote tells."""
        return self.decoding.samples if self.decoding.stop_at is None else None

    @property
    def identity(self) -> Callable[[Record], object]:
        """What a response has of its question, and its number."""
        return lambda record: (record.identity("response"), record.sample)

    @property
    def resumable(self) -> bool:
        """Whether responses depend on their question alone, not on its other responses that are there already."""
        return not (self.score and self.scoring.baselines.over == "samples")

    @property
    def takes_weights(self) -> bool:
        """Whether the weights are looked at, beside vLLM, which loads them itself."""
        return self.decoding.engine.backend != "vllm" or self.score

    def pipeline(self, session: Session) -> Responder:  # noqa: D102
        return session.responder(self.decoding, self.scoring, score=self.score)

    def plan(  # noqa: D102
        self, session: Session, items: Iterable[Record | RecordError], already_written: AlreadyWritten
    ) -> Iterator[Planned | RecordError]:
        from tokur_cli.commands.generate.run import Asking

        asking = Asking(session, self.decoding)
        for index, item in enumerate(items):
            asked = asking.request(index, item, already_written)
            if isinstance(asked, RecordError):
                yield asked
            else:
                _, request = asked
                missing = len(request.samples)
                yield Planned(request.prompt_ids, (), self.decoding.samples - missing, missing)

    def run(  # noqa: D102
        self, pool: InProcess | Pool, progress: Progress, description: ModelDescription | None = None
    ) -> Run:
        from tokur_cli.commands.generate.run import Generation, settings_of

        session = self.session(description, progress) if description else session_of(pool)
        generation = Generation(session, pool, self.decoding, score=self.score)

        def lines(
            items: Iterable[Record | RecordError | Pause], invalid: InvalidRecords, already_written: AlreadyWritten
        ) -> Iterator[bytes]:
            responses: Iterator[Any] = generation.responses(items, invalid.skip, already_written)
            if self.score:
                return score_records(
                    responses, invalid, none_written, pool=pool, options=self.scoring, progress=progress
                )
            return _encoded(responses, invalid, progress)

        resuming = Continuation(
            lambda _: {**generation.settings, **pool.settings},
            settings_of,
            identity=self.identity,
        )

        def finish() -> None:
            generation.course.tell(self.command)
            generation.savings.tell(self.command)

        return Run(lines, resuming, generation.busy, finish)


def _encoded(
    responses: Iterable[Record | RecordError | Pause], invalid: InvalidRecords, progress: Progress
) -> Iterator[bytes]:
    for item in invalid.good(responses):
        if isinstance(item, Record):
            yield item.encode()
            progress.advance(1, len(item.token_ids or ()))
