"""``tokur score``: responses in, token-level and response-level uncertainty out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from tokur_cli.commands.baselines.features import largest_window, over_samples
from tokur_cli.commands.options.model import ModelOptions, PromptOptions
from tokur_cli.commands.options.scoring import ScoringOptions
from tokur_cli.commands.session.work import Work
from tokur_cli.commands.shared.errors import InvalidRecords
from tokur_cli.commands.shared.progress import Progress
from tokur_cli.commands.shared.prompts import PromptForm, refuse_other_model
from tokur_cli.commands.shared.windows import window_sizes, windows
from tokur_cli.commands.workers.pool import InProcess, Pool
from tokur_cli.engine.posterior.settings import settings_of_draws
from tokur_cli.records.errors import UsageError
from tokur_cli.records.record import Record
from tokur_cli.scores.calibration import read_calibration
from tokur_cli.scores.catalogue import BEYOND_TOKENS
from tokur_cli.scores.quantities import OF_DRAWS

if TYPE_CHECKING:
    from tokur_cli.commands.score.pipeline import RecordScorer
    from tokur_cli.commands.score.stream import ScoreStream
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
        return cls(model.or_named(kept), PromptForm(prompts), validate_scoring(scoring))

    def pipeline(self, session: Session) -> RecordScorer:  # noqa: D102
        from tokur_cli.commands.score.pipeline import RecordScorer

        return RecordScorer(session, self.scoring, of_records=self.model.of_records)

    def stream(  # noqa: D102
        self, pool: InProcess | Pool, progress: Progress, invalid: InvalidRecords, session: Session | None = None
    ) -> ScoreStream:
        from tokur_cli.commands.score.stream import ScoreStream

        return ScoreStream(pool, self.scoring, progress, invalid)

    def count_tokens(self, session: Session, record: Record) -> tuple[int, int]:  # noqa: D102
        if self.model.of_records:
            refuse_other_model(record, session.description.name)
        tokens = session.tokenize(record).tokens
        return len(tokens.prompt_ids), len(tokens.response_ids)

    def count_batches(self, lengths: Sequence[int], batch_tokens: int) -> int:  # noqa: D102
        from tokur_cli.engine.forward.batching import HalvingBatches

        needs = self.scoring.needs
        rows = 1 if needs.isdisjoint(OF_DRAWS) else 1 + self.scoring.posterior.members
        sizes = window_sizes(largest_window(needs, self.scoring.baselines, batch_tokens))
        batches = HalvingBatches(batch_tokens // rows)
        return sum(1 for window in windows(lengths, sizes) for _ in batches.padded(dict(enumerate(window))))


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
    _ = scoring.chosen  # a misspelt name is reported before a model is loaded
    check_backend(scoring)
    return scoring


def check_backend(scoring: ScoringOptions) -> None:
    """Refuse scores and a sampling of draws that vLLM does not give.

    Raises:
        UsageError: a score takes more than the last hidden states of the response, or draws are asked for that change
            from token to token.
    """
    if scoring.engine.backend != "vllm":
        return
    # The samples of a question are compared by their texts and likelihoods, unless the model is asked or looked into
    among_samples = {need for need in BEYOND_TOKENS if need.startswith("set_") and need != "set_states"}
    of_texts = over_samples(among_samples, scoring.baselines) and scoring.baselines.entailment != "judge"
    given = {"p_correct", *(among_samples if of_texts else ())}
    beyond = [score.name for score in scoring.chosen if not {*BEYOND_TOKENS}.isdisjoint({*score.needs} - given)]
    if beyond:
        raise UsageError(f"--backend vllm gives what is predicted at each token, not {', '.join(beyond)}: leave it out")
    if scoring.sampling == "stepwise" and not scoring.needs.isdisjoint(OF_DRAWS):
        raise UsageError("--backend vllm keeps one draw for a whole response: give --sampling shared (or joint)")
