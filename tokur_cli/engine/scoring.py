"""Teacher-forced scoring: tokenised responses in, per-token quantities out, by batches that fit the memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from transformers import PreTrainedModel

from tokur_cli.engine.lower_layers import copied_late
from tokur_cli.engine.memory import clear_device_cache, is_out_of_memory
from tokur_cli.engine.perturbed import Draws, perturbed
from tokur_cli.engine.vocabulary import logits_from, token_quantities
from tokur_cli.records.errors import TokurError

Sampling = Literal["stepwise", "shared", "joint"]
Quantities = dict[str, npt.NDArray[np.float32]]


@dataclass(frozen=True)
class TokenisedResponse:
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


class Scorer:
    """Scores responses under the mean weights and M draws in one set of forward passes.

    Args:
        model: the model, in evaluation mode.
        draws: the draws; None for the quantities of the mean weights alone.
        sampling: how draws and decoding steps go together: ``stepwise`` (a fresh draw a response token, the paper's
            Assumption 3.1), ``shared`` (one draw a member for the whole response) or ``joint`` (the same draws, each
            weighted by the probability it gave to the response so far).
        batch_tokens: positions in a batch, all members counted; halved for good when memory does not suffice.
        compare: whether the comparisons of ``token_quantities`` are computed too.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        draws: Draws | None,
        *,
        sampling: Sampling = "stepwise",
        batch_tokens: int = 8192,
        compare: bool = False,
    ) -> None:
        self.model = model
        self.draws = draws
        self.sampling = sampling
        self.batch_tokens = batch_tokens
        self.compare = compare

    @property
    def members(self) -> int:
        """1 + M."""
        return 1 + (self.draws.members if self.draws else 0)

    def score(
        self, responses: Sequence[TokenisedResponse], wanted: Sequence[bool] | None = None
    ) -> Iterator[tuple[int, Quantities | TokurError]]:
        """Yield (index, quantities) for every wanted response, long ones first.

        Batches are formed from all ``responses``, so what is wanted decides which batches run but not what is in
        them: numbers are the same to the last bit whichever part is asked for.

        Args:
            responses: a window of the stream.
            wanted: which of them are asked for; None for all.

        Yields:
            The response's index with the quantities of ``token_quantities`` as float32 arrays of shape (T,), or with
            an error where memory does not suffice for the response alone.
        """
        for batch in self._batches(responses):
            if wanted is None or any(wanted[index] for index in batch):
                for index, result in self._score_or_halve(responses, batch):
                    if wanted is None or wanted[index]:
                        yield index, result

    def _batches(self, responses: Sequence[TokenisedResponse]) -> Iterator[list[int]]:
        """Cut the indices, longest response first, into batches of at most ``batch_tokens`` padded positions."""
        order = sorted(range(len(responses)), key=lambda index: (-responses[index].length, index))
        while order:
            longest = responses[order[0]].length
            size = max(1, self.batch_tokens // (longest * self.members))
            yield order[:size]
            order = order[size:]

    def _score_or_halve(
        self, responses: Sequence[TokenisedResponse], batch: list[int]
    ) -> Iterator[tuple[int, Quantities | TokurError]]:
        try:
            results = self._score_batch([responses[index] for index in batch])
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            results = None
        if results is not None:
            yield from zip(batch, results, strict=True)
            return
        clear_device_cache(garbage_collection=True)
        if len(batch) == 1:
            yield batch[0], TokurError(f"too little memory for a response of {responses[batch[0]].length} tokens")
            return
        self.batch_tokens = max(1, self.batch_tokens // 2)
        middle = len(batch) // 2
        yield from self._score_or_halve(responses, batch[:middle])
        yield from self._score_or_halve(responses, batch[middle:])

    @torch.inference_mode()
    def _score_batch(self, responses: list[TokenisedResponse]) -> list[Quantities]:
        batch = _PaddedBatch(responses, next(self.model.get_input_embeddings().parameters()).device)
        # Padding stands on the right, where causal attention keeps it from everything that is read: no mask is needed
        if self.draws is None:
            outputs = self.model.base_model(input_ids=batch.ids, use_cache=False)
        else:
            steps = batch.steps if self.sampling == "stepwise" else None
            with perturbed(self.draws, steps), copied_late(self.model, self.draws) as copies:
                outputs = self.model.base_model(input_ids=batch.ids.repeat(copies, 1), use_cache=False)
        # ((1 + M)·B, L, d), member-major
        states = outputs.last_hidden_state.unflatten(0, (self.members, -1))  # (1 + M, B, L, d)
        hidden = states[:, batch.row.to(states.device), batch.column.to(states.device)]  # (1 + M, N, d)
        with logits_from(self.model, outputs) as logits:
            quantities = token_quantities(
                logits,
                hidden,
                batch.targets.to(hidden.device),
                batch.starts.to(hidden.device),
                joint=self.sampling == "joint" and self.draws is not None,
                compare=self.compare,
            )
        arrays = {name: values.numpy() for name, values in quantities.items()}
        ends = np.cumsum([len(response.response_ids) for response in responses])
        return [
            {name: values[end - len(response.response_ids) : end] for name, values in arrays.items()}
            for response, end in zip(responses, ends, strict=True)
        ]


class _PaddedBatch:
    """The tensors of B responses, padded on the right to L positions; N response tokens in all.

    Attributes:
        ids: (B, L) token ids, each row without its response's last token.
        steps: (B, L) decoding step of a position, −1 in the prompt; padding goes on counting and is never read.
        row, column: (N,) where the state that predicts each response token is.
        targets: (N,) ids of the response tokens.
        starts: (N,) index among the N of the first token of each token's response.
    """

    def __init__(self, responses: list[TokenisedResponse], device: torch.device) -> None:
        length = max(response.length for response in responses)
        ids = np.zeros((len(responses), length), dtype=np.int64)
        steps = np.empty((len(responses), length), dtype=np.int64)
        row, column, targets, starts = [], [], [], []
        total = 0
        for index, response in enumerate(responses):
            prompt, tokens = len(response.prompt_ids), len(response.response_ids)
            ids[index, : response.length] = [*response.prompt_ids, *response.response_ids[:-1]]
            steps[index] = np.maximum(np.arange(length) - prompt, -1)
            row.append(np.full(tokens, index))
            column.append(np.arange(prompt - 1, prompt + tokens - 1))
            targets.append(np.asarray(response.response_ids, dtype=np.int64))
            starts.append(np.full(tokens, total))
            total += tokens
        self.ids = torch.from_numpy(ids).to(device)
        self.steps: Tensor = torch.from_numpy(steps).to(device)
        self.row, self.column, self.targets, self.starts = (
            torch.from_numpy(np.concatenate(parts)) for parts in (row, column, targets, starts)
        )
