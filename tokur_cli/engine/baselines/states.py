"""What a layer makes of whole texts: the hidden state at their last tokens."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from transformers import PreTrainedModel

from tokur_cli.engine.baselines.layers import decoder_layer, hidden_states, recorded
from tokur_cli.engine.forward.batching import HalvingBatches, pad
from tokur_cli.engine.forward.body import input_device, parts_of, run_body
from tokur_cli.engine.forward.rope import rescaled_beyond
from tokur_cli.records.errors import TokurError

State = npt.NDArray[np.float32]


class LastStates:
    """Reads the hidden state at the last token of sequences, under the mean weights.

    Args:
        model: the model, in evaluation mode.
        layer: number of the layer whose output it is, from 1; None for the middle.
        batch_tokens: positions in a batch; halved for good when memory does not suffice.

    Raises:
        UsageError: there is no such layer.
        TokurError: the model's layers are not found.
    """

    def __init__(self, model: PreTrainedModel, layer: int | None, batch_tokens: int) -> None:
        self.model, self.batches = model, HalvingBatches(batch_tokens, apart_from=rescaled_beyond(model))
        self.device = input_device(model)
        parts_of(model)  # seen before its layers are listened to
        self.layer, self._layer = decoder_layer(model, layer)

    def read(self, sequences: Sequence[Sequence[int]]) -> list[State | TokurError]:
        """Return the state (d,) of each sequence of at least one token id; an error where memory does not suffice."""
        return self.batches.run(sequences, lambda batch: self._read([sequences[index] for index in batch]))

    @torch.inference_mode()
    def _read(self, sequences: list[Sequence[int]]) -> list[State]:
        with recorded(self._layer) as outputs:
            run_body(self.model, input_ids=pad(sequences, self.device), use_cache=False)
        states = hidden_states(outputs[0])
        return [states[row, len(sequence) - 1].float().cpu().numpy() for row, sequence in enumerate(sequences)]
