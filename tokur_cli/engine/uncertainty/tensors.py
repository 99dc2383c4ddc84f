"""The tensors of a batch of responses: padded rows of their own, or one packed row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tokur_cli.engine.transfers import sent
from tokur_cli.engine.uncertainty.packing import Layout

_Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class TokenizedResponse:
    """What the engine scores.

    Args:
        prompt_ids: P ≥ 1 token ids before the response.
        response_ids: T ≥ 1 token ids of the response.
        begun: how many of the ``prompt_ids``, the last ones, are of the response too, scored before.
    """

    prompt_ids: Sequence[int]
    response_ids: Sequence[int]
    begun: int = 0

    @property
    def length(self) -> int:
        """Positions of a forward pass: the response's last token predicts nothing that is asked for."""
        return len(self.prompt_ids) + len(self.response_ids) - 1

    @cached_property
    def input_ids(self) -> _Numbers:
        """The ids that a forward pass is given, (length,)."""
        return np.array([*self.prompt_ids, *self.response_ids[:-1]], dtype=np.int64)

    def steps(self, length: int) -> _Numbers:
        """Return the decoding step of the first ``length`` positions: −1 in the prompt."""
        return np.maximum(np.arange(length) - len(self.prompt_ids) + self.begun, -1)

    def identity(self) -> _Numbers:
        """Return what the state at each position depends on, the positions before it apart: its id and step."""
        return self.input_ids << 32 | (self.steps(self.length) + 1)


@dataclass(frozen=True)
class BatchTensors:
    """The tensors of responses with N response tokens in all, in B rows of L positions.

    All but ``starts`` go to the device before the forward pass.

    Args:
        ids: (B, L) token ids.
        steps: (B, L) decoding step of a position, −1 in the prompt; padding is never read.
        step_count: more than the largest of the steps.
        positions: (1, L) each position's place in its response; None where rows are responses.
        row, column: (N,) where the state that predicts each response token is.
        targets: (N,) ids of the response tokens.
        starts: (N,) index among the N of the first token of each token's response, on the CPU.
    """

    ids: Tensor
    steps: Tensor
    step_count: int
    positions: Tensor | None
    row: Tensor
    column: Tensor
    targets: Tensor
    starts: Tensor


def padded(responses: Sequence[TokenizedResponse], device: torch.device) -> BatchTensors:
    """Give every response a row, padded on the right, where causal attention keeps it from all that is read."""
    length = max(response.length for response in responses)
    ids = np.zeros((len(responses), length), dtype=np.int64)
    for row, response in enumerate(responses):
        ids[row, : response.length] = response.input_ids
    steps = np.stack([response.steps(length) for response in responses])
    rows = [np.full(len(response.response_ids), row) for row, response in enumerate(responses)]
    columns = [np.arange(len(response.prompt_ids) - 1, response.length) for response in responses]
    return _on(device, responses, ids, steps, None, rows, columns)


def packed(responses: Sequence[TokenizedResponse], layout: Layout, device: torch.device) -> BatchTensors:
    """Put all responses into one row.

    Args:
        responses: the responses.
        layout: where their stretches stand.
        device: of the tensors.
    """
    ids, steps = np.empty((2, layout.length), dtype=np.int64)
    for index, response in enumerate(responses):
        own = layout.sequences == index
        positions = layout.positions[own]
        ids[own] = response.input_ids[positions]
        steps[own] = response.steps(response.length)[positions]
    columns = [layout.where(index)[-len(response.response_ids) :] for index, response in enumerate(responses)]
    rows = [np.zeros_like(column) for column in columns]
    return _on(device, responses, ids[None], steps[None], layout.positions[None], rows, columns)


def _on(
    device: torch.device,
    responses: Sequence[TokenizedResponse],
    ids: _Numbers,
    steps: _Numbers,
    positions: _Numbers | None,
    rows: Sequence[_Numbers],
    columns: Sequence[_Numbers],
) -> BatchTensors:
    """Put a batch on a device; ``rows`` and ``columns`` are a response's each."""
    counts = np.array([len(response.response_ids) for response in responses])
    return BatchTensors(
        ids=sent(ids, device),
        steps=sent(steps, device),
        step_count=int(steps.max()) + 1,
        positions=None if positions is None else sent(positions, device),
        row=sent(np.concatenate(rows), device),
        column=sent(np.concatenate(columns), device),
        targets=sent(
            np.concatenate([np.asarray(response.response_ids, dtype=np.int64) for response in responses]), device
        ),
        starts=torch.from_numpy(np.repeat(np.cumsum(counts) - counts, counts)),
    )
