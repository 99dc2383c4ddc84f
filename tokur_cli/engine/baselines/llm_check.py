"""The inside view of LLM-Check (Sriramanan et al. 2024): attention, hidden states and logits of a response's tokens."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from tokur_cli.engine.baselines.layers import decoder_layer, eager_attention, hidden_states, recorded
from tokur_cli.engine.forward.batching import HalvingBatches, pad
from tokur_cli.engine.forward.body import input_device, logits_from, parts_of, run_body
from tokur_cli.engine.forward.rope import rescaled_beyond
from tokur_cli.engine.precision import on_float64_device
from tokur_cli.engine.scoring.scorer import TokenizedResponse
from tokur_cli.records.errors import TokurError

INSIDE = ("attention_log_diagonal", "hidden_eigenvalues", "top_entropy")
TOP_LOGITS = 50
_BLOCK = 64  # states whose logits are held at once

Inside = dict[str, npt.NDArray[np.floating]]


class InsideView:
    """Looks at responses from the inside, under the mean weights, in one forward pass.

        attention_log_diagonal  (H,): mean over the response's tokens of log a_tt, a head's attention from a token to
                                itself, among all tokens up to it
        hidden_eigenvalues      (T,): eigenvalues of Z J Zᵀ, J = I − 11ᵀ/d: the Gram matrix of the response's hidden
                                states Z (T, d), each centred over its d features
        top_entropy             (T,): entropy of softmax over the 50 largest logits that predict a token, nats

    Args:
        model: the model, in evaluation mode.
        layer: number of the layer, from 1, whose attention and output are looked at; None for the middle.
        wanted: which of them.
        batch_tokens: positions in a batch; halved for good when memory does not suffice.

    Raises:
        UsageError: there is no such layer.
        TokurError: the model's layers are not found.
    """

    def __init__(self, model: PreTrainedModel, layer: int | None, wanted: Collection[str], batch_tokens: int) -> None:
        self.model, self.wanted, self.batches = (
            model,
            frozenset(wanted),
            HalvingBatches(batch_tokens, apart_from=rescaled_beyond(model)),
        )
        self.device = input_device(model)
        parts_of(model)  # seen before its layers are listened to
        self.layer, self._layer = decoder_layer(model, layer)

    def look(self, responses: Sequence[TokenizedResponse]) -> list[Inside | TokurError]:
        """Return what is wanted of each response; an error where memory does not suffice.

        Raises:
            TokurError: the layer does not show its attention.
        """
        sequences = [[*response.prompt_ids, *response.response_ids] for response in responses]
        return self.batches.run(sequences, lambda batch: self._look([responses[index] for index in batch]))

    @torch.inference_mode()
    def _look(self, responses: list[TokenizedResponse]) -> list[Inside]:
        ids = pad([[*response.prompt_ids, *response.response_ids] for response in responses], self.device)
        spans = [
            (len(response.prompt_ids), len(response.prompt_ids) + len(response.response_ids)) for response in responses
        ]
        results: list[Inside] = [{} for _ in responses]
        with ExitStack() as stack:
            states = stack.enter_context(recorded(self._layer))
            if "attention_log_diagonal" in self.wanted:
                stack.enter_context(eager_attention(self.model))
                diagonals = stack.enter_context(_attention_diagonals(self._layer))
            outputs = run_body(self.model, input_ids=ids, use_cache=False)
        for row, (start, end) in enumerate(spans):
            if "attention_log_diagonal" in self.wanted:
                results[row]["attention_log_diagonal"] = _array(diagonals[0][row, :, start:end].log().mean(-1))
            if "hidden_eigenvalues" in self.wanted:
                results[row]["hidden_eigenvalues"] = _eigenvalues(hidden_states(states[0])[row, start:end])
        if "top_entropy" in self.wanted:
            self._add_entropies(outputs, spans, results)
        return results

    def _add_entropies(self, outputs: Any, spans: Sequence[tuple[int, int]], results: list[Inside]) -> None:
        with logits_from(self.model, outputs) as logits:
            for row, (start, end) in enumerate(spans):
                # The logits that predict a token stand one position before it; LLM-Check's code takes its own
                states = outputs.last_hidden_state[row, start - 1 : end - 1]
                entropies = [_top_entropy(logits(block[None])[0]) for block in states.split(_BLOCK)]
                results[row]["top_entropy"] = _array(torch.cat(entropies))


@contextmanager
def _attention_diagonals(layer: nn.Module) -> Iterator[list[Tensor]]:
    """Give a list that the layer's attention adds only the diagonal of its probabilities to, (B, H, L)."""
    diagonals: list[Tensor] = []

    def keep(_module: nn.Module, _arguments: object, output: object) -> None:
        parts = output if isinstance(output, tuple) else ()
        tensors = (part for part in parts if isinstance(part, Tensor) and part.ndim == 4)
        weights = (part for part in tensors if part.shape[-1] == part.shape[-2])  # not keys or values
        diagonals.extend(part.diagonal(dim1=-2, dim2=-1).float() for part in weights)

    hooks = [part.register_forward_hook(keep) for part in layer.modules() if "attention" in type(part).__name__.lower()]
    try:
        yield diagonals
    finally:
        for hook in hooks:
            hook.remove()
    if not diagonals:
        raise TokurError(
            "this layer does not show its attention, which llm_check_attention is computed from: leave the score out, "
            "or choose another layer with --set llm_check_layer if the model has several kinds"
        )


def _eigenvalues(states: Tensor) -> npt.NDArray[np.floating]:
    """Return the T eigenvalues of Z J Zᵀ for hidden states Z (T, d), as squares of singular values: never negative."""
    points = on_float64_device(states).double()
    if not bool(points.isfinite().all()):  # numbers too large for the dtype: there is no decomposition
        return _array(torch.full((len(points),), torch.nan))
    singular = torch.linalg.svdvals(points - points.mean(-1, keepdim=True))
    zeros = singular.new_zeros(len(points) - len(singular))
    return _array(torch.cat([singular.square(), zeros]))


def _top_entropy(logits: Tensor) -> Tensor:
    """Return the entropy (n,) of the softmax over the largest of the logits (n, V)."""
    largest = logits.float().topk(min(TOP_LOGITS, logits.shape[-1]), dim=-1).values
    entropy: Tensor = torch.special.entr(largest.softmax(-1)).sum(-1)
    return entropy


def _array(values: Tensor) -> npt.NDArray[np.floating]:
    array: npt.NDArray[np.floating] = values.cpu().numpy()
    return array
