"""Work on many sequences in padded batches that are halved where memory does not suffice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import torch
from torch import Tensor

from tokur_cli.engine.memory import clear_device_cache, is_out_of_memory
from tokur_cli.records.errors import TokurError

Result = TypeVar("Result")


class HalvingBatches:
    """Cuts sequences, longest first, into batches.

    Args:
        batch_tokens: padded positions in a batch; halved for good when memory does not suffice.
    """

    def __init__(self, batch_tokens: int) -> None:
        self.batch_tokens = batch_tokens

    def run(
        self, sequences: Sequence[Sequence[int]], compute: Callable[[list[int]], Sequence[Result]]
    ) -> list[Result | TokurError]:
        """Return the result of every sequence, in their order.

        Args:
            sequences: token ids.
            compute: from the indices of a batch's sequences to their results.

        Returns:
            Results; an error where memory does not suffice for the sequence alone.
        """
        results: dict[int, Result | TokurError] = {}
        order = sorted(range(len(sequences)), key=lambda index: (-len(sequences[index]), index))
        while order:
            size = max(1, self.batch_tokens // len(sequences[order[0]]))
            for index, result in self._compute_or_halve(sequences, order[:size], compute):
                results[index] = result
            order = order[size:]
        return [results[index] for index in range(len(sequences))]

    def _compute_or_halve(
        self, sequences: Sequence[Sequence[int]], batch: list[int], compute: Callable[[list[int]], Sequence[Result]]
    ) -> Iterator[tuple[int, Result | TokurError]]:
        try:
            results = compute(batch)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            results = None
        if results is not None:
            yield from zip(batch, results, strict=True)
            return
        clear_device_cache(garbage_collection=True)
        if len(batch) == 1:
            yield batch[0], TokurError(f"too little memory for {len(sequences[batch[0]])} tokens")
            return
        self.batch_tokens = max(1, self.batch_tokens // 2)
        middle = len(batch) // 2
        yield from self._compute_or_halve(sequences, batch[:middle], compute)
        yield from self._compute_or_halve(sequences, batch[middle:], compute)


def pad(sequences: Sequence[Sequence[int]], device: torch.device) -> Tensor:
    """Return token ids as (B, L), padded on the right, where causal attention keeps it from all that is read."""
    ids = torch.zeros(len(sequences), max(map(len, sequences)), dtype=torch.long)
    for row, sequence in enumerate(sequences):
        ids[row, : len(sequence)] = torch.tensor(sequence)
    return ids.to(device)
