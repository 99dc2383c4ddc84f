"""Teacher-forced scoring: tokenized responses in, per-token quantities out, by batches that fit the memory."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from transformers import Cache, PreTrainedModel
from transformers.utils.generic import ModelOutput

from tokur_cli.engine.forward.batching import HalvingBatches
from tokur_cli.engine.forward.body import cache_argument, input_device, logits_from, parts_of, run_body
from tokur_cli.engine.forward.hooks import Draws, perturbed
from tokur_cli.engine.forward.prefix_tree import LEAST_SAVING, Ids, Node, Path, divide, shares_prefixes
from tokur_cli.engine.forward.rope import rescaling
from tokur_cli.engine.scoring.quantities import Estimator, token_quantities
from tokur_cli.records.errors import TokurError

SamplingMode = Literal["stepwise", "shared", "joint"]
Quantities = dict[str, npt.NDArray[Any]]


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

    @property
    def prompt_end(self) -> int:
        """The first position whose state predicts a token of the response."""
        return len(self.prompt_ids) - 1

    @cached_property
    def input_ids(self) -> Ids:
        """The ids that a forward pass is given, (length,)."""
        return np.array([*self.prompt_ids, *self.response_ids[:-1]], dtype=np.int64)

    @property
    def steps(self) -> Ids:
        """The decoding step of each position, (length,): −1 in the prompt."""
        return np.maximum(np.arange(self.length) - len(self.prompt_ids), -1)

    def identity(self) -> Ids:
        """Return what the state at each position depends on, the positions before it apart: its id and step."""
        return self.input_ids << 32 | (self.steps + 1)


class Scorer:
    """Scores responses under the mean weights and M draws in one set of forward passes.

    Args:
        model: the model, in evaluation mode.
        draws: the draws; None for the quantities of the mean weights alone.
        sampling: how draws and decoding steps go together: ``stepwise`` (a fresh draw per response token, the paper's
            Assumption 3.1, read so that earlier tokens' keys come from the draws of their own steps and the prompt's
            from one fixed draw), ``shared`` (one draw per member for the whole response) or ``joint`` (the same draws,
            each weighted by the probability it gave to the response so far).
        batch_tokens: positions in a batch, all 1 + M rows counted; halved for good when memory does not suffice.
        estimator: of the epistemic uncertainty, see ``token_quantities``.
        on_demand: which of its further quantities are computed, such as ``eu_fisher``.
        compare: whether the comparisons of ``token_quantities`` are computed too.
        alternatives: how many of the likeliest tokens are given of each token; 0 for none.
        least_saving: positions that are computed once for several responses, if there are so many that this saves.
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
        least_saving: int = LEAST_SAVING,
    ) -> None:
        self.model = model
        self.draws = draws
        self.sampling = sampling
        self.estimator = estimator
        self.on_demand = on_demand
        self.compare = compare
        self.alternatives = alternatives
        self.least_saving = least_saving
        self.device = input_device(model)
        parts_of(model)  # seen before draws are added to what its projections put out
        self.num_rows = 1 + (draws.num_draws if draws else 0)
        self.shares_prefixes = shares_prefixes(model)
        self._path = Path(model, self._forward)
        self._rescaling = rescaling(model)
        self._halving = HalvingBatches(
            batch_tokens // self.num_rows,
            make_room=self._path.clear,
            apart_from=self._rescaling.beyond if self._rescaling else None,
        )

    @property
    def batch_tokens(self) -> int:
        """Positions in a batch, of one of the 1 + M rows."""
        return self._halving.batch_tokens

    def score(
        self, responses: Sequence[TokenizedResponse], wanted: Sequence[bool] | None = None
    ) -> Iterator[tuple[int, Quantities | TokurError]]:
        """Yield (index, quantities) for every wanted response, in any order.

        Batches are formed from all ``responses``, so what is wanted decides which batches run but not what is in
        them: numbers are the same to the last bit whichever of them are asked for.

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
        for batch, path in self.batches(responses, lengths):
            if wanted is None or any(wanted[index] for index in batch):

                def compute(indices: Sequence[int], path: tuple[Node, ...] = path) -> list[Quantities]:
                    return self._score_batch([responses[index] for index in indices], path)

                for index, result in self._halving.results(batch, lengths, compute):
                    if wanted is None or wanted[index]:
                        yield index, result

    def batches(
        self, responses: Sequence[TokenizedResponse], lengths: Mapping[int, int]
    ) -> Iterator[tuple[list[int], tuple[Node, ...]]]:
        """Yield batches of those responses that have lengths here, see ``cut``."""
        beyond = self._rescaling.beyond if self._rescaling else None
        sharing = [index for index, length in lengths.items() if beyond is None or length <= beyond]
        return cut(responses, lengths, self._halving, sharing if self.shares_prefixes else (), self.least_saving)

    @torch.inference_mode()
    def _score_batch(self, responses: Sequence[TokenizedResponse], path: tuple[Node, ...]) -> list[Quantities]:
        """Score responses that go on from a path."""
        hidden, outputs = self.states(responses, path)
        return self.quantities_of(responses, hidden, outputs)

    def states(self, responses: Sequence[TokenizedResponse], path: tuple[Node, ...] = ()) -> tuple[Tensor, ModelOutput]:
        """Return the states (1 + M, N, d) that predict the responses' tokens, and what the body put out.

        Args:
            responses: the responses, as padded rows; causal attention keeps what is read from the padding.
            path: what they begin with.
        """
        if path:
            self._go_to(path, responses[0])
        first = path[-1].last if path else 0
        longest = max(response.length for response in responses) - first
        ids = np.zeros((len(responses), longest), dtype=np.int64)
        steps = np.full_like(ids, -1)
        for row, response in enumerate(responses):
            ids[row, : response.length - first] = response.input_ids[first:]
            steps[row, : response.length - first] = response.steps[first:]
        outputs = self._forward(ids, steps, self._path.cache(len(responses)) if path else None)
        rows = outputs["last_hidden_state"].unflatten(0, (self.num_rows, -1))  # (1 + M, B, L, d)
        hidden = []
        for row, response in enumerate(responses):
            if path:
                hidden += self._path.states(response.prompt_end)
            hidden.append(rows[:, row, max(0, response.prompt_end - first) : response.length - first])
        return torch.cat(hidden, dim=1), outputs

    def _go_to(self, path: tuple[Node, ...], response: TokenizedResponse) -> None:
        ids, steps = response.input_ids, response.steps
        self._path.go_to(path, response.identity(), ids, steps, self._halving.batch_tokens)

    def _forward(self, ids: Ids, steps: Ids, cache: Cache | None) -> ModelOutput:
        """Run the model's body under the mean weights and the draws: its rows are ((1 + M)·B, L), member-major."""
        at = torch.from_numpy(steps).to(self.device) if self.sampling == "stepwise" else None
        options = {} if cache is None else cache_argument(self.model, cache)
        with perturbed(self.draws, at, int(steps.max()) + 1) if self.draws else nullcontext():
            rows = torch.from_numpy(ids).to(self.device).repeat(self.num_rows, 1)
            return run_body(self.model, input_ids=rows, use_cache=cache is not None, **options)

    def quantities_of(
        self, responses: Sequence[TokenizedResponse], hidden: Tensor, outputs: ModelOutput
    ) -> list[Quantities]:
        """Return the quantities of responses from the states (1 + M, N, d) that predict their tokens.

        Args:
            responses: the responses.
            hidden: the states, where the model's head computes.
            outputs: what the body puts out, of any batch: what the model's head is given beside the states.
        """
        counts = np.array([len(response.response_ids) for response in responses])
        ends = np.cumsum(counts)
        targets = torch.tensor([token for response in responses for token in response.response_ids])
        with logits_from(self.model, outputs) as logits:
            quantities = token_quantities(
                logits,
                hidden,
                targets.to(hidden.device),
                torch.from_numpy(np.repeat(ends - counts, counts)),
                joint=self.sampling == "joint" and self.draws is not None,
                estimator=self.estimator,
                on_demand=self.on_demand,
                compare=self.compare,
                alternatives=self.alternatives,
            )
        arrays = {name: values.numpy() for name, values in quantities.items()}
        return [
            {name: values[end - count : end] for name, values in arrays.items()}
            for count, end in zip(counts, ends, strict=True)
        ]

    def quantities_of_logits(self, logits: Tensor, targets: Tensor, log_weights: Tensor | None) -> Quantities:
        """Return the quantities of N tokens of as many responses.

        Args:
            logits: (1 + M, N, V) that they are chosen from.
            targets: (N,) their ids.
            log_weights: (M, N) as for ``token_quantities``.
        """
        quantities = token_quantities(
            lambda rows: rows,
            logits,
            targets,
            torch.arange(len(targets)),
            log_weights=log_weights,
            estimator=self.estimator,
            on_demand=self.on_demand,
            compare=self.compare,
            alternatives=self.alternatives,
        )
        return {name: values.numpy() for name, values in quantities.items()}


def cut(
    responses: Sequence[TokenizedResponse],
    lengths: Mapping[int, int],
    size: HalvingBatches,
    sharing: Collection[int],
    least_saving: int = LEAST_SAVING,
) -> Iterator[tuple[list[int], tuple[Node, ...]]]:
    """Yield batches, each with the path of the tree from which all of its responses go on.

    Args:
        responses: a window of the stream.
        lengths: of those that are scored, by index.
        size: how many positions a batch may have.
        sharing: those of them that may go on from what they have in common.
        least_saving: see ``Scorer``.
    """
    ends = {index: responses[index].prompt_end for index in lengths}
    roots = divide({index: responses[index].identity() for index in sharing}, ends, least_saving)
    alone = [Node(0, lengths[index], (index,), ends[index]) for index in lengths.keys() - set(sharing)]
    yield from _in_turn([*alone, *roots], (), size)


def _in_turn(
    nodes: Sequence[Node], path: tuple[Node, ...], size: HalvingBatches
) -> Iterator[tuple[list[int], tuple[Node, ...]]]:
    """Yield the batches below a path in the order of the responses, those of an inner node together.

    So each batch gives the next response at the latest, but for those below its node. Batches still to come are cut
    again when memory was too little.
    """
    left = {node.sequence_ids[0]: node.last - node.first for node in nodes if not node.children}
    inner = {min(node.sequence_ids): node for node in nodes if node.children}
    while left or inner:
        budget = size.batch_tokens
        leaves = {min(batch): batch for batch in size.padded(left, path[-1].last if path else 0)}
        for first in sorted(leaves.keys() | inner.keys()):
            if first in inner:
                node = inner.pop(first)
                yield from _in_turn(node.children, (*path, node), size)
            else:
                yield leaves[first], path
                for index in leaves[first]:
                    del left[index]
            if size.batch_tokens != budget:
                break
