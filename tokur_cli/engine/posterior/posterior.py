"""The low-rank Gaussian posterior over a model's query and key weights (paper, section "Low-Rank Weight Perturbation").

A weight W_0 = U diag(d) Vᵀ (out × in) becomes W = W_0 + U′εᵀ, where U′ holds the first r′ columns of U and ε is
in × r′ with i.i.d. N(0, σ²) entries. A draw is thus a LoRA adapter with B = U′, A = εᵀ and scaling 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor
from transformers import PreTrainedModel

from tokur_cli.engine.noise import standard_normal
from tokur_cli.engine.posterior.basis import left_singular_vectors, read_basis, weight_digest, write_basis
from tokur_cli.engine.posterior.projections import Projection, find_projections
from tokur_cli.engine.posterior.settings import PAPER, PosteriorSettings
from tokur_cli.records.errors import TokurError
from tokur_cli.records.outputs import replacing


@dataclass(frozen=True)
class PerturbedMatrix(Projection):
    """A projection whose weight has a posterior."""

    basis: Tensor  # U′, float32, (out, r′)


@dataclass(frozen=True)
class Posterior(PosteriorSettings):
    """q(θ | σ): independent low-rank Gaussians around the weights of the chosen projections.

    Noise depends on (seed, draw, matrix name, place) alone: the first draws of a larger set are those of a
    smaller one, and leaving a projection out changes no other.
    """

    matrices: tuple[PerturbedMatrix, ...] = field(kw_only=True)  # the perturbed weights
    # Of a strength that was chosen in place of the paper's, the numbers that it was chosen by
    why: dict[str, float | None] | None = field(default=None, kw_only=True)

    def weight_noise(self, matrix: PerturbedMatrix, draw: int) -> Tensor:
        """Return ε of a draw (0 is the first): float32, (in, r′), entries N(0, σ²)."""
        key = (self.seed, "weight", draw, matrix.name)
        return self.sigma * torch.from_numpy(standard_normal(key, matrix.size[1], self.rank))

    def step_noise(self, matrix: PerturbedMatrix, draw: int, steps: int) -> Tensor:
        """Return ξ of the first steps: float32, (steps, r′), entries N(0, 1).

        A fresh ε for the one input x of a decoding step acts only through εᵀx, which has the law of σ‖x‖ξ.
        """
        key = (self.seed, "step", draw, matrix.name)
        return torch.from_numpy(standard_normal(key, steps, self.rank))


def build_posterior(
    model: PreTrainedModel,
    settings: PosteriorSettings = PAPER,
    *,
    cache: Path | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Posterior:
    """Build the posterior of a model, with the basis from ``cache`` where these weights have been there before.

    Args:
        model: the model with its mean weights W_0.
        settings: what it is made of; r′ is at most the smaller side of each weight.
        cache: folder of saved bases, of which a damaged one is computed again; None saves nothing.
        progress: called when the decomposition has to be computed.

    Raises:
        TokurError: no such projections, or a rank that a weight cannot have.
    """
    rank = settings.rank
    projections = find_projections(model, settings.targets, settings.layers)
    for projection in projections:
        outputs, inputs = projection.size
        if not 1 <= rank <= min(outputs, inputs):
            raise TokurError(f"rank {rank} is not possible: {projection.name} is {outputs} × {inputs}")
    bases = None
    saved = cache and cache / f"{weight_digest(model, projections, rounded=False)}-rank{rank}.safetensors"
    if saved is not None:
        with suppress(TokurError):  # there is none yet, or a damaged one
            bases = read_basis(saved)
    if bases is None:
        progress(f"computing the basis of {len(projections)} weights (once for this model)")
        bases = {each.name: left_singular_vectors(each.weight(), rank) for each in projections}
        if saved is not None:
            # A cache that cannot be written costs time at the next start
            with suppress(OSError), replacing(saved) as unfinished:
                write_basis(unfinished, bases)
    return with_bases(settings, projections, bases)


def with_bases(
    settings: PosteriorSettings, projections: Sequence[Projection], bases: Mapping[str, Tensor]
) -> Posterior:
    """Return the posterior of projections whose bases are known by their names."""
    matrices = tuple(PerturbedMatrix(**vars(each), basis=bases[each.name]) for each in projections)
    return Posterior(**settings.settings, matrices=matrices)


def size_of(matrix: PerturbedMatrix) -> tuple[list[float], float]:
    """Return the top r′ singular values of W_0, and ‖W_0‖_F."""
    weight = matrix.weight().float()
    along_basis = matrix.basis.to(weight).T @ weight  # (r′, in): uᵢᵀW = dᵢvᵢᵀ
    return along_basis.norm(dim=1).tolist(), float(weight.norm())
