"""What perturbations of different strengths do: a posterior of many strengths tried on the same responses."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tokur_cli.answers.grading import Grader
from tokur_cli.commands.options.scoring import SamplingOptions
from tokur_cli.commands.score.pipeline import default_batch_tokens, tokenize_record
from tokur_cli.commands.shared.errors import InvalidRecords
from tokur_cli.commands.shared.labels import Labeller
from tokur_cli.commands.shared.posterior import with_sigma
from tokur_cli.commands.shared.progress import Progress
from tokur_cli.commands.shared.prompts import PromptForm
from tokur_cli.engine.loading.models import LanguageModel
from tokur_cli.engine.posterior.posterior import Posterior
from tokur_cli.engine.tokens import ResponseTokenizer
from tokur_cli.engine.uncertainty.perturbed import Draws
from tokur_cli.engine.uncertainty.scorer import Quantities, Scorer, TokenizedResponse
from tokur_cli.engine.uncertainty.vocabulary import COMPARISONS, DRAW_QUANTITIES
from tokur_cli.metrics.ranking import auroc
from tokur_cli.records.errors import RecordError, TokurError
from tokur_cli.records.record import Record

CALIBRATION_RESPONSES = 64
"""Responses that a strength is calibrated on unless the user says otherwise."""


@dataclass(frozen=True)
class Trial:
    """Responses that strengths are tried on.

    Args:
        responses: the tokenized responses.
        labels: 1 for right, 0 for wrong, NaN where it is not known; one per response.
    """

    responses: list[TokenizedResponse]
    labels: list[float]


def read_trial(
    items: Iterable[Record | RecordError],
    form: PromptForm,
    language_model: LanguageModel,
    limit: int | None,
    invalid: InvalidRecords,
) -> Trial:
    """Tokenize and label the first ``limit`` good records (all for None).

    Raises:
        TokurError: the first bad record, unless bad ones are skipped; or there is none at all.
    """
    tokenizer = ResponseTokenizer(language_model.tokenizer, language_model.context_length, language_model.end_ids)
    trial = Trial([], [])
    with Grader() as grader:
        labeller = Labeller(grader, field=None, run_code=None, answers=False, on_error=invalid.skip_or_raise)
        for labelled in itertools.islice(labeller.label(items), limit):
            try:
                located = tokenize_record(labelled.record, form, tokenizer, language_model.name)
            except RecordError as error:
                invalid.skip_or_raise(error)
                continue
            trial.responses.append(located.tokens)
            trial.labels.append(labelled.label)
    if not trial.responses:
        raise TokurError("the input has no response to try strengths on")
    return trial


class Strengths:
    """Tries strengths of one posterior, with the same underlying noise, on the same responses.

    Args:
        trial: the responses.
        posterior: of any strength.
        draws: M.
        language_model: the model.
        options: how draws and steps go together, and the batch.
        progress: told of work done.
    """

    def __init__(
        self,
        trial: Trial,
        posterior: Posterior,
        draws: int,
        language_model: LanguageModel,
        options: SamplingOptions,
        progress: Progress,
    ) -> None:
        self.trial, self.posterior, self.draws = trial, posterior, draws
        self.model = language_model.model
        self.options, self.progress = options, progress
        self.batch_tokens = options.batch_tokens or default_batch_tokens(language_model)

    def measure(self, sigma: float) -> dict[str, Any]:
        """Return the record of one strength: means over tokens in nats, shares, and AUROC of sums over responses.

        Raises:
            TokurError: memory does not suffice for a response.
        """
        scorer = Scorer(
            self.model,
            Draws(with_sigma(self.posterior, sigma), self.draws),
            sampling=self.options.sampling,
            batch_tokens=self.batch_tokens,
            compare=True,
        )
        results: list[Quantities] = [{}] * len(self.trial.responses)
        for index, result in scorer.score(self.trial.responses):
            if isinstance(result, TokurError):
                raise result
            results[index] = result
            self.progress.advance(1, len(result["logprob"]))
        tokens = {
            name: np.concatenate([result[name] for result in results]).astype(np.float64)
            for name in (*DRAW_QUANTITIES, *COMPARISONS)
        }
        return {
            "sigma": sigma,
            **{name: float(values.mean()) for name, values in tokens.items()},
            "auroc": self._auroc(results),
            "responses": len(results),
            "tokens": len(tokens["kl"]),
            "draws": self.draws,
            "sampling": self.options.sampling,
            "seed": self.posterior.seed,
        }

    def _auroc(self, results: list[Quantities]) -> dict[str, float] | None:
        labels = np.asarray(self.trial.labels)
        known = (labels == 0) | (labels == 1)
        if len(np.unique(labels[known])) < 2:
            return None
        sums = {
            name: np.array([result[name].sum(dtype=np.float64) for result in results])[known]
            for name in DRAW_QUANTITIES
        }
        return {name: auroc(-values, labels[known]) for name, values in sums.items()}
