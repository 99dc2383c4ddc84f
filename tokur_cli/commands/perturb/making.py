"""A posterior made, looked at, tuned and kept: what ``perturb`` does once a model is there."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from tokur_cli.commands.options.scoring import ScoringOptions
from tokur_cli.commands.perturb.strength import Trial, try_strength
from tokur_cli.commands.session.session import Session
from tokur_cli.engine.forward.hooks import Draws
from tokur_cli.engine.posterior.folder import keep_posterior
from tokur_cli.engine.posterior.posterior import Posterior, size_of
from tokur_cli.engine.posterior.settings import PosteriorSettings
from tokur_cli.engine.posterior.strength import SWEEPS, largest_sigma
from tokur_cli.engine.scoring.scorer import Scorer
from tokur_cli.records.encoding import encode_value
from tokur_cli.records.record import Record
from tokur_cli.records.writer import RecordWriter


class PosteriorMaker:
    """A model's posterior, and what is found out about it."""

    def __init__(self, session: Session, options: ScoringOptions, writer: RecordWriter) -> None:
        self.session, self.progress, self.writer = session, session.progress, writer
        self.sampling = options.sampling
        self.draws = session.draws(options.posterior)
        self.calibration: dict[str, Any] | None = None  # what ``posterior.json`` keeps of one

    def look(self) -> None:
        """Write a record for each matrix."""
        for fields in describe_matrices(self.draws.posterior):
            self._write(fields)

    def sweep(self, trial: Trial, strengths: Sequence[float]) -> None:
        """Write a record for each strength."""
        self.progress.start(lambda: len(strengths) * len(trial.responses))
        for sigma in strengths:
            self._try(trial, sigma)

    def calibrate(self, trial: Trial, tolerance: float) -> None:
        """Give the posterior the largest strength within a mean KL, in nats, writing a record of each that is tried."""
        self.progress.start(lambda: SWEEPS * len(trial.responses))
        tried: dict[float, dict[str, Any]] = {}

        def divergence(sigma: float) -> float:
            tried[sigma] = self._try(trial, sigma)
            return float(tried[sigma]["kl"])

        start = self.draws.posterior.sigma or PosteriorSettings.sigma
        sigma = largest_sigma(divergence, tolerance, start=start)
        self.progress.note(f"σ = {sigma:.4g}: the draws are {tried[sigma]['kl']:.4g} nats per token from the model")
        self.calibration = {"tolerance": tolerance, "sweeps": len(tried), **tried[sigma]}
        self.draws = self._draws_of(sigma)

    def keep(self, folder: str, *, force: bool) -> None:
        """Write the posterior's folder."""
        posterior, members, model = self.draws.posterior, self.draws.num_draws, self.session.model
        keep_posterior(
            folder,
            model.model,
            posterior,
            draws=members,
            model_name=model.name,
            revision=model.revision,
            **model.of_base,
            calibration=self.calibration,
            force=force,
        )
        beside = "" if model.base is None else f", each to be loaded beside {model.name}"
        self.progress.note(
            f"{folder}: wrote the posterior (σ = {posterior.sigma:.4g}) and {members} draws as adapters{beside}"
        )

    def _try(self, trial: Trial, sigma: float) -> dict[str, Any]:
        """Write and return the record of a strength, with the same underlying noise as all others."""
        scorer = Scorer(
            self.session.model.model,
            self._draws_of(sigma),
            sampling=self.sampling,
            batch_tokens=self.session.batch_tokens,
            compare=True,
        )
        fields = {
            "sigma": sigma,
            **try_strength(trial, scorer, self.progress),
            "draws": self.draws.num_draws,
            "sampling": self.sampling,
            "seed": self.draws.posterior.seed,
        }
        self._write(fields)
        return fields

    def _draws_of(self, sigma: float) -> Draws:
        return Draws(replace(self.draws.posterior, sigma=sigma), self.draws.num_draws)

    def _write(self, fields: dict[str, Any]) -> None:
        self.writer.write(Record.parse(encode_value(fields), None, None))


def describe_matrices(posterior: Posterior) -> Iterator[dict[str, Any]]:
    """Yield a record for each perturbed matrix: its shape, top singular values, and how large ΔW is beside it."""
    for matrix in posterior.matrices:
        singular_values, norm = size_of(matrix)
        expected = posterior.sigma * _mean_norm(matrix.inputs * posterior.rank)
        yield {
            "matrix": matrix.name,
            "shape": [matrix.basis.shape[0], matrix.inputs],
            "singular_values": singular_values,
            "norm": norm,
            "perturbation_norm": expected,
            "relative_size": expected / norm if norm else math.inf,
        }


def _mean_norm(entries: int) -> float:
    """Return the mean Euclidean norm of as many N(0, 1) numbers: √2 Γ((n + 1)/2) / Γ(n/2)."""
    return math.sqrt(2) * math.exp(math.lgamma((entries + 1) / 2) - math.lgamma(entries / 2))
