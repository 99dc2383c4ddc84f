"""Whole texts through a model under the mean weights, and what one of its layers puts out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from tokur_cli.engine.forward.batching import HalvingBatches, pad
from tokur_cli.engine.forward.body import input_device, logits_from, parts_of, run_body
from tokur_cli.engine.forward.rope import rescaling
from tokur_cli.records.errors import TokurError, UsageError

Result = TypeVar("Result")
State = npt.NDArray[np.float32]

_BLOCK = 64  # states whose logits are held at once


class TextPasses:
    """Runs texts through a model under the mean weights.

    Args:
        model: the model, in evaluation mode.
        batch_tokens: positions in a batch; halved for good when memory does not suffice.
    """

    def __init__(self, model: PreTrainedModel, batch_tokens: int) -> None:
        self.model = model
        self._batches = HalvingBatches(batch_tokens, apart_from=rescaling(model).beyond)
        self._device = input_device(model)

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
        return run_body(self.model, input_ids=pad(sequences, self._device), use_cache=False)

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
        self.module: nn.Module = layers[self.layer - 1]

    @contextmanager
    def hidden_states(self) -> Iterator[list[Tensor]]:
        """Give a list to which every call of the layer adds its hidden states (B, L, d)."""
        states: list[Tensor] = []

        def keep(_module: nn.Module, _arguments: object, output: Any) -> None:
            states.append(output[0] if isinstance(output, tuple) else output)

        with self.module.register_forward_hook(keep):
            yield states

    def last_states(self, sequences: Sequence[Sequence[int]]) -> list[State]:
        """Return the state (d,) at the end of each sequence of token ids.

        Raises:
            TokurError: memory does not suffice for one of them.
        """

        def compute(batch: Sequence[int]) -> list[State]:
            with self.hidden_states() as states:
                self.run([sequences[index] for index in batch])
            ends = [len(sequences[index]) - 1 for index in batch]
            return [states[0][row, end].float().cpu().numpy() for row, end in enumerate(ends)]

        return self.compute(sequences, compute)
