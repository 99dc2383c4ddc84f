"""Keys and values of a running batch in pages, which responses that begin alike have in common.

    page      keys, and values, of some columns in every layer: (pages, key heads, columns, d) a layer
    table     (R, most) a row a response: its pages, one after another, of which the last may be filled in part

A prompt's full pages stand once for all its responses. Rows that join or leave change the table, and no key or value of
another is moved. A layer attends for all rows at once, whatever their prompts and lengths.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from tokur_cli.engine.body import input_device, logits_from, parts_of, run_body
from tokur_cli.engine.generation.attention import (
    Common,
    Rows,
    attention_by_operations,
    attention_by_varlen,
    attention_in_c,
)
from tokur_cli.engine.transfers import sent
from tokur_cli.engine.uncertainty.packing import KeysAndValues, Layout, PackedAttention, attention_by
from tokur_cli.engine.uncertainty.prefixes import divide
from tokur_cli.engine.varlen import PAGE, has_pages

_WIDTH = 16  # columns of a page where flash attention wants no more: short ones have more in common and waste less
# Of the pages, how many more than are needed are made at once: on a CPU, those that hold nothing take no memory
_SPARE, _ACCELERATOR_SPARE = 1, 1 / 8
# From so many responses on that begin with so many columns alike, products of matrices are faster than one by one in C
_MANY, _LONG = 16, 256


class PagedCache:
    """The keys and values of a batch whose rows are responses.

    Args:
        model: of a family that can be packed whatever a response's length.
        context_length: positions of the model; None for any number.

    Attributes:
        width: columns of a page.
    """

    def __init__(self, model: PreTrainedModel, context_length: int | None) -> None:
        self.model = model
        parts_of(model)  # seen now, since that runs it with its own attention
        self._last_position = (context_length or sys.maxsize) - 1
        self._by_varlen = _all_have_varlen(model)
        self.width = PAGE if self._by_varlen else _WIDTH
        self._pages: KeysAndValues = {}
        self._free: list[int] = []
        self._table = np.zeros((0, 1), dtype=np.int32)
        self._lengths = np.zeros(0, dtype=np.int32)  # (R,)
        self._on_devices: dict[torch.device, tuple[Tensor, Tensor]] = {}  # both of these
        self._rows: dict[torch.device, Rows] = {}  # of this step
        self._groups: dict[int, _Groups | None] = {}

    def join(self, prompts: Sequence[Sequence[int]], copies: Sequence[int]) -> Tensor:
        """Process prompts, what they have in common once, and append rows for their responses.

        Args:
            prompts: token ids.
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
                input_ids=sent(ids[None], device),
                position_ids=sent(layout.positions[None], device),
                use_cache=False,
            )
        hidden = outputs["last_hidden_state"]
        last = hidden[:, sent(np.array([place[-1] for place in places]), hidden.device)]
        with logits_from(self.model, outputs) as logits:
            following = logits(last)[0]
        self._append(places, copies, states)
        return following

    def resume(self, paths: Sequence[Sequence[KeysAndValues]], copies: Sequence[int]) -> None:
        """Append rows for responses whose keys and values are there, but for their last tokens'.

        Args:
            paths: of each, keys and values (≥ 1, key heads, length, d) of its parts, of which the first row counts;
                several may have parts in common.
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
        lengths = np.array([len(place) for place in places])
        whole, rest = np.divmod(lengths, self.width)
        self._reserve(int((whole + copies * (rest > 0)).sum()), states)
        rows: list[list[int]] = []
        filled: list[tuple[npt.NDArray[Any], npt.NDArray[np.int64]]] = []  # pages, and places that they are filled from
        for place, count, full, left in zip(places, copies, whole.tolist(), rest.tolist(), strict=True):
            common = self._taken(full)
            filled.append((np.repeat(common, self.width), place[: full * self.width]))
            for _ in range(count):
                own = self._taken(min(left, 1))
                rows.append([*common, *own])
                filled.append((np.repeat(own, left), place[full * self.width :]))
        columns = np.concatenate([np.arange(len(part)) % self.width for part, _ in filled])
        written = _OnDevices(*(np.concatenate(part) for part in zip(*filled, strict=True)), columns)
        for module, pair in states.items():
            for pages, part in zip(self._pages[module], pair, strict=True):
                page, source, column = written.of(part)
                pages[page, :, column] = part[0].transpose(0, 1)[source]
        wider = max(0, max(map(len, rows)) - self._table.shape[1])
        table = np.pad(self._table, ((0, len(rows)), (0, wider)))
        for row, own in zip(table[len(self._table) :], rows, strict=True):
            row[: len(own)] = own
        self._set_rows(table, np.concatenate([self._lengths, lengths.repeat(copies)]))

    def _set_rows(self, table: npt.NDArray[np.int32], lengths: npt.NDArray[Any]) -> None:
        self._table, self._lengths = np.ascontiguousarray(table), lengths.astype(np.int32)
        self._on_devices.clear()
        self._groups.clear()

    def _reserve(self, count: int, like: KeysAndValues) -> None:
        """See to it that so many pages are free, which look like these states."""
        if count <= len(self._free):
            return
        end = int(self._table.max(initial=0)) + 1  # what comes after it holds nothing
        old = len(next(iter(self._pages.values()))[0]) if self._pages else 1
        needed = old + count - len(self._free)
        on_cpu = next(iter(like.values()))[0].device.type == "cpu"
        new = needed + int(needed * (_SPARE if on_cpu else _ACCELERATOR_SPARE))
        for module, pair in like.items():
            grown = [self._empty(new, states) for states in pair]
            for pages, states in zip(grown, self._pages.get(module, ()), strict=False):
                pages[:end] = states[:end]
            self._pages[module] = grown[0], grown[1]
        self._free = [*range(new - 1, old - 1, -1), *self._free]

    def _empty(self, count: int, like: Tensor) -> Tensor:
        """Return pages for states (·, key heads, ·, d), in the order that attention wants; the first one is empty."""
        heads, size = like.shape[1], like.shape[3]
        if self._by_varlen:
            pages = like.new_empty(count, self.width, heads, size).transpose(1, 2)
        else:
            pages = like.new_empty(count, heads, self.width, size)
        pages[0] = 0.0
        return pages

    def _taken(self, count: int) -> list[int]:
        return [self._free.pop() for _ in range(count)]

    def step(self, ids: Tensor) -> Tensor:
        """Process each row's next token.

        Args:
            ids: (R,) on the device of the embeddings.

        Returns:
            Logits (R, V) of what follows.
        """
        self._advance()
        used = self._rows_on(ids.device).used
        positions = (used.long() - 1).clamp_(max=self._last_position)  # ended rows may run beyond it
        with attention_by(self.model, self._attend):
            outputs = self.model(input_ids=ids[:, None], position_ids=positions[:, None], use_cache=False)
        logits: Tensor = outputs.logits[:, -1]
        return logits

    def _advance(self) -> None:
        """Go on to the next column, on another page in rows whose last one is full."""
        full = np.flatnonzero(self._lengths % self.width == 0)
        if len(full):
            self._reserve(len(full), self._pages)
            place = self._lengths[full] // self.width
            if place.max() == self._table.shape[1]:
                self._table = np.pad(self._table, ((0, 0), (0, 1)))
            self._table[full, place] = self._taken(len(full))
            self._on_devices.clear()
        self._lengths += 1
        self._rows.clear()
        for _, used in self._on_devices.values():
            used += 1

    def _rows_on(self, device: torch.device) -> Rows:
        if device not in self._on_devices:
            self._on_devices[device] = sent(self._table.copy(), device), sent(self._lengths.copy(), device)
        if device not in self._rows:
            self._rows[device] = Rows(*self._on_devices[device], self.width)
        return self._rows[device]

    def gather(self, index: Sequence[int]) -> None:
        """Make row i what row ``index[i]`` is, each at most once; the pages of the others are free again."""
        before = self._table
        lengths = self._lengths[index]
        self._set_rows(before[index, : -(-int(lengths.max(initial=1)) // self.width)], lengths)
        self._free += np.setdiff1d(before, [0, *self._table.flat])[::-1].tolist()

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
        step = query[:, :, 0], key[:, :, 0], value[:, :, 0], self._pages[module], self._rows_on(key.device), scale
        if self._by_varlen:
            output = attention_by_varlen(*step)
        elif (in_c := attention_in_c(step[0], key.shape[1])) is None:
            output = attention_by_operations(*step)
        elif (groups := self._groups_of(key.shape[1])) is None:
            output = in_c(*step)
        else:
            keys, values = self._pages[module]
            common = groups.ask(step[0], keys)
            output = groups.answered(in_c(*step, common), common.products, values)
        return output.to(query.dtype)[:, None], None

    def _groups_of(self, key_heads: int) -> _Groups | None:
        if key_heads not in self._groups:
            self._groups[key_heads] = _Groups.of(self._table, self.width, key_heads)
        return self._groups[key_heads]


class _Groups(NamedTuple):
    """G groups of up to M responses that begin alike, and with what, on a CPU."""

    pages: Tensor  # (G · key heads, pages) where, among all pages' heads, those of a group's first columns stand
    asking: Tensor  # (G · key heads, M) response and key head; those of a group's last one where it has fewer
    answered_rows: Tensor  # (n,) responses and key heads that are in a group
    places: Tensor  # (n,) where they stand there
    member: Tensor  # see ``Common``
    columns: Tensor

    @classmethod
    def of(cls, table: npt.NDArray[np.int32], width: int, key_heads: int) -> _Groups | None:
        """Return the groups of rows (R, pages) that are worth it; None if none are."""
        groups = []
        for page, count in zip(*np.unique(table[:, :1], return_counts=True), strict=True):
            rows = np.flatnonzero(table[:, 0] == page)
            alike = (table[rows] == table[rows[:1]]).all(axis=0) & (table[rows[0]] > 0)
            pages = table[rows[0], : len(alike) if alike.all() else alike.argmin()]
            if count >= _MANY and len(pages) * width >= _LONG:
                groups.append((rows, pages))
        if not groups:
            return None
        most, longest = (max(map(len, part)) for part in zip(*groups, strict=True))
        heads = np.arange(key_heads)
        every = np.stack([np.pad(pages, (0, longest - len(pages))) for _, pages in groups])
        asking = np.stack([np.pad(rows, (0, most - len(rows)), mode="edge") for rows, _ in groups])
        members = np.concatenate([g * most + np.arange(len(rows)) for g, (rows, _) in enumerate(groups)])
        rows = np.concatenate([rows for rows, _ in groups])
        member, columns = np.zeros((2, len(table)), dtype=np.int32)
        member[rows] = members
        columns[rows] = np.concatenate([np.full(len(rows), len(pages) * width) for rows, pages in groups])
        places = (members[:, None] // most * key_heads + heads) * most + members[:, None] % most
        return cls(*map(torch.from_numpy, (
            (every.astype(np.int64)[:, None] * key_heads + heads[:, None]).reshape(-1, longest),
            (asking[:, None] * key_heads + heads[:, None]).reshape(-1, most),
            (rows[:, None] * key_heads + heads).flatten(),
            places.flatten(),
            member,
            columns,
        )))  # fmt: skip

    def ask(self, query: Tensor, keys: Tensor) -> Common:
        """Return the products of queries (R, heads, d) with the keys of the first columns."""
        asked = query.reshape(len(query) * keys.shape[1], -1, query.shape[-1])[self.asking].flatten(1, 2)
        return Common(torch.bmm(asked, self._picked(keys).mT), self.member, self.columns)

    def answered(self, output: Tensor, weights: Tensor, values: Tensor) -> Tensor:
        """Add to what C returned (R, heads, d) what the first columns' values make of their weights."""
        answers = torch.bmm(weights, self._picked(values)).view(self.asking.numel(), -1, values.shape[-1])
        output.view(-1, *answers.shape[1:]).index_add_(0, self.answered_rows, answers[self.places])
        return output

    def _picked(self, states: Tensor) -> Tensor:
        """(pages, key heads, width, d) to (G · key heads, columns, d)."""
        return states.flatten(0, 1)[self.pages].flatten(1, 2)


class _OnDevices:
    """Indices, copied to a device once, not for each layer."""

    def __init__(self, *indices: npt.NDArray[np.int64]) -> None:
        self._indices = indices
        self._there: dict[torch.device, list[Tensor]] = {}

    def of(self, states: Tensor) -> list[Tensor]:
        """Return them where the states are."""
        if states.device not in self._there:
            self._there[states.device] = [sent(index.astype(np.int64), states.device) for index in self._indices]
        return self._there[states.device]


def _all_have_varlen(model: PreTrainedModel) -> bool:
    config = model.config
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    devices = {input_device(model), *(weight.device for weight in model.parameters() if weight.is_cuda)}
    return all(has_pages(device, model.dtype, size) for device in devices)
