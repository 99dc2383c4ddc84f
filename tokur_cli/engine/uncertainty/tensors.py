"""The tensors of a batch of responses: padded rows of their own, or one packed row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tokur_cli.engine.uncertainty.packing import Layout


@dataclass(frozen=True)
class TokenizedResponse:
    """What the engine scores.

    Args:
        prompt_ids: P ≥ 1 token ids before the response.
        response_ids: T ≥ 1 token ids of the response.
    """

    prompt_ids: Sequence[int]
    response_ids: Sequence[int]

    @property
    def length(self) -> int:
        """Positions of a forward pass: the response's last token predicts nothing that is asked for."""
        return len(self.prompt_ids) + len(self.response_ids) - 1

    @cached_property
    def input_ids(self) -> npt.NDArray[np.int64]:
        """The ids that a forward pass is given, (length,)."""
        return np.array([*self.prompt_ids, *self.response_ids[:-1]], dtype=np.int64)

    def steps(self, length: int) -> npt.NDArray[np.int64]:
        """Return the decoding step of the first ``length`` positions: −1 in the prompt."""
        return np.maximum(np.arange(length) - len(self.prompt_ids), -1)

    def identity(self) -> npt.NDArray[np.int64]:
        """Return what the state at each position depends on, the positions before it apart: its id and step."""
        return self.input_ids << 32 | (self.steps(self.length) + 1)


@dataclass(frozen=True)
class BatchTensors:
    """The tensors of responses with N response tokens in all, in B rows of L positions.

    Args:
        ids: (B, L) token ids.
        steps: (B, L) decoding step of a position, −1 in the prompt; padding is never read.
        positions: (1, L) each position's place in its response; None where rows are responses.
        row, column: (N,) where the state that predicts each response token is.
        targets: (N,) ids of the response tokens.
        starts: (N,) index among the N of the first token of each token's response.
    """

    ids: Tensor
    steps: Tensor
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
    return BatchTensors(
        ids=torch.from_numpy(ids).to(device),
        steps=torch.from_numpy(np.stack([response.steps(length) for response in responses])).to(device),
        positions=None,
        row=_joined([np.full(len(response.response_ids), row) for row, response in enumerate(responses)]),
        column=_joined([np.arange(len(r.prompt_ids) - 1, r.length) for r in responses]),
        targets=_targets(responses),
        starts=_starts(responses),
    )


def packed(responses: Sequence[TokenizedResponse], layout: Layout, first: int, device: torch.device) -> BatchTensors:
    """Put all responses into one row.

    Args:
        responses: the responses.
        layout: where their stretches stand.
        first: position of each response that the row begins with; what is before was computed ahead.
        device: of the ids.
    """
    ids, steps = np.empty((2, layout.length), dtype=np.int64)
    for index, response in enumerate(responses):
        own = layout.sequences == index
        positions = layout.positions[own]
        ids[own] = response.input_ids[positions]
        steps[own] = response.steps(response.length)[positions]
    columns = [layout.where(i)[len(r.prompt_ids) - 1 - first :] for i, r in enumerate(responses)]
    return BatchTensors(
        ids=torch.from_numpy(ids[None]).to(device),
        steps=torch.from_numpy(steps[None]).to(device),
        positions=torch.from_numpy(layout.positions[None]).to(device),
        row=_joined([np.zeros_like(column) for column in columns]),
        column=_joined(columns),
        targets=_targets(responses),
        starts=_starts(responses),
    )


def _targets(responses: Sequence[TokenizedResponse]) -> Tensor:
    return _joined([np.asarray(response.response_ids, dtype=np.int64) for response in responses])


def _starts(responses: Sequence[TokenizedResponse]) -> Tensor:
    counts = np.array([len(response.response_ids) for response in responses])
    return torch.from_numpy(np.repeat(np.cumsum(counts) - counts, counts))


def _joined(parts: Sequence[npt.NDArray[np.int64]]) -> Tensor:
    return torch.from_numpy(np.concatenate(parts))
