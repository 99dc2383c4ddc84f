"""Teacher-forced scoring: tokenized responses in, per-token quantities out, by batches that fit the memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from transformers import Cache, PreTrainedModel
from transformers.utils.generic import ModelOutput

from tokur_cli.engine.forward.attention import quick_attention
from tokur_cli.engine.forward.batching import HalvingBatches, pad, pass_positions
from tokur_cli.engine.forward.body import cache_argument, empty_cache, input_device, logits_from, parts_of, run_body
from tokur_cli.engine.forward.hooks import Draws, perturbed
from tokur_cli.engine.forward.prefix_tree import Ids, Node, PrefixTree, divide, has_latent_attention
from tokur_cli.engine.forward.rope import rescaled_beyond
from tokur_cli.engine.scoring.quantities import token_quantities
from tokur_cli.records.errors import TokurError

SamplingMode = Literal["stepwise", "shared", "joint"]
Quantities = dict[str, npt.NDArray[Any]]

_SHARING = 20  # positions that it costs to give rows the keys of what they begin with, and masks
PLAIN_LAYERS = {"DynamicLayer", "DummyLayer"}
"""transformers' layers of keys and values; by name, since the second, which keeps nothing, is not in older versions."""


@dataclass(frozen=True)
class TokenizedResponse:
    """What the engine scores."""

    prompt_ids: Sequence[int]  # P ≥ 1 token ids before the response
    response_ids: Sequence[int]  # T ≥ 1 token ids of the response

    @property
    def length(self) -> int:
        """Positions of a forward pass: the response's last token predicts nothing that is asked for."""
        return len(self.prompt_ids) + len(self.response_ids) - 1

    @property
    def prompt_end(self) -> int:
        """The first position whose state predicts a token of the response."""
        return len(self.prompt_ids) - 1

    @cached_property
    def identity(self) -> Ids:
        """The ``identity_of`` each position of a forward pass, (length,)."""
        return identity_of(self.prompt_ids, self.response_ids[:-1])


def identity_of(prompt_ids: Sequence[int], response_ids: Sequence[int]) -> Ids:
    """Return what the state at each position depends on, the positions before it apart, (L,).

    It is 2³² times its token id, plus its decoding step, of which the first is 1, and 0 stands for the prompt.
    """
    ids = np.array([*prompt_ids, *response_ids], dtype=np.int64)
    return ids << 32 | np.maximum(np.arange(len(ids)) - len(prompt_ids) + 1, 0)


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
        min_saving: positions that are computed once for several responses, if there are so many that this saves; None
            for those that the pass and its keys cost.
        options: ``estimator``, ``on_demand``, ``compare`` and ``alternatives`` of ``token_quantities``.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        draws: Draws | None,
        *,
        sampling: SamplingMode = "stepwise",
        batch_tokens: int = 8192,
        min_saving: int | None = None,
        **options: Any,
    ) -> None:
        self.model, self.draws, self.sampling = model, draws, sampling
        self._options = options
        self._is_joint = sampling == "joint" and draws is not None
        self.device = input_device(model)
        parts_of(model)  # seen before draws are added to what its projections put out
        self.num_rows = 1 + (draws.num_draws if draws else 0)
        self._tree = PrefixTree(model, self.forward)
        self._longest_shared = rescaled_beyond(model)
        of_pass = pass_positions(self.device.type, self.num_rows)
        self.min_saving = of_pass + _SHARING if min_saving is None else min_saving
        self._batches = HalvingBatches(batch_tokens // self.num_rows, of_pass, self._tree.clear, self._longest_shared)

    @cached_property
    @torch.inference_mode()
    def shares_prefixes(self) -> bool:
        """Whether several rows can go on from one row's keys and values.

        They cannot where a state of a text is kept that is no key, in latent attention, and where nothing is kept.
        """
        cache = empty_cache(self.model)
        if has_latent_attention(self.model) or {type(layer).__name__ for layer in cache.layers} - PLAIN_LAYERS:
            return False
        self.forward([identity_of([0], [])], cache)
        return cache.get_seq_length() == 1

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
            shape, or with an error where memory does not suffice for the response alone.
        """
        asked = [True] * len(responses) if wanted is None else wanted
        lengths = {index: response.length for index, response in enumerate(responses)}
        for batch, path in self.batches(responses):
            if any(asked[index] for index in batch):

                @torch.inference_mode()
                def compute(indices: Sequence[int], path: tuple[Node, ...] = path) -> list[Quantities]:
                    some = [responses[index] for index in indices]
                    return self.quantities_of(some, *self.states(some, path))

                results = self._batches.results(batch, lengths, compute)
                yield from ((index, result) for index, result in results if asked[index])

    def batches(self, responses: Sequence[TokenizedResponse]) -> Iterator[tuple[list[int], tuple[Node, ...]]]:
        """Yield batches of a window, each with the path of the tree from which all of its responses go on."""
        most = self._longest_shared if self.shares_prefixes else 0
        ends = [response.prompt_end for response in responses]
        sharing = {index: one.identity for index, one in enumerate(responses) if one.length <= most}
        roots = divide(sharing, ends, self.min_saving)
        alone = [Node(0, one.length, (index,)) for index, one in enumerate(responses) if one.length > most]
        yield from self._in_turn([*alone, *roots], ())

    def _in_turn(self, nodes: Sequence[Node], path: tuple[Node, ...]) -> Iterator[tuple[list[int], tuple[Node, ...]]]:
        """Yield the batches below a path in the order of the responses, those of an inner node together.

        So each batch gives the next response at the latest, but for those below its node. Batches still to come are
        smaller when memory was too little.
        """
        left = {min(node.sequence_ids): node for node in nodes}
        while left:
            first = min(left)
            if left[first].children:
                node = left.pop(first)
                yield from self._in_turn(node.children, (*path, node))
                continue
            leaves = {index: node.last - node.first for index, node in left.items() if not node.children}
            cuts = self._batches.padded(leaves, path[-1].last if path else 0)
            batch = next(batch for batch in cuts if first in batch)
            yield batch, path
            for index in batch:
                del left[index]

    def states(self, responses: Sequence[TokenizedResponse], path: tuple[Node, ...] = ()) -> tuple[Tensor, ModelOutput]:
        """Return the states (1 + M, N, d) that predict the responses' tokens, and what the body put out.

        Args:
            responses: the responses, as padded rows; causal attention keeps what is read from the padding.
            path: what they begin with.
        """
        first = path[-1].last if path else 0
        if path:
            self._tree.go_to(path, responses[0].identity, self._batches.batch_tokens)
        identities = [response.identity[first:] for response in responses]
        outputs = self.forward(identities, self._tree.cache() if path else None)
        rows = outputs["last_hidden_state"].unflatten(0, (self.num_rows, -1))  # (1 + M, B, L, d)
        hidden = []
        start = min(response.prompt_end for response in responses)
        before = self._tree.states(start) if start < first else rows[:, 0, :0]
        for row, response in enumerate(responses):
            hidden.append(before[:, response.prompt_end - start :])
            hidden.append(rows[:, row, max(0, response.prompt_end - first) : response.length - first])
        return torch.cat(hidden, dim=1), outputs

    def forward(self, identities: Sequence[Ids], cache: Cache | None) -> ModelOutput:
        """Run the model's body under the mean weights and the draws: its rows are ((1 + M)·B, L), member-major.

        Args:
            identities: of the positions of each of B rows, (L,) or fewer; they are padded on the right.
            cache: what they come after, which takes them up.
        """
        rows = pad(identities, self.device)
        ids, steps = (rows >> 32).repeat(self.num_rows, 1), rows % 2**32 - 1
        options = {} if cache is None else cache_argument(self.model, cache)
        with perturbed(self.draws, steps if self.sampling == "stepwise" else None), quick_attention():
            return run_body(self.model, input_ids=ids, use_cache=cache is not None, **options)

    def quantities_of(
        self, responses: Sequence[TokenizedResponse], hidden: Tensor, outputs: ModelOutput
    ) -> list[Quantities]:
        """Return the quantities of responses from the states (1 + M, N, d) that predict their tokens.

        Args:
            responses: the responses.
            hidden: the states, where the model's head computes.
            outputs: what the body puts out, of any batch: what the model's head is given beside the states.
        """
        counts = [len(response.response_ids) for response in responses]
        targets = torch.tensor([token for response in responses for token in response.response_ids])
        before = torch.zeros(len(counts), self.num_rows - 1, dtype=torch.float64) if self._is_joint else None
        with logits_from(self.model, outputs) as logits:
            found = token_quantities(logits, hidden, targets.to(hidden.device), counts, before=before, **self._options)
        found.pop("draw_log_p", None)
        divided = {name: values.split(counts) for name, values in found.items()}
        return [{name: values[row].numpy() for name, values in divided.items()} for row in range(len(counts))]

    def score_next(self, logits: Tensor, tokens: Tensor, scored: Sequence[Sequence[Quantities]]) -> list[Quantities]:
        """Return what the next token of each of R responses has in the whole response, up to floating point.

        In a decoder with a cache, a step's query meets the keys that earlier tokens got under the draws of their own
        steps: this is what ``stepwise`` means.

        Args:
            logits: (1 + M, R, V) that they are chosen from.
            tokens: (R,) their ids.
            scored: of each response, what this function returned of its tokens so far.

        Returns:
            Quantities of one token each; ``draw_log_p`` is of the response so far, (M,) float64.
        """
        before = None
        if self._is_joint:
            none = np.zeros(self.num_rows - 1)
            before = torch.from_numpy(np.stack([one[-1]["draw_log_p"] if one else none for one in scored]))
        found = token_quantities(lambda rows: rows, logits, tokens, [1] * len(scored), before=before, **self._options)
        if before is not None:
            found["draw_log_p"] = before + found["draw_log_p"]
        return [{name: values[row].numpy() for name, values in found.items()} for row in range(len(scored))]
