"""Whole texts through a model under the mean weights, and what one of its layers puts out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from tokur_cli.engine.forward.batching import HalvingBatches, pad, pass_positions
from tokur_cli.engine.forward.body import input_device, logits_from, parts_of, run_body
from tokur_cli.engine.forward.rope import rescaled_beyond
from tokur_cli.engine.scoring.scorer import TokenizedResponse
from tokur_cli.records.errors import TokurError, UsageError

Result = TypeVar("Result")
Features = dict[str, npt.NDArray[np.floating]]

INSIDE = ("attention_log_diagonal", "hidden_eigenvalues", "top_entropy")
"""What LLM-Check (Sriramanan et al. 2024) sees of a response from the inside."""
TOP_LOGITS = 50
_BLOCK = 64  # states whose logits are held at once


class TextPasses:
    """Runs texts through a model under the mean weights.

    Args:
        model: the model, in evaluation mode.
        batch_tokens: positions in a batch; halved for good when memory does not suffice.
    """

    def __init__(self, model: PreTrainedModel, batch_tokens: int) -> None:
        self.model = model
        of_pass = pass_positions(input_device(model).type, 1)
        self._batches = HalvingBatches(batch_tokens, of_pass, apart_from=rescaled_beyond(model))

    @torch.inference_mode()
    def compute(
        self, sequences: Sequence[Sequence[int]], compute: Callable[[Sequence[int]], Sequence[Result]]
    ) -> list[Result]:
        """Return what is computed of each sequence of token ids, a batch of their indices at a time.

        Raises:
            TokurError: memory does not suffice for one of them.
        """
        lengths = dict(enumerate(map(len, sequences)))
        found: dict[int, Result] = {}
        for batch in self._batches.padded(lengths):
            for index, result in self._batches.results(batch, lengths, compute):
                if isinstance(result, TokurError):
                    raise result
                found[index] = result
        return [found[index] for index in lengths]

    def run(self, sequences: Sequence[Sequence[int]]) -> Any:
        """Return the outputs of the model's body for a batch of sequences of token ids."""
        return run_body(self.model, input_ids=pad(sequences, input_device(self.model)), use_cache=False)

    def of_logits(self, outputs: Any, states: Tensor, reduce: Callable[[Tensor], Tensor]) -> Tensor:
        """Return what is made, row by row, of the float32 logits (n, V) of a batch's states (n, d)."""
        with logits_from(self.model, outputs) as logits:
            return torch.cat([reduce(logits(block[None])[0].float()) for block in states.split(_BLOCK)])


class LayerView(TextPasses):
    """Looks at what one of a model's layers puts out.

    Args:
        model: the model, in evaluation mode.
        layer: number of the layer, from 1; None for the middle, ⌊n/2⌋ of n layers.
        batch_tokens: positions in a batch; halved for good when memory does not suffice.

    Raises:
        UsageError: the model has fewer layers.
        TokurError: its layers are not where they are in other models.
    """

    def __init__(self, model: PreTrainedModel, layer: int | None, batch_tokens: int) -> None:
        super().__init__(model, batch_tokens)
        parts_of(model)  # seen before its layers are listened to
        count: int = model.config.get_text_config(decoder=True).num_hidden_layers
        lists = (module for module in model.get_decoder().modules() if isinstance(module, nn.ModuleList))
        layers = next((each for each in lists if len(each) == count), None)
        if layers is None:
            raise TokurError("the layers of this model are not found, so no score can be computed from them")
        self.layer = max(count // 2, 1) if layer is None else layer
        if self.layer > count:
            raise UsageError(f"there is no layer {layer}: the model has {count}")
        self._module: nn.Module = layers[self.layer - 1]

    def features(self, responses: Sequence[TokenizedResponse], wanted: Collection[str]) -> list[Features]:
        """Return what is wanted of each response, by name.

        attention_log_diagonal  (H,): mean over the response's tokens of log a_tt, a head's attention from a token to
                                itself, among all tokens up to it
        hidden_eigenvalues      (T,): eigenvalues of Z J Zᵀ, J = I − 11ᵀ/d: the Gram matrix of the response's hidden
                                states Z (T, d), each centred over its d features
        top_entropy             (T,): entropy of softmax over the 50 largest logits that predict a token, nats
        last_state              (d,): hidden state at the response's last token, float32

        Raises:
            UsageError: the layer does not show its attention.
            TokurError: memory does not suffice for a response.
        """
        sequences = [[*response.prompt_ids, *response.response_ids] for response in responses]

        def compute(batch: Sequence[int]) -> list[Features]:
            results: list[Features] = [{} for _ in batch]
            states: list[Tensor] = []  # what the layer puts out, (B, L, d)

            def keep(_module: nn.Module, _arguments: object, output: Any) -> None:
                states.append(output if isinstance(output, Tensor) else output[0])

            with ExitStack() as stack:
                stack.enter_context(self._module.register_forward_hook(keep))
                if "attention_log_diagonal" in wanted:
                    diagonals = stack.enter_context(self._attention_diagonals())
                outputs = self.run([sequences[index] for index in batch])
            for row, index in enumerate(batch):
                start, end = len(responses[index].prompt_ids), len(sequences[index])
                if "attention_log_diagonal" in wanted:
                    to_itself = diagonals[0][row, :, start:end].log()
                    results[row]["attention_log_diagonal"] = to_itself.mean(-1).cpu().numpy()
                if "hidden_eigenvalues" in wanted:
                    results[row]["hidden_eigenvalues"] = _eigenvalues(states[0][row, start:end]).cpu().numpy()
                if "last_state" in wanted:
                    results[row]["last_state"] = states[0][row, end - 1].float().cpu().numpy()
                if "top_entropy" in wanted:
                    # The logits that predict a token stand one position before it; LLM-Check's code takes its own
                    before = outputs["last_hidden_state"][row, start - 1 : end - 1]
                    results[row]["top_entropy"] = self.of_logits(outputs, before, _top_entropy).cpu().numpy()
            return results

        return self.compute(sequences, compute)

    @contextmanager
    def _attention_diagonals(self) -> Iterator[list[Tensor]]:
        """Give a list that the layer's attention adds only the diagonal of its probabilities to, (B, H, L).

        Attention is computed step by step meanwhile, so that its probabilities can be seen; they are freed with the
        layer that made them.
        """
        diagonals: list[Tensor] = []

        def keep(_module: nn.Module, _arguments: object, output: object) -> None:
            for item in output if isinstance(output, tuple) else ():
                # Keys and values have as many dimensions
                if isinstance(item, Tensor) and item.ndim == 4 and item.shape[-1] == item.shape[-2]:
                    diagonals.append(item.diagonal(dim1=-2, dim2=-1).float())

        with ExitStack() as stack:
            for each in self._module.modules():
                if "attention" in type(each).__name__.lower():
                    stack.enter_context(each.register_forward_hook(keep))
            stack.callback(self.model.set_attn_implementation, self.model.config._attn_implementation)
            self.model.set_attn_implementation("eager")
            yield diagonals
        if not diagonals:
            raise UsageError(
                "this layer does not show its attention, which llm_check_attention needs: leave the score out, or "
                "choose another layer with --set llm_check_layer"
            )


def _eigenvalues(states: Tensor) -> Tensor:
    """Return the T eigenvalues of Z J Zᵀ for hidden states Z (T, d), as squares of singular values: never negative."""
    points = (states.cpu() if states.device.type == "mps" else states).double()  # a Mac's GPU has no float64
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
