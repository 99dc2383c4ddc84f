"""What responses have in common is computed once: a tree of prefixes over transformers' own cache.

    header ┬ question 1 ┬ response 1
           │            └ response 2
           └ question 2 ─ response 3

A node's positions go through the model once, after those of its parent, whose keys and values it is given. Of one path
of the tree these are kept: batches come in an order in which each goes on from the path of the one before it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from transformers import Cache, PreTrainedModel
from transformers.cache_utils import DynamicLayer
from transformers.utils.generic import ModelOutput

from tokur_cli.engine.forward.body import empty_cache

MIN_PIECE = 256
PIECES_IN_BUDGET = 8
"""A long node is computed in pieces of a fraction of the budget, ``MIN_PIECE`` at least. They end at the same places
whatever follows, so that another window of responses, which may go on otherwise, can go on from them."""

Ids = npt.NDArray[np.int64]


class Node(NamedTuple):
    """Positions ``first … last`` that some sequences have in common, the last excluded."""

    first: int
    last: int
    sequence_ids: tuple[int, ...]
    children: tuple[Node, ...] = ()  # how they go on after ``last``; none for a leaf, which is the end of one sequence


def divide(sequences: Mapping[int, Ids], prompt_ends: Sequence[int], min_saving: int) -> tuple[Node, ...]:
    """Return the roots of the tree of sequences, in which each ends with a leaf of one position or more.

    Args:
        sequences: by id; non-negative numbers that stand for what a position is computed from.
        prompt_ends: positions of each prompt. Where it is worth it, a node ends there, and may serve another window.
        min_saving: how many positions an inner node saves, or more: fewer are not worth a pass of their own.
    """
    order = sorted(sequences, key=lambda index: (sequences[index].astype(">i8").tobytes(), index))
    common = [0, *(agreement(sequences[a], sequences[b]) for a, b in itertools.pairwise(order))]

    def nodes(low: int, high: int, first: int) -> Iterator[Node]:
        ids = tuple(order[low:high])
        if len(ids) == 1:
            yield Node(first, len(sequences[ids[0]]), ids)
            return
        agreed = min(common[low + 1 : high])
        shared = min(agreed, *(len(sequences[index]) - 1 for index in ids))
        for last in (min(shared, *(prompt_ends[index] for index in ids)), shared):
            if (len(ids) - 1) * (last - first) >= min_saving:
                yield Node(first, last, ids, tuple(nodes(low, high, last)))
                return
        cuts = [low, *(place for place in range(low + 1, high) if common[place] == agreed), high]
        for begin, end in itertools.pairwise(cuts):
            yield from nodes(begin, end, first)

    return tuple(nodes(0, len(order), 0)) if order else ()


def agreement(one: Ids, other: Ids) -> int:
    """Return how many positions from the start two sequences agree in."""
    length = min(len(one), len(other))
    differs = one[:length] != other[:length]
    return int(differs.argmax()) if differs.any() else length


def has_latent_attention(model: PreTrainedModel) -> bool:
    """Return whether keys are computed again from what is kept: a projection then sees more than a pass's positions."""
    return getattr(model.config.get_text_config(decoder=True), "kv_lora_rank", None) is not None


class PrefixTree:
    """The keys, values and states of one path of the tree.

    Args:
        model: the model.
        forward: from rows of identities (L,) and a cache to what the body puts out under 1 + M rows.
    """

    def __init__(self, model: PreTrainedModel, forward: Callable[[Sequence[Ids], Cache], ModelOutput]) -> None:
        self.model, self._forward = model, forward
        self.clear()

    def clear(self) -> None:
        """Give up all that is kept."""
        self._identity: Ids = np.empty(0, dtype=np.int64)
        self._pieces: list[tuple[int, Tensor]] = []  # where a pass ended, and its states (1 + M, n, d)
        self._cache = empty_cache(self.model)

    def go_to(self, nodes: Sequence[Node], identity: Ids, budget: int) -> None:
        """Compute what is missing of a path.

        Args:
            nodes: of the path, from a root on.
            identity: of a sequence at its end, as in ``divide``.
            budget: positions in a batch, a fraction of which goes through the model at once.
        """
        piece = max(MIN_PIECE, budget // PIECES_IN_BUDGET)
        cuts = [(*range((node.first // piece + 1) * piece, node.last, piece), node.last) for node in nodes]
        ends = [*itertools.chain.from_iterable(cuts)]
        agreed = agreement(self._identity, identity)
        same = [end == done <= agreed for (done, _), end in zip(self._pieces, ends, strict=False)]
        known = [*same, False].index(False)
        del self._pieces[known:]
        layers: list[Any] = self._cache.layers
        for layer in layers:
            if layer.keys is not None:  # else it attends to another's
                layer.keys, layer.values = layer.keys[:, :, : self.end], layer.values[:, :, : self.end]
        self._identity = identity[: ends[-1]]
        for end in ends[known:]:
            outputs = self._forward([identity[self.end : end]], self._cache)
            self._pieces.append((end, outputs["last_hidden_state"]))

    def cache(self) -> Cache:
        """Return a cache from which any number of rows go on, under each of the 1 + M."""
        cache = empty_cache(self.model)
        layers: list[Any] = self._cache.layers
        for place, layer in enumerate(layers):
            if layer.keys is not None:
                cache.layers[place] = _LeafLayer(layer.keys, layer.values)
        return cache

    @property
    def end(self) -> int:
        """How many positions there are."""
        return self._pieces[-1][0] if self._pieces else 0

    def states(self, first: int) -> Tensor:
        """Return the states (1 + M, n, d) of all positions from one on."""
        return torch.cat([states for _, states in self._pieces], dim=1)[:, first:]


class _LeafLayer(DynamicLayer):
    """One layer's keys and values of a prefix, given to each row of a batch, and the rows' own, which are not kept.

    Args:
        keys: (1 + M, heads, columns, d).
        values: the same of the values.
    """

    keys: Tensor
    values: Tensor

    def __init__(self, keys: Tensor, values: Tensor) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.keys, self.values, self.is_initialized = keys, values, True

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """Return keys and values of (1 + M)·B rows, the prefix's first."""
        return self._after(self.keys, key_states), self._after(self.values, value_states)

    def _after(self, prefix: Tensor, own: Tensor) -> Tensor:
        columns = prefix.shape[2]
        whole = own.new_empty(*own.shape[:2], columns + own.shape[2], own.shape[3])
        whole.unflatten(0, (len(prefix), -1))[:, :, :, :columns] = prefix[:, None]
        whole[:, :, columns:] = own
        return whole
