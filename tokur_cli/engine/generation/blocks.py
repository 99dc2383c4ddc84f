"""Keys and values of a running batch in blocks: a prompt's stand once for all its responses, and no column is dead.

    block     responses that joined together, so that they are of one length, to prompts of like length
    prompts   (Q, key heads, P, d) a layer, padded on the right to the block's longest prompt
    own       (N, key heads, columns, d) a layer: a row a response, its tokens from the left, in pieces

All responses to a prompt are one query of its keys, as are the query heads that share a key head: no key or value is
repeated. On a CPU, a function in C attends to prompts and pieces where it can be compiled. PyTorch's operations do so
otherwise: their scores of the prompt and of the pieces are put together for one softmax and taken apart again.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Iterator, Sequence, Sized
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from tokur_cli.engine.body import input_device, logits_from, parts_of, run_body
from tokur_cli.engine.generation.attention import Prompts, attention_in_c
from tokur_cli.engine.uncertainty.packing import KeysAndValues, Layout, PackedAttention, attention_by
from tokur_cli.engine.uncertainty.prefixes import divide

# Columns that are added at once to the responses' keys and values, as a piece that is read whole: a product with a part
# of a tensor copies it on a CPU. Operations put what is full together to one piece: many small products take longer
_PIECE = {"cpu": 32}
_ACCELERATOR_PIECE = 128
# From so many responses to a prompt on, and with prompts so long, products of matrices are faster than one by one in C
_MANY, _LONG = 16, 256
_SHORTEST = 0.5  # of a block's longest prompt: what its shortest one has at least
_PROMPTS_KEPT = 0.75  # of a block's prompts: when fewer of them have unfinished responses, the others are dropped


class BlockCache:
    """The keys and values of a batch whose rows are responses, block after block.

    Args:
        model: of a family that can be packed whatever a response's length.
        context_length: positions of the model; None for any number.
    """

    def __init__(self, model: PreTrainedModel, context_length: int | None) -> None:
        self.model = model
        parts_of(model)  # seen now, since that runs it with its own attention
        self._last_position = (context_length or sys.maxsize) - 1
        self._blocks: list[_Block] = []
        self._positions: Tensor | None = None  # (R, 1) of the tokens that come next

    def join(self, prompts: Sequence[Sequence[int]], copies: Sequence[int]) -> Tensor:
        """Process prompts, what they have in common once, and append rows for their responses.

        Args:
            prompts: token ids; the longest first, so that there are few blocks.
            copies: rows that start from each.

        Returns:
            Logits (B, V) of what follows each prompt.
        """
        device = input_device(self.model)
        layout = Layout(divide({index: np.asarray(ids, dtype=np.int64) for index, ids in enumerate(prompts)}))
        places = [layout.where(index) for index in range(len(prompts))]
        ids = np.empty(layout.length, dtype=np.int64)
        for place, prompt in zip(places, prompts, strict=True):
            ids[place] = prompt
        states: KeysAndValues = {}
        with attention_by(self.model, PackedAttention(layout, keep=states)):
            outputs = run_body(
                self.model,
                input_ids=torch.from_numpy(ids[None]).to(device),
                position_ids=torch.from_numpy(layout.positions[None]).to(device),
                use_cache=False,
            )
        hidden = outputs["last_hidden_state"]
        last = hidden[:, torch.tensor([place[-1] for place in places], device=hidden.device)]
        with logits_from(self.model, outputs) as logits:
            following = logits(last)[0]
        self._append(places, copies, states)
        return following

    def resume(self, paths: Sequence[Sequence[KeysAndValues]], copies: Sequence[int]) -> None:
        """Append rows for responses whose keys and values are there, but for their last tokens'.

        Args:
            paths: of each, the longest first, keys and values (≥ 1, key heads, length, d) of its parts, of which the
                first row counts; several may have parts in common.
            copies: rows that start from each.
        """
        parts = {id(part): part for path in paths for part in path}
        lengths = [next(iter(part.values()))[0].shape[2] for part in parts.values()]
        ends = itertools.accumulate(lengths)
        where = {key: np.arange(end - length, end) for key, length, end in zip(parts, lengths, ends, strict=True)}
        states = {
            module: (
                torch.cat([part[module][0][:1] for part in parts.values()], dim=2),
                torch.cat([part[module][1][:1] for part in parts.values()], dim=2),
            )
            for module in next(iter(parts.values()))
        }
        self._append([np.concatenate([where[id(part)] for part in path]) for path in paths], copies, states)

    def _append(self, places: Sequence[npt.NDArray[np.int64]], copies: Sequence[int], states: KeysAndValues) -> None:
        """Append rows for what stands at these places of a row with these keys and values."""
        self._blocks += [_Block(places[low:high], copies[low:high], states) for low, high in _alike(places)]
        device = input_device(self.model)
        positions = torch.from_numpy(np.repeat([len(place) for place in places], copies)[:, None]).to(device)
        self._positions = positions if self._positions is None else torch.cat([self._positions, positions])

    def step(self, ids: Tensor) -> Tensor:
        """Process each row's next token.

        Args:
            ids: (R,) on the device of the embeddings.

        Returns:
            Logits (R, V) of what follows.
        """
        with attention_by(self.model, self._attend):
            outputs = self.model(input_ids=ids[:, None], position_ids=self._positions, use_cache=False)
        for block in self._blocks:
            block.advance()
        assert self._positions is not None
        self._positions.add_(1).clamp_(max=self._last_position)  # ended rows may run beyond it
        logits: Tensor = outputs.logits[:, -1]
        return logits

    def without(self, ended: Sequence[bool]) -> list[int]:
        """Return an order of the other rows for which ``gather`` moves little."""
        order: list[int] = []
        for first, block in self._with_first_rows():
            rows = range(first, first + block.rows)
            left = sum(not ended[row] for row in rows)
            movable = (row for row in rows[left:] if not ended[row])
            order += [next(movable) if ended[row] else row for row in rows[:left]]
        return order

    def gather(self, index: Sequence[int]) -> None:
        """Make row i what row ``index[i]`` is: rows stay in their block, in any order, repeated or left out."""
        assert self._positions is not None
        self._positions = self._positions[torch.tensor(index, device=self._positions.device, dtype=torch.long)]
        for first, block in self._with_first_rows():
            block.gather([row - first for row in index if first <= row < first + block.rows])
        self._blocks = [block for block in self._blocks if block.rows]

    def _with_first_rows(self) -> list[tuple[int, _Block]]:
        ends = itertools.accumulate((block.rows for block in self._blocks), initial=0)
        return list(zip(ends, self._blocks, strict=False))

    def _attend(
        self,
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: None,
        *,
        scaling: float | None = None,
        **_: Any,
    ) -> tuple[Tensor, None]:
        """Return (R, 1, heads, d) for a query (R, heads, 1, d), and keys and values (R, key heads, 1, d)."""
        scale = query.shape[-1] ** -0.5 if scaling is None else scaling
        rows = [slice(first, first + block.rows) for first, block in self._with_first_rows()]
        parts = [
            block.attend(module, query[own, :, 0], key[own, :, 0], value[own, :, 0], scale)
            for own, block in zip(rows, self._blocks, strict=True)
        ]
        output = parts[0] if len(parts) == 1 else torch.cat(parts)
        return output.to(query.dtype)[:, None], None


class _Block:
    """Responses of one length to prompts of like length.

    Args:
        places: for each prompt, where its positions stand in ``states``.
        copies: responses to each.
        states: keys and values (1, key heads, length, d) of a row of prompts.
    """

    def __init__(self, places: Sequence[npt.NDArray[np.int64]], copies: Sequence[int], states: KeysAndValues) -> None:
        self.length = 0
        self._lengths = [len(place) for place in places]
        longest = max(self._lengths)
        # Padded with their own: what is masked counts for nothing unless it is NaN, which should be no other's
        padded = [np.pad(place, (0, longest - len(place)), mode="edge") for place in places]
        columns = torch.from_numpy(np.stack(padded))
        self._prompts: KeysAndValues = {
            module: (_picked(keys, columns), _picked(values, columns)) for module, (keys, values) in states.items()
        }
        self._own: dict[nn.Module, list[tuple[Tensor, Tensor]]] = {}
        self._columns: dict[torch.device, tuple[Tensor, Tensor]] = {}
        self._set_owners([prompt for prompt, count in enumerate(copies) for _ in range(count)])

    @property
    def rows(self) -> int:
        """How many responses it has."""
        return len(self._owners)

    def gather(self, index: Sequence[int]) -> None:
        """Make response i what response ``index[i]`` is."""
        rearranged = _Rearrangement(index)
        for pieces in self._own.values():
            pieces[:] = [(rearranged(keys), rearranged(values)) for keys, values in pieces]
        owners = [self._owners[row] for row in index]
        live = sorted(set(owners))
        if len(live) < _PROMPTS_KEPT * len(self._lengths):
            self._lengths = [self._lengths[prompt] for prompt in live]
            longest = max(self._lengths, default=0)
            kept = _OnDevices(live)
            for module, pair in self._prompts.items():
                fewer = (states[kept.of(states), :, :longest].contiguous() for states in pair)
                self._prompts[module] = next(fewer), next(fewer)
            owners = [live.index(prompt) for prompt in owners]
        self._set_owners(owners)

    def advance(self) -> None:
        """Go on to the next column: on the devices, so that a step asks for the same as the one before it."""
        self.length += 1
        for device, (column, unused) in list(self._columns.items()):
            if self.length % _width(device) == 0:
                del self._columns[device]  # another piece begins
            else:
                column.add_(1)
                unused.index_fill_(0, column, 0.0)

    def _set_owners(self, owners: list[int]) -> None:
        """Note whose prompt each response continues: owners (N,)."""
        self._owners = owners
        self._continued = torch.tensor(self._lengths), torch.tensor(owners, dtype=torch.long)
        self._plans: dict[tuple[torch.device, int], _Plan] = {}

    def _plan(self, device: torch.device, key_heads: int) -> _Plan:
        """Return the plan for layers on a device: copied there once, not by each layer."""
        if (device, key_heads) not in self._plans:
            self._plans[device, key_heads] = _Plan.of(self._owners, self._lengths, key_heads, device)
        return self._plans[device, key_heads]

    def attend(self, module: nn.Module, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
        """Return (N, heads, d) for a query (N, heads, d), and keys and values (N, key heads, d)."""
        rows, key_heads, size = key.shape
        in_c = attention_in_c(query, key_heads)
        pieces = self._with_room(module, key, together=in_c is None)
        if in_c is None:
            return self._attend_by_operations(module, query, key, value, scale, pieces)
        prompts, (column, _) = Prompts(*self._prompts[module], *self._continued), self._next_column(key.device)
        if rows < _MANY * len(self._lengths) or max(self._lengths) < _LONG:
            return in_c(query, key, value, prompts, pieces, column, scale)
        plan = self._plan(query.device, key_heads)
        to_prompts = plan.ask(query.reshape(rows * key_heads, -1, size), prompts.keys)
        output = in_c(query, key, value, prompts, pieces, column, scale, to_prompts)
        return output.add_(plan.answer(to_prompts, prompts.values).view_as(output))

    def _attend_by_operations(
        self,
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        scale: float,
        pieces: Sequence[tuple[Tensor, Tensor]],
    ) -> Tensor:
        """Do what ``attend`` does wherever PyTorch runs."""
        rows, key_heads, size = key.shape
        column, unused = self._next_column(key.device)
        for piece, states in zip(pieces[-1], (key, value), strict=True):
            piece[:rows].index_copy_(2, column, states[:, :, None])
        own = [(keys[:rows].flatten(0, 1), values[:rows].flatten(0, 1)) for keys, values in pieces]
        # Unscaled, products may exceed float16; a power of two rounds nothing, the rest of the scale comes in float32
        power = 2.0 ** math.floor(math.log2(scale))
        query = query.reshape(rows * key_heads, -1, size) * power
        plan = self._plan(query.device, key_heads)
        prompt_keys, prompt_values = self._prompts[module]
        to_prompts = plan.ask(query, prompt_keys)
        parts = [to_prompts, *(torch.bmm(query, keys.transpose(1, 2)) for keys, _ in own)]
        scores = torch.cat(parts, dim=-1)  # (N · key heads, group, columns)
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
        if scale != power:
            scores *= scale / power
        scores[..., -len(unused) :].add_(unused)
        split = scores.softmax(-1).split([part.shape[-1] for part in parts], dim=-1)
        weights = [part.to(value.dtype) for part in split]
        output = plan.answer(weights[0], prompt_values).to(scores.dtype)
        for part, (_, values) in zip(weights[1:], own, strict=True):
            output += torch.bmm(part, values)
        return output.view(rows, -1, output.shape[-1])

    def _with_room(self, module: nn.Module, key: Tensor, *, together: bool) -> list[tuple[Tensor, Tensor]]:
        """Return keys and values (≥ N, key heads, columns, d) of all columns in pieces, with room for the next.

        Args:
            module: the layer.
            key: (N, key heads, d), of the next column.
            together: whether full pieces are put together to one.
        """
        width = _width(key.device)
        pieces = self._own.setdefault(module, [])
        rows, heads, size = key.shape
        if self.length % width == 0:
            if together and len(pieces) > 1:
                keys, values = (
                    torch.cat([states[:rows] for states in part], dim=2) for part in zip(*pieces, strict=True)
                )
                pieces[:] = [(keys, values)]
            else:  # what rows left behind is given back, as it is where pieces are put together
                pieces[:] = [(_fitted(keys, rows), _fitted(values, rows)) for keys, values in pieces]
            pieces.append((key.new_zeros(rows, heads, width, size), key.new_zeros(rows, heads, width, size)))
        return pieces

    def _next_column(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """Return where the next column belongs in the last piece, (1,), and what is added to that piece's scores.

        That is −∞ where a column is not in use.
        """
        if device not in self._columns:
            unused = torch.full((_width(device),), float("-inf"), device=device)
            unused[:1] = 0.0
            self._columns[device] = torch.zeros(1, dtype=torch.long, device=device), unused
        return self._columns[device]


class _Plan(NamedTuple):
    """Which response asks which prompt, on the device of a layer."""

    asking: Tensor  # (Q · key heads · most,) response and key head; those of the first response where there are fewer
    places: Tensor  # (N · key heads,) where they stand there
    padding: Tensor | None  # (Q · key heads, 1, P), −∞ beyond a prompt

    def ask(self, query: Tensor, keys: Tensor) -> Tensor:
        """Return products (N · key heads, group, P) of queries (N · key heads, group, d) and (Q, key heads, P, d)."""
        products = torch.bmm(self._by_prompt(query, keys), keys.flatten(0, 1).transpose(1, 2))
        if self.padding is not None:
            products += self.padding
        return self._by_response(products)

    def answer(self, weights: Tensor, values: Tensor) -> Tensor:
        """Return sums (N · key heads, group, d) by weights (N · key heads, group, P) of (Q, key heads, P, d)."""
        return self._by_response(torch.bmm(self._by_prompt(weights, values), values.flatten(0, 1)))

    def _by_prompt(self, states: Tensor, prompts: Tensor) -> Tensor:
        """(N · key heads, group, n) to (Q · key heads, most · group, n)."""
        asked = states.index_select(0, self.asking)
        return asked.view(prompts.shape[0] * prompts.shape[1], -1, states.shape[-1])

    def _by_response(self, states: Tensor) -> Tensor:
        """The other way round."""
        return states.view(len(self.asking), -1, states.shape[-1]).index_select(0, self.places)

    @classmethod
    def of(cls, owners: Sequence[int], lengths: Sequence[int], key_heads: int, device: torch.device) -> _Plan:
        """Return the plan of responses whose prompts are owners (N,), of lengths (Q,)."""
        asking: list[list[int]] = [[] for _ in lengths]  # a prompt's responses
        slots = []
        for row, prompt in enumerate(owners):
            slots.append(len(asking[prompt]))
            asking[prompt].append(row)
        most = max(map(len, asking), default=0)
        heads = torch.arange(key_heads)
        padded = torch.tensor([[*rows, *[0] * (most - len(rows))] for rows in asking])
        places = (torch.tensor(owners)[:, None] * key_heads + heads) * most + torch.tensor(slots)[:, None]
        padding = None
        if lengths and min(lengths) < max(lengths):
            beyond = torch.arange(max(lengths)) >= torch.tensor(lengths)[:, None]
            padding = torch.zeros(beyond.shape).masked_fill(beyond, float("-inf")).repeat_interleave(key_heads, dim=0)
            padding = padding[:, None].to(device)
        by_head = padded[:, None] * key_heads + heads[:, None]  # (Q, key heads, most)
        return cls(by_head.flatten().to(device), places.flatten().to(device), padding)


def _width(device: torch.device) -> int:
    return _PIECE.get(device.type, _ACCELERATOR_PIECE)


def _alike(prompts: Sequence[Sized]) -> Iterator[tuple[int, int]]:
    """Cut prompts into runs of like length: (first, end) of each."""
    first = 0
    for index in range(1, len(prompts) + 1):
        lengths = [len(prompt) for prompt in prompts[first : index + 1]]
        if index == len(prompts) or min(lengths) < _SHORTEST * max(lengths):
            yield first, index
            first = index


class _OnDevices:
    """Rows (n,), copied to a device once, not for each layer."""

    def __init__(self, rows: Sequence[int]) -> None:
        self._rows = torch.tensor(rows, dtype=torch.long)
        self._there: dict[torch.device, Tensor] = {}

    def of(self, states: Tensor) -> Tensor:
        """Return the rows where the states are."""
        if states.device not in self._there:
            self._there[states.device] = self._rows.to(states.device)
        return self._there[states.device]


class _Rearrangement:
    """Makes row i of states what row ``index[i]`` is."""

    def __init__(self, index: Sequence[int]) -> None:
        moved = [row for row, source in enumerate(index) if row != source]
        self._count, self._moves = len(index), bool(moved)
        self._index, self._moved, self._sources = map(_OnDevices, (index, moved, [index[row] for row in moved]))

    def __call__(self, states: Tensor) -> Tensor:
        """Return (n, …) from states (N, …): these themselves, unless half would be unused."""
        if not len(states) // 2 < self._count <= len(states):
            return states[self._index.of(states)]
        if self._moves:
            states[self._moved.of(states)] = states[self._sources.of(states)]
        return states


def _fitted(states: Tensor, rows: int) -> Tensor:
    """Return the first rows of states (N, …), without memory for more."""
    return states if len(states) == rows else states[:rows].clone()


def _picked(states: Tensor, columns: Tensor) -> Tensor:
    """Return (Q, key heads, P, d) from (1, key heads, length, d) and columns (Q, P)."""
    picked = states[0].transpose(0, 1)[columns.to(states.device)]  # (Q, P, key heads, d)
    return picked.transpose(1, 2).contiguous()
