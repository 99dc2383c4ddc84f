"""A forward pass under the mean weights and all draws at once, without a copy of any weight.

The rows of a batch are member-major: B rows under W_0, then B rows for each of the M draws. Every perturbed projection
adds to its output, for the draws' rows only,

    (εᵀx) U′ᵀ        for an input under a draw that is fixed for the response,
    σ‖x‖ ξ_t U′ᵀ     for the input of a decoding step t with a draw of its own (local reparameterisation).

Step t's query meets the keys that earlier tokens got from the draws of their own steps and the prompt from one fixed
draw, as in a decoder with a cache: this is how Assumption 3.1 of the paper was read, and an independent literal
simulation agrees with the code.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

from tokur_cli.engine.posterior.posterior import PerturbedMatrix, Posterior
from tokur_cli.records.errors import TokurError

_FIRST_STEPS = 256  # initial size of the step tables; they double when a longer response comes


class Steps(NamedTuple):
    """The decoding steps of a batch's positions, looked up once for all projections."""

    places: Tensor  # (B, L) the steps, 0 where there is none
    fixed: Tensor  # (B, L, 1) whether a position has none, as those of a prompt: there the member's fixed draw holds
    num_steps: int  # more than the largest
    some_fixed: bool  # whether any position has none

    @classmethod
    def of(cls, steps: Tensor) -> Steps:
        """Return what (B, L) steps are, −1 where there is none."""
        low, high = torch.stack(steps.aminmax()).tolist()
        return cls(steps.clamp(min=0), (steps < 0)[..., None], high + 1, low < 0)


class Draws:
    """M draws of a posterior, ready on the devices of the model's weights.

    Args:
        posterior: what is drawn from.
        num_draws: M.
    """

    def __init__(self, posterior: Posterior, num_draws: int) -> None:
        self.posterior = posterior
        self.num_draws = num_draws
        self._kept: dict[tuple[str, torch.device, torch.dtype], tuple[Tensor, Tensor, Tensor | slice]] = {}
        self._steps: dict[tuple[str, torch.device], Tensor] = {}

    def coefficients(self, matrix: PerturbedMatrix, inputs: Tensor, steps: Steps | None) -> Tensor:
        """Return what the draws' ΔWx are in terms of U′: ΔWx = U′ times this.

        Args:
            matrix: the projection.
            inputs: x, (M, B, L, in).
            steps: of each position; None where the member's fixed draw holds everywhere.

        Returns:
            (M, B, L, r′) in the inputs' dtype.
        """
        _, noise, _ = self.tensors_of(matrix, inputs)
        if steps is not None:
            table = self._step_noise(matrix, inputs.device, steps.num_steps)
            norm = torch.linalg.vector_norm(inputs, dim=-1, keepdim=True, dtype=torch.float32)  # (M, B, L, 1)
            fresh: Tensor = (norm * table[:, steps.places.to(inputs.device)]).to(inputs.dtype)  # (M, B, L, r')
            if not steps.some_fixed:
                return fresh
        projected = torch.einsum("mbli,mir->mblr", inputs, noise)
        return projected if steps is None else torch.where(steps.fixed.to(inputs.device), projected, fresh)

    def tensors_of(self, matrix: PerturbedMatrix, like: Tensor) -> tuple[Tensor, Tensor, Tensor | slice]:
        """Return what a projection is perturbed by, where and as ``like`` is.

        Returns:
            U′, (out, r′); ε of all draws, (M, in, r′); which of its module's output features are the projection's.
        """
        key = matrix.name, like.device, like.dtype
        if key not in self._kept:
            noise = torch.stack([self.posterior.weight_noise(matrix, m) for m in range(self.num_draws)])
            rows = slice(None) if matrix.rows is None else matrix.rows.to(like.device)
            self._kept[key] = matrix.basis.to(like), noise.to(like), rows
        return self._kept[key]

    def _step_noise(self, matrix: PerturbedMatrix, device: torch.device, steps: int) -> Tensor:
        """Return σξ of all draws, (M, ``steps`` or more, r′)."""
        key = matrix.name, device
        if key not in self._steps or self._steps[key].shape[1] < steps:
            size = max(_FIRST_STEPS, 1 << (steps - 1).bit_length())
            noise = [self.posterior.step_noise(matrix, m, size) for m in range(self.num_draws)]
            self._steps[key] = self.posterior.sigma * torch.stack(noise).to(device)
        return self._steps[key]


@contextmanager
def perturbed(draws: Draws | None, steps: Tensor | None = None) -> Iterator[None]:
    """Have the model's forward passes see the draws within the context; no weight is touched, however it ends.

    Args:
        draws: the draws, if there are any; a batch must have (1 + M)·B rows in member-major order.
        steps: (B, L) decoding step of each position, −1 where there is none; None where the fixed draws hold.
    """
    if draws is None:
        yield
        return
    found = None if steps is None else Steps.of(steps)
    with ExitStack() as stack:
        for matrix in draws.posterior.matrices:
            stack.enter_context(matrix.module.register_forward_hook(partial(_add, draws, matrix, found)))
        yield


def _add(
    draws: Draws,
    matrix: PerturbedMatrix,
    steps: Steps | None,
    _module: nn.Module,
    arguments: tuple[Tensor, ...],
    output: Tensor,
) -> Tensor:
    """Add ΔWx to a projection's output in the draws' rows."""
    inputs, output = arguments[0], output.contiguous()  # ((1 + M)·B, L, in)
    if inputs.ndim > 3:
        inputs = inputs.flatten(1, -2)  # latent attention has a dimension for its one head between them
    if inputs.ndim != 3 or (steps is not None and inputs.shape[1] != steps.places.shape[1]):
        raise TokurError(f"{matrix.name} is not given its inputs token by token: leave it out of --targets")
    base_rows = inputs.shape[0] // (1 + draws.num_draws)
    drawn = inputs[base_rows:].unflatten(0, (draws.num_draws, base_rows))
    coefficients = draws.coefficients(matrix, drawn, steps).flatten(0, 2).to(output.dtype)
    moved = output[base_rows:].view(len(coefficients), output.shape[-1])
    basis, _, rows = draws.tensors_of(matrix, output)
    # addmm adds in float32 what it multiplies: in low precision one rounding less than a product and a sum
    if isinstance(rows, slice):
        moved.addmm_(coefficients, basis.T)
    else:
        moved[:, rows] = torch.addmm(moved[:, rows], coefficients, basis.T)
    return output
