"""Teacher-forced scoring: tokenized responses in, per-token quantities out, by batches that fit the memory.

Responses are packed without padding, and what they have in common is computed once per draw; where a family's attention
does not allow that (``packing.longest_packed``), they stand in padded rows of like length.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.utils.generic import ModelOutput

from tokur_cli.engine.body import input_device, logits_from, parts_of, run_body
from tokur_cli.engine.halving import HalvingBatches
from tokur_cli.engine.rotary import rescaling
from tokur_cli.engine.uncertainty.packing import (
    Ahead,
    KeysAndValues,
    Layout,
    PackedAttention,
    attention_by,
    longest_packed,
)
from tokur_cli.engine.uncertainty.perturbed import Draws, perturbed
from tokur_cli.engine.uncertainty.prefixes import Batch, Stretch, cut_batches, divide, in_reading_order
from tokur_cli.engine.uncertainty.tensors import BatchTensors, TokenizedResponse, packed, padded
from tokur_cli.engine.uncertainty.vocabulary import Estimator, most_bytes, token_quantities
from tokur_cli.records.errors import TokurError

__all__ = ["Quantities", "SamplingMode", "Scorer", "TokenizedResponse"]

SamplingMode = Literal["stepwise", "shared", "joint"]
Quantities = dict[str, npt.NDArray[Any]]


class Scorer:
    """Scores responses under the mean weights and M draws in one set of forward passes.

    Args:
        model: the model, in evaluation mode.
        draws: the draws; None for the quantities of the mean weights alone.
        sampling: how draws and decoding steps go together: ``stepwise`` (a fresh draw per response token, the paper's
            Assumption 3.1, read so that earlier tokens' keys come from the draws of their own steps and the prompt's
            from one fixed draw), ``shared`` (one draw per member for the whole response) or ``joint`` (the same draws,
            each weighted by the probability it gave to the response so far).
        batch_tokens: positions in a batch, all members counted; halved for good when memory does not suffice.
        estimator: of the epistemic uncertainty, see ``token_quantities``.
        on_demand: which of its further quantities are computed, such as ``eu_fisher``.
        compare: whether the comparisons of ``token_quantities`` are computed too.
        alternatives: how many of the likeliest tokens are given of each token; 0 for none.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        draws: Draws | None,
        *,
        sampling: SamplingMode = "stepwise",
        batch_tokens: int = 8192,
        estimator: Estimator = "paper",
        on_demand: Collection[str] = (),
        compare: bool = False,
        alternatives: int = 0,
    ) -> None:
        self.model = model
        self.draws = draws
        self.sampling = sampling
        self.estimator = estimator
        self.on_demand = on_demand
        self.compare = compare
        self.alternatives = alternatives
        self.device = input_device(model)
        self.longest_packed = longest_packed(model)
        parts_of(model)  # seen before draws are added to what its projections put out
        self.members = 1 + (draws.members if draws else 0)
        self._ahead: list[_Prefix] = []
        self._rescaling = rescaling(model)
        self._halving = HalvingBatches(
            batch_tokens // self.members,
            make_room=self._give_up_prefixes,
            apart_from=self._rescaling.beyond if self._rescaling else None,
        )

    @property
    def batch_tokens(self) -> int:
        """Positions in a batch, of one member."""
        return self._halving.batch_tokens

    def score(
        self, responses: Sequence[TokenizedResponse], wanted: Sequence[bool] | None = None
    ) -> Iterator[tuple[int, Quantities | TokurError]]:
        """Yield (index, quantities) for every wanted response, in any order.

        Batches are formed from all ``responses``, so what is wanted decides which batches run but not what is in
        them: numbers are the same to the last bit whichever part is asked for.

        Args:
            responses: a window of the stream.
            wanted: which of them are asked for; None for all.

        Yields:
            The response's index with what ``token_quantities`` gives of its tokens, each array with T first in its
            shape, or with an error where memory does not suffice for the response alone, or where its numbers would
            depend on others.
        """
        lengths = {index: response.length for index, response in enumerate(responses)}
        if self._rescaling and self._rescaling.is_dynamic:
            for index in [index for index, length in lengths.items() if length > self._rescaling.beyond]:
                del lengths[index]
                if wanted is None or wanted[index]:
                    name, beyond = self._rescaling.name, self._rescaling.beyond
                    yield index, TokurError(f"with this model's {name} RoPE, at most {beyond:,} tokens can be scored")
        for batch in self._in_turn(responses, lengths):
            if wanted is None or any(wanted[index] for index in batch.indices):

                def compute(indices: Sequence[int], batch: Batch = batch) -> list[Quantities]:
                    return self._score_batch([responses[index] for index in indices], batch)

                for index, result in self._halving.results(batch.indices, lengths, compute):
                    if wanted is None or wanted[index]:
                        yield index, result

    def _in_turn(self, responses: Sequence[TokenizedResponse], lengths: dict[int, int]) -> Iterator[Batch]:
        """Yield the batches in the order of the responses; those still to come are cut anew when memory was too little.

        So each batch gives the next response in the stream at the latest, whatever its neighbours in the batch are.
        """
        prompts = {index: responses[index].prompt_ids for index in lengths}
        left = dict(lengths)
        while left:
            budget = self._halving.batch_tokens
            batches = cut(responses, left, self.longest_packed, self._halving)
            for batch in in_reading_order(list(batches), prompts):
                yield batch
                for index in batch.indices:
                    del left[index]
                if self._halving.batch_tokens != budget:
                    break

    @torch.inference_mode()
    def _score_batch(self, responses: list[TokenizedResponse], batch: Batch) -> list[Quantities]:
        """Score a batch's responses, all of them or a half."""
        if batch.packed:
            first = batch.ahead[-1] if batch.ahead else 0
            self._compute_ahead(responses[0], batch.ahead)
            layout = Layout(divide({i: response.identity() for i, response in enumerate(responses)}, first))
            tensors = packed(responses, layout, self.device)
            outputs = self.forward(tensors, PackedAttention(layout, self._before(layout)))
        else:
            tensors = padded(responses, self.device)
            outputs = self.forward(tensors)
        return self.reduced(responses, tensors, outputs)

    def reduced(
        self, responses: Sequence[TokenizedResponse], tensors: BatchTensors, outputs: ModelOutput
    ) -> list[Quantities]:
        """Return the quantities of a batch's responses from what the body put out."""
        states = outputs["last_hidden_state"].unflatten(0, (self.members, -1))  # (1 + M, B, L, d)
        hidden = states[:, tensors.row.to(states.device), tensors.column.to(states.device)]  # (1 + M, N, d)
        return self.quantities_of(responses, hidden, tensors, outputs)

    def quantities_of(
        self, responses: Sequence[TokenizedResponse], hidden: Tensor, tensors: BatchTensors, outputs: ModelOutput
    ) -> list[Quantities]:
        """Return the quantities of responses from the states (1 + M, N, d) that predict their tokens.

        Args:
            responses: the responses.
            hidden: the states, where the model's head computes.
            tensors: the responses' tensors.
            outputs: what the body puts out, of any batch: what the model's head is given beside the states.
        """
        with logits_from(self.model, outputs) as logits:
            quantities = token_quantities(
                logits,
                hidden,
                tensors.targets.to(hidden.device),
                tensors.starts,
                joint=self.sampling == "joint" and self.draws is not None,
                estimator=self.estimator,
                on_demand=self.on_demand,
                compare=self.compare,
                alternatives=self.alternatives,
            )
        arrays = {name: values.numpy() for name, values in quantities.items()}
        ends = np.cumsum([len(response.response_ids) for response in responses])
        return [
            {name: values[end - len(response.response_ids) : end] for name, values in arrays.items()}
            for response, end in zip(responses, ends, strict=True)
        ]

    def forward(self, tensors: BatchTensors, attention: PackedAttention | None = None) -> ModelOutput:
        """Run the model's body under all members: its output's rows are ((1 + M)·B, L), member-major."""
        steps = tensors.steps if self.sampling == "stepwise" else None
        with (
            perturbed(self.draws, steps, tensors.step_count) if self.draws else nullcontext(),
            attention_by(self.model, attention) if attention else nullcontext(),
        ):
            ids = tensors.ids.repeat(self.members, 1)
            options = {} if tensors.positions is None else {"position_ids": tensors.positions}
            return run_body(self.model, input_ids=ids, use_cache=False, **options)

    def _compute_ahead(self, response: TokenizedResponse, ends: tuple[int, ...]) -> None:
        """Compute the keys and values of the response's prefixes, but for those that the batch before had too.

        That batch may be of an earlier window: responses to the same few-shot prompt share it through the whole stream.

        Args:
            response: any of the batch.
            ends: where its prefixes end.
        """
        prompts = [tuple(response.prompt_ids[:end]) for end in ends]
        known = 0
        while known < min(len(prompts), len(self._ahead)) and self._ahead[known].prompt == prompts[known]:
            known += 1
        del self._ahead[known:]
        for prompt in prompts[known:]:
            first = len(self._ahead[-1].prompt) if self._ahead else 0
            layout = Layout((Stretch(first, len(prompt), (0,), ()),))
            keep: KeysAndValues = {}
            prefix = packed([TokenizedResponse(prompt, (0,))], layout, self.device)
            self.forward(prefix, PackedAttention(layout, self._before(layout), keep))
            self._ahead.append(_Prefix(prompt, keep))

    def _give_up_prefixes(self) -> bool:
        """Drop the keys and values of prefixes; return whether there were any."""
        held = bool(self._ahead)
        self._ahead.clear()
        return held

    def _before(self, layout: Layout) -> list[Ahead]:
        """Return what all positions of a row attend to that was computed ahead."""
        states = [prefix.states for prefix in self._ahead]
        return [Ahead(0, layout.length, states)] if states else []


def cut(
    responses: Sequence[TokenizedResponse], lengths: Mapping[int, int], longest_packed: int | None, size: HalvingBatches
) -> Iterator[Batch]:
    """Cut responses into batches, in any order.

    Args:
        responses: a window of the stream.
        lengths: of those that are to be in batches, by index.
        longest_packed: how long a response may be to be packed, see ``packing.longest_packed``.
        size: how many positions a batch may have.
    """
    packable = [index for index, length in lengths.items() if longest_packed is None or length <= longest_packed]
    identities = {index: responses[index].identity() for index in packable}
    # A state that predicts a response token belongs to its batch
    latest = {index: len(responses[index].prompt_ids) - 1 for index in packable}
    yield from cut_batches(divide(identities), lambda: size.batch_tokens, latest)
    for indices in size.padded({i: length for i, length in lengths.items() if i not in identities}):
        yield Batch(tuple(indices), packed=False)


def batch_bytes(model: PreTrainedModel, positions: int, longest: int, device: str) -> int:
    """Return about how much memory a batch takes at its peak, beside the weights.

    That is in the widest layer or at the head, whichever takes more. In the layer: the embeddings and its input, which
    last as long as their callers, what is added to its output, what its norm gives, and three tensors of its width (an
    MLP's gate, what it is multiplied with, and the product); or, where attention is eager, its weights before and after
    a softmax in float32. At the head: the states and a block of logits.

    Args:
        model: the model, whose weights need not be there.
        positions: of the batch, all members counted.
        longest: how many positions its longest response has.
        device: the kind that it will be on.
    """
    ends = {id(module.weight) for module in (model.get_input_embeddings(), model.get_output_embeddings())}
    sizes = [parameter.shape for parameter in model.parameters() if parameter.ndim > 1 and id(parameter) not in ends]
    config, itemsize = model.config.get_text_config(decoder=True), model.dtype.itemsize
    layer = 4 * config.hidden_size * itemsize
    widest = 3 * max(max(shape[-2:]) for shape in sizes) * itemsize
    packed = longest_packed(model, device)
    if config._attn_implementation == "eager" and packed is not None and longest > packed:
        cast = itemsize if itemsize < 4 else 0
        widest = max(widest, longest * config.num_attention_heads * (4 + 4 + cast))
    capped = getattr(config, "final_logit_softcapping", None) is not None
    logits = most_bytes(positions * config.vocab_size, itemsize, device, capped=capped)
    return int(max(positions * (layer + widest), positions * config.hidden_size * itemsize + logits))


@dataclass(frozen=True)
class _Prefix:
    """What responses of several batches begin with.

    Args:
        prompt: all ids up to its end.
        states: keys and values of its last part, which those before it in the list do not have.
    """

    prompt: tuple[int, ...]
    states: KeysAndValues
