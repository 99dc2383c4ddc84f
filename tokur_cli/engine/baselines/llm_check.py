"""The inside view of LLM-Check (Sriramanan et al. 2024): attention, hidden states and logits of a response's tokens."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from tokur_cli.engine.baselines.layers import LayerView
from tokur_cli.engine.precision import on_float64_device
from tokur_cli.engine.scoring.scorer import TokenizedResponse
from tokur_cli.records.errors import UsageError

INSIDE = ("attention_log_diagonal", "hidden_eigenvalues", "top_entropy")
TOP_LOGITS = 50

Inside = dict[str, npt.NDArray[np.floating]]


class InsideView(LayerView):
    """Looks at responses from the inside, under the mean weights, in one forward pass.

    attention_log_diagonal  (H,): mean over the response's tokens of log a_tt, a head's attention from a token to
                            itself, among all tokens up to it
    hidden_eigenvalues      (T,): eigenvalues of Z J Zᵀ, J = I − 11ᵀ/d: the Gram matrix of the response's hidden
                            states Z (T, d), each centred over its d features
    top_entropy             (T,): entropy of softmax over the 50 largest logits that predict a token, nats
    """

    def llm_check_features(self, responses: Sequence[TokenizedResponse], wanted: Collection[str]) -> list[Inside]:
        """Return what is wanted of each response.

        Raises:
            UsageError: the layer does not show its attention.
            TokurError: memory does not suffice for a response.
        """
        sequences = [[*response.prompt_ids, *response.response_ids] for response in responses]

        def compute(batch: Sequence[int]) -> list[Inside]:
            results: list[Inside] = [{} for _ in batch]
            spans = [(len(responses[index].prompt_ids), len(sequences[index])) for index in batch]
            with ExitStack() as stack:
                states = stack.enter_context(self.hidden_states())
                if "attention_log_diagonal" in wanted:
                    diagonals = stack.enter_context(_attention_diagonals(self.model, self.module))
                outputs = self.run([sequences[index] for index in batch])
            for row, (start, end) in enumerate(spans):
                if "attention_log_diagonal" in wanted:
                    to_itself = diagonals[0][row, :, start:end].log()
                    results[row]["attention_log_diagonal"] = to_itself.mean(-1).cpu().numpy()
                if "hidden_eigenvalues" in wanted:
                    results[row]["hidden_eigenvalues"] = _eigenvalues(states[0][row, start:end]).cpu().numpy()
                if "top_entropy" in wanted:
                    # The logits that predict a token stand one position before it; LLM-Check's code takes its own
                    before = outputs["last_hidden_state"][row, start - 1 : end - 1]
                    results[row]["top_entropy"] = self.of_logits(outputs, before, _top_entropy).cpu().numpy()
            return results

        return self.compute(sequences, compute)


@contextmanager
def _attention_diagonals(model: PreTrainedModel, layer: nn.Module) -> Iterator[list[Tensor]]:
    """Give a list that the layer's attention adds only the diagonal of its probabilities to, (B, H, L).

    Attention is computed step by step meanwhile, so that its probabilities can be seen; they are freed with the layer
    that made them.
    """
    diagonals: list[Tensor] = []

    def keep(_module: nn.Module, _arguments: object, output: object) -> None:
        items = output if isinstance(output, tuple) else ()
        tensors = (item for item in items if isinstance(item, Tensor) and item.ndim == 4)
        weights = (item for item in tensors if item.shape[-1] == item.shape[-2])  # not keys or values
        diagonals.extend(item.diagonal(dim1=-2, dim2=-1).float() for item in weights)

    before = model.config._attn_implementation
    with ExitStack() as stack:
        for each in layer.modules():
            if "attention" in type(each).__name__.lower():
                stack.enter_context(each.register_forward_hook(keep))
        stack.callback(model.set_attn_implementation, before)
        model.set_attn_implementation("eager")
        yield diagonals
    if not diagonals:
        raise UsageError(
            "this layer does not show its attention, which llm_check_attention needs: leave the score out, or choose "
            "another layer with --set llm_check_layer"
        )


def _eigenvalues(states: Tensor) -> Tensor:
    """Return the T eigenvalues of Z J Zᵀ for hidden states Z (T, d), as squares of singular values: never negative."""
    points = on_float64_device(states).double()
    if not bool(points.isfinite().all()):  # numbers too large for the dtype: there is no decomposition
        return torch.full((len(points),), torch.nan)
    singular = torch.linalg.svdvals(points - points.mean(-1, keepdim=True))
    zeros = singular.new_zeros(len(points) - len(singular))
    return torch.cat([singular.square(), zeros])


def _top_entropy(logits: Tensor) -> Tensor:
    """Return the entropy (n,) of the softmax over the largest of the logits (n, V)."""
    largest = logits.topk(min(TOP_LOGITS, logits.shape[-1]), dim=-1).values
    entropy: Tensor = torch.special.entr(largest.softmax(-1)).sum(-1)
    return entropy
