"""A posterior made, looked at, tuned and kept: what ``perturb`` does once a model is there."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from tokur_cli.commands.options.labels import LabelOptions
from tokur_cli.commands.options.perturb import KeepOptions, StrengthOptions
from tokur_cli.commands.options.scoring import PosteriorOptions
from tokur_cli.commands.perturb.strength import (
    CALIBRATION_RESPONSES,
    StrengthTester,
    read_trial,
    try_strengths,
    write_fields,
)
from tokur_cli.commands.session.session import Session
from tokur_cli.commands.shared.errors import InvalidRecords
from tokur_cli.commands.workers.pool import InProcess
from tokur_cli.engine.posterior.calibration import SWEEPS, largest_sigma
from tokur_cli.engine.posterior.folder import keep_posterior
from tokur_cli.engine.posterior.posterior import Posterior, size_of
from tokur_cli.engine.posterior.settings import PosteriorSettings
from tokur_cli.engine.uncertainty.perturbed import Draws
from tokur_cli.engine.uncertainty.scorer import SamplingMode
from tokur_cli.records.errors import RecordError
from tokur_cli.records.record import Record
from tokur_cli.records.writer import RecordWriter


class PosteriorMaker:
    """A model's posterior, and what is found out about it."""

    def __init__(self, session: Session, options: PosteriorOptions, writer: RecordWriter) -> None:
        self.session, self.progress, self.writer = session, session.progress, writer
        self.draws = session.draws(options)
        self.calibration: dict[str, Any] | None = None  # what ``posterior.json`` keeps of one

    def look(self) -> None:
        """Write a record for each matrix."""
        for fields in describe_matrices(self.draws.posterior):
            write_fields(self.writer, fields)

    def calibrate(
        self,
        items: Iterable[Record | RecordError],
        options: StrengthOptions,
        sampling: SamplingMode,
        labels: LabelOptions,
        invalid: InvalidRecords,
    ) -> None:
        """Give the posterior the largest strength within the tolerance, writing a record of each that is tried."""
        trial = read_trial(items, self.session, options.limit or CALIBRATION_RESPONSES, labels, invalid)
        pool = InProcess(StrengthTester(self.session, self.draws, sampling))
        tried: dict[float, dict[str, Any]] = {}
        self.progress.start(lambda: SWEEPS * len(trial.responses))

        def divergence(sigma: float) -> float:
            (tried[sigma],) = try_strengths(trial, [sigma], pool, self.progress)
            write_fields(self.writer, tried[sigma])
            return float(tried[sigma]["kl"])

        sigma = largest_sigma(
            divergence, options.tolerance, start=self.draws.posterior.sigma or PosteriorSettings.sigma
        )
        self.progress.note(f"σ = {sigma:.4g}: the draws are {tried[sigma]['kl']:.4g} nats per token from the model")
        self.calibration = {"tolerance": options.tolerance, "sweeps": len(tried), **tried[sigma]}
        self.draws = Draws(replace(self.draws.posterior, sigma=sigma), self.draws.members)

    def keep(self, options: KeepOptions) -> None:
        """Write the posterior's folder."""
        assert options.folder is not None
        posterior, members = self.draws.posterior, self.draws.members
        keep_posterior(
            options.folder,
            self.session.model.model,
            posterior,
            draws=members,
            model_name=self.session.model.name,
            revision=self.session.model.revision,
            **self.session.model.of_base,
            calibration=self.calibration,
            force=options.force,
        )
        beside = "" if self.session.model.base is None else f", each to be loaded beside {self.session.model.name}"
        self.progress.note(
            f"{options.folder}: wrote the posterior (σ = {posterior.sigma:.4g}) and {members} draws as adapters{beside}"
        )


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
