"""A posterior made, looked at, tuned and kept: what ``perturb`` does once a model is there."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tokur_cli.commands.options.labels import LabelOptions
from tokur_cli.commands.options.scoring import ScoringOptions
from tokur_cli.commands.session.session import Session
from tokur_cli.commands.shared.errors import InvalidRecords
from tokur_cli.commands.shared.labelled import Labeller
from tokur_cli.engine.forward.hooks import Draws
from tokur_cli.engine.posterior.folder import keep_posterior
from tokur_cli.engine.posterior.posterior import size_of
from tokur_cli.engine.posterior.settings import PAPER
from tokur_cli.engine.posterior.strength import SWEEPS, largest_sigma
from tokur_cli.engine.scoring.quantities import COMPARISONS
from tokur_cli.engine.scoring.scorer import Quantities, Scorer, TokenizedResponse
from tokur_cli.metrics.ranking import auroc
from tokur_cli.records.encoding import encode_value
from tokur_cli.records.errors import RecordError, TokurError
from tokur_cli.records.record import Record
from tokur_cli.records.writer import RecordWriter
from tokur_cli.scores.quantities import OF_DRAWS


class PosteriorMaker:
    """A model's posterior, and what is found out about it."""

    def __init__(self, session: Session, options: ScoringOptions, writer: RecordWriter) -> None:
        self.session, self.progress, self.writer = session, session.progress, writer
        self.sampling = options.sampling
        self.draws = session.draws(options.posterior)
        self.calibration: dict[str, Any] | None = None  # what ``posterior.json`` keeps of one
        self.responses: list[TokenizedResponse] = []  # that strengths are tried on
        self.labels: list[float] = []  # 1 for correct, 0 for incorrect, NaN where it is not known; one per response

    def read(
        self, items: Iterable[Record | RecordError], limit: int | None, labels: LabelOptions, invalid: InvalidRecords
    ) -> None:
        """Tokenize and label the first ``limit`` good records (all for None), to try strengths on."""
        with Labeller(labels, invalid, answers=False, is_strict=False) as labelling:
            for labelled in invalid.good(labelling.read(items)):
                try:
                    located = self.session.tokenize(labelled.record)
                except RecordError as error:
                    invalid.skip_or_raise(error)
                    continue
                self.responses.append(located.tokens)
                self.labels.append(labelled.label)
                if len(self.responses) == limit:
                    break
        if not self.responses:
            raise TokurError("the input has no response to try strengths on")

    def look(self) -> None:
        """Write a record for each perturbed matrix: its shape, top singular values, and how large ΔW is beside it."""
        posterior = self.draws.posterior
        for matrix in posterior.matrices:
            singular_values, norm = size_of(matrix)
            entries = matrix.size[1] * posterior.rank
            # The mean Euclidean norm of as many N(0, 1) numbers: √2 Γ((n + 1)/2) / Γ(n/2)
            of_noise = math.sqrt(2) * math.exp(math.lgamma((entries + 1) / 2) - math.lgamma(entries / 2))
            expected = posterior.sigma * of_noise
            fields = {
                "matrix": matrix.name,
                "shape": [*matrix.size],
                "singular_values": singular_values,
                "norm": norm,
                "perturbation_norm": expected,
                "relative_size": expected / norm if norm else math.inf,
            }
            self.writer.write(encode_value(fields))

    def sweep(self, strengths: Sequence[float]) -> None:
        """Write a record for each strength."""
        self.progress.start(lambda: len(strengths) * len(self.responses))
        for sigma in strengths:
            self._try(sigma)

    def calibrate(self, tolerance: float) -> None:
        """Give the posterior the largest strength within a mean KL, in nats, writing a record of each that is tried."""
        self.progress.start(lambda: SWEEPS * len(self.responses))
        tried: dict[float, dict[str, Any]] = {}

        def divergence(sigma: float) -> float:
            tried[sigma] = self._try(sigma)
            return float(tried[sigma]["kl"])

        sigma = largest_sigma(divergence, tolerance, start=self.draws.posterior.sigma or PAPER.sigma)
        self.progress.note(f"σ = {sigma:.4g}: the draws are {tried[sigma]['kl']:.4g} nats per token from the model")
        self.calibration = {"tolerance": tolerance, "sweeps": len(tried), **tried[sigma]}
        self.draws = self._draws_of(sigma)

    def keep(self, folder: str) -> None:
        """Write the posterior's folder."""
        posterior, num_draws, model = self.draws.posterior, self.draws.num_draws, self.session.model
        keep_posterior(folder, model, posterior, num_draws, self.calibration)
        beside = "" if model.adapter is None else f", each to be loaded beside {model.name}"
        self.progress.note(
            f"{folder}: wrote the posterior (σ = {posterior.sigma:.4g}) and {num_draws} draws as adapters{beside}"
        )

    def _try(self, sigma: float) -> dict[str, Any]:
        """Write and return the record of a strength, with the same underlying noise as all others.

        It has means over tokens, in nats and fractions, and the AUROC of sums over responses.
        """
        scorer = Scorer(
            self.session.model.model,
            self._draws_of(sigma),
            sampling=self.sampling,
            batch_tokens=self.session.batch_tokens,
            compare=True,
        )
        results: list[Quantities] = [{}] * len(self.responses)
        for index, result in scorer.score(self.responses):
            if isinstance(result, TokurError):
                raise result
            results[index] = result
            self.progress.advance(1, len(result["logprob"]))
        names = [name for name in results[0] if name in OF_DRAWS or name in COMPARISONS]
        tokens = {name: np.concatenate([result[name] for result in results]).astype(np.float64) for name in names}
        fields = {
            "sigma": sigma,
            **{name: float(values.mean()) for name, values in tokens.items()},
            "auroc": _auroc(results, self.labels),
            "responses": len(results),
            "tokens": len(tokens["kl"]),
            "draws": self.draws.num_draws,
            "sampling": self.sampling,
            "seed": self.draws.posterior.seed,
        }
        self.writer.write(encode_value(fields))
        return fields

    def _draws_of(self, sigma: float) -> Draws:
        return Draws(replace(self.draws.posterior, sigma=sigma), self.draws.num_draws)


def _auroc(results: list[Quantities], labels: list[float]) -> dict[str, float | None] | None:
    correct = np.asarray(labels)
    known = (correct == 0) | (correct == 1)
    if len(np.unique(correct[known])) < 2:
        return None
    found: dict[str, float | None] = {}
    for name in (each for each in results[0] if each in OF_DRAWS):
        sums = np.array([result[name].sum(dtype=np.float64) for result in results])[known]
        found[name] = auroc(-sums, correct[known]) if np.isfinite(sums).all() else None
    return found
