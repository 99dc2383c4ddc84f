"""A batch without padding: one row of positions per draw, in which common prefixes stand once.

    positions   0 1 2 3 4 5 6 7 8 9        0–2 a prefix that both responses share
    stretch     a a a b b b b c c c        3–6 the rest of the first, 7–9 that of the second

On a GPU, each stretch attends to its path, the keys and values up to its own, all of them by one kernel (``varlen``).
Paths with something in common are copied first, since that costs less there than what follows: into pages, of which
those that are full stand once for all paths, or each path as a whole where the kernel takes no pages.

On a CPU, attention is computed by stretches with the fused kernel that returns the logarithm of its softmax's
denominator: each stretch attends to itself (causally), and to each stretch before it all that comes after that one
attends as one long query. With o_i the output of a part and l_i its logarithm, the whole is Σ_i exp(l_i − l) o_i with
l = log Σ_i exp(l_i). No key or value is copied for a response.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from tokur_cli.engine.rotary import rescaled_beyond
from tokur_cli.engine.transfers import sent
from tokur_cli.engine.uncertainty.prefixes import Stretch
from tokur_cli.engine.varlen import (
    PAGE,
    Ends,
    Pages,
    attend_to_pages,
    attend_within,
    has_pages,
    has_varlen,
    takes_heads,
)

KeysAndValues = dict[nn.Module, tuple[Tensor, Tensor]]
_Places = npt.NDArray[np.int64]

# Families whose every position sees the others through transformers' attention interface alone
# fmt: off
FAMILIES = frozenset({
    "arcee", "cohere", "cohere2", "ernie4_5", "exaone4", "gemma", "gemma3_text", "glm", "glm4", "gpt2", "gpt_neox",
    "granite", "helium", "hunyuan_v1_dense", "llama", "ministral", "mistral", "mixtral", "nemotron", "olmo",
    "olmo2", "olmo3", "olmoe", "phi", "phi3", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "seed_oss", "smollm3",
    "stablelm", "starcoder2",
})
# fmt: on
_ATTENTION = "tokur_packed"
_BY_STRETCH = ("cpu",)  # devices on which many small operations cost no more than few large ones
_GROUPS_ON_CPU = torch.__version__ >= "2.9"  # (compared as versions) the CPU kernel took fewer key heads from then on
_COPIED_BYTES = 1 << 30  # of keys and values at a time, in a layer: less than what the vocabulary will take


def longest_packed(model: PreTrainedModel, device: str | None = None) -> int | None:
    """Return how long a response may be to be packed, prompt included: None for any length, 0 for none.

    Not packed are families outside ``FAMILIES`` (those with attention biases, capped attention logits, recurrence or
    attention code of their own), responses longer than a sliding window, those for which the rotary embedding would be
    rescaled, and heads that a GPU's kernels do not take or get wrong.

    Args:
        model: the model, whose weights need not be there.
        device: the kind that it will be on; None for the one that it is on.
    """
    config = model.config
    device = device or model.device.type
    if config.model_type not in FAMILIES or device not in ("cpu", "cuda"):
        return 0
    if not type(model).__module__.startswith("transformers."):
        return 0  # a model's own code may take a known family's name
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    if device == "cuda" and not takes_heads(head):
        return 0
    gpus = {weight.device for weight in model.parameters() if weight.is_cuda}
    if not all(has_varlen(gpu, model.dtype, head) for gpu in gpus):
        return 0
    limits = []
    types = getattr(config, "layer_types", None)
    if getattr(config, "sliding_window", None) and (types is None or "sliding_attention" in types):
        limits.append(int(config.sliding_window))
    if (beyond := rescaled_beyond(model)) is not None:
        limits.append(beyond)
    return min(limits, default=None)


@dataclass(frozen=True)
class _Span:
    """A stretch in the row: itself from ``begin`` to ``end``, what comes after it up to ``after``."""

    begin: int
    end: int
    after: int


class Layout:
    """Where the stretches of a batch stand.

    Args:
        stretches: what the batch's sequences have in common, as ``divide`` returns it.

    Attributes:
        length: positions in the row.
        sequences, positions: (length,) a sequence, and the position in it, that each position in the row stands for.
    """

    def __init__(self, stretches: Sequence[Stretch]) -> None:
        self.spans: list[_Span] = []
        self._runs: dict[int, list[tuple[int, int]]] = {}
        sequences, positions = [], []
        self.length = 0

        def place(stretch: Stretch) -> None:
            begin = self.length
            count = stretch.last - stretch.first
            self.length += count
            sequences.append(np.full(count, stretch.members[0]))
            positions.append(np.arange(stretch.first, stretch.last))
            for member in stretch.members:
                self._runs.setdefault(member, []).append((begin, begin + count))
            slot = len(self.spans)
            for part in stretch.parts:
                place(part)
            if count:
                self.spans.insert(slot, _Span(begin, begin + count, self.length))

        for stretch in stretches:
            place(stretch)
        self.sequences, self.positions = np.concatenate(sequences), np.concatenate(positions)

    def where(self, sequence: int) -> _Places:
        """Return where in the row the sequence's positions stand, from the first that the batch computes."""
        return np.concatenate([np.arange(begin, end) for begin, end in self._runs[sequence]])


class Ahead(NamedTuple):
    """What positions of a row attend to that was computed before it.

    Args:
        first, last: the positions, ``last`` excluded.
        states: keys and values, one after another.
    """

    first: int
    last: int
    states: Sequence[KeysAndValues]


class PackedAttention:
    """Attention over a packed row, in the form of transformers' attention interface.

    Args:
        layout: of the row.
        ahead: what was computed before it.
        keep: takes the keys and values of this row; None where nobody needs them.
    """

    def __init__(self, layout: Layout, ahead: Sequence[Ahead] = (), keep: KeysAndValues | None = None) -> None:
        self.layout, self.ahead, self.keep = layout, ahead, keep
        self._calls: dict[tuple[torch.device, int, int], list[_Call]] = {}

    def __call__(
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
        """Return (rows, length, heads, d) for a query (rows, heads, length, d), and keys and values like it."""
        if self.keep is not None:
            self.keep[module] = key, value
        attend = self._by_stretch if query.device.type in _BY_STRETCH else self._by_path
        return attend(module, query, key, value, scaling), None

    def _by_path(self, module: nn.Module, query: Tensor, key: Tensor, value: Tensor, scale: float | None) -> Tensor:
        """Let each stretch attend to all that stands before it in its responses, in as few calls as memory allows."""
        query = query.transpose(1, 2)
        earlier = [states[module] for part in self.ahead for states in part.states]
        keys, values = (
            _joined([part.transpose(1, 2) for part in parts], dim=1).flatten(0, 1)
            for parts in zip(*earlier, (key, value), strict=True)
        )
        outputs = [call.attend(query.flatten(0, 1), keys, values, scale) for call in self._calls_for(keys, len(query))]
        return _joined(outputs, dim=0).view(query.shape)

    def _calls_for(self, keys: Tensor, rows: int) -> list[_Call]:
        """Return the calls for keys (positions, key heads, d) of so many rows."""
        most = _COPIED_BYTES // (2 * keys[0].nbytes)
        form = keys.device, rows, most
        if form not in self._calls:
            own = self._paths()
            paths = [begin + path for begin in range(0, len(keys), len(keys) // rows) for path in own]
            queries = np.cumsum([0, *[span.end - span.begin for span in self.layout.spans] * rows])
            as_they_stand = np.array_equal(np.concatenate(paths), np.arange(len(keys)))
            in_pages = (
                not as_they_stand
                and PAGE * len(np.unique(np.concatenate([_page_ends(path) for path in paths]))) < sum(map(len, paths))
                and has_pages(keys.device, keys.dtype, keys.shape[-1])
            )
            calls, first = [], 0
            for group in [paths] if as_they_stand else _groups(paths, most, in_pages):
                last = first + len(group)
                copied: Tensor | None
                seen: Ends | Pages
                if in_pages:
                    copied, seen = _pages_of(group, keys.device)
                else:
                    copied = None if as_they_stand else sent(np.concatenate(group), keys.device)
                    seen = Ends.of(np.cumsum([0, *map(len, group)]), keys.device)
                asked = slice(int(queries[first]), int(queries[last]))
                calls.append(_Call(asked, copied, Ends.of(queries[first : last + 1], keys.device), seen))
                first = last
            self._calls[form] = calls
        return self._calls[form]

    def _paths(self) -> list[_Places]:
        """Return where each stretch's path stands among the positions that were computed before the row and in it."""
        earlier, row = [], 0
        for part in self.ahead:
            end = row + sum(next(iter(states.values()))[0].shape[2] for states in part.states)
            earlier.append((part, np.arange(row, end)))
            row = end
        paths: list[_Places] = []
        above: list[_Span] = []
        for span in self.layout.spans:
            while above and above[-1].after <= span.begin:
                above.pop()
            above.append(span)
            seen = [places for part, places in earlier if part.first <= span.begin < part.last]
            paths.append(np.concatenate([*seen, *(row + np.arange(one.begin, one.end) for one in above)]))
        return paths

    def _by_stretch(self, module: nn.Module, query: Tensor, key: Tensor, value: Tensor, scale: float | None) -> Tensor:
        """Merge what stretches attend to."""
        dtype = query.dtype
        if dtype.itemsize < 4:
            # The kernel is faster in float32: it has no use of bfloat16 products, only of their conversion
            query, key, value = query.float(), key.float(), value.float()
        merged = _Merged(query, scale)
        for span in self.layout.spans:
            merged.begin(span.begin, span.end, key[:, :, span.begin : span.end], value[:, :, span.begin : span.end])
        for first, last, earlier in self.ahead:
            parts = zip(*(states[module] for states in earlier), strict=True)
            merged.add(first, last, *(torch.cat(states, dim=2).to(query.dtype) for states in parts))
        for span in self.layout.spans:
            if span.after > span.end:
                merged.add(span.end, span.after, key[:, :, span.begin : span.end], value[:, :, span.begin : span.end])
        return merged.output.to(dtype)


class _Call(NamedTuple):
    """Stretches that attend by one kernel.

    Args:
        stretches: their positions among those of all rows.
        copied: (K,) where the keys that they see stand; None for all keys, in their order.
        queries: where those of each stretch end.
        keys: where those that each stretch sees end, or which pages of the copied ones they are.
    """

    stretches: slice
    copied: Tensor | None
    queries: Ends
    keys: Ends | Pages

    def attend(self, query: Tensor, keys: Tensor, values: Tensor, scale: float | None) -> Tensor:
        """Return the stretches' (N, heads, d) for all queries (·, heads, d), and all keys and values."""
        query = query[self.stretches]
        if self.copied is not None:
            keys, values = keys[self.copied], values[self.copied]
        if isinstance(self.keys, Ends):
            return attend_within(query, keys, values, self.queries, self.keys, scale)
        keys, values = keys.unflatten(0, (-1, PAGE)), values.unflatten(0, (-1, PAGE))
        return attend_to_pages(query, keys, values, self.queries, self.keys, scale)


def _page_ends(path: _Places) -> _Places:
    """Return the last position of each page of a path: it tells the page, since it comes after the same ones always."""
    ends: _Places = path[np.minimum(np.arange(PAGE, len(path) + PAGE, PAGE), len(path)) - 1]
    return ends


def _groups(paths: Sequence[_Places], most: int, in_pages: bool) -> Iterator[list[_Places]]:
    """Divide paths into groups of which so many positions are copied, or one path's where that has more."""
    group: list[_Places] = []
    pages: set[int] = set()
    count = 0
    for path in paths:
        own = set(_page_ends(path).tolist()) if in_pages else set()
        size = PAGE * len(own - pages) if in_pages else len(path)
        if group and count + size > most:
            yield group
            group, pages, count = [], set(), 0
            size = PAGE * len(own) if in_pages else len(path)
        group.append(path)
        pages |= own
        count += size
    yield group


def _pages_of(paths: Sequence[_Places], device: torch.device) -> tuple[Tensor, Pages]:
    """Return the positions of pages, one after another, and which of these pages the paths consist of."""
    numbers: dict[int, int] = {}
    copied = []
    table = np.zeros((len(paths), -(-max(map(len, paths)) // PAGE)), dtype=np.int32)
    for row, path in enumerate(paths):
        for place, end in enumerate(_page_ends(path).tolist()):
            if end not in numbers:
                page = path[place * PAGE : (place + 1) * PAGE]
                copied.append(np.pad(page, (0, PAGE - len(page)), mode="edge"))
            table[row, place] = numbers.setdefault(end, len(numbers))
    used = np.array([len(path) for path in paths], dtype=np.int32)
    return sent(np.concatenate(copied), device), Pages.of(sent(table, device), sent(used, device))


def _joined(parts: list[Tensor], dim: int) -> Tensor:
    return torch.cat(parts, dim) if len(parts) > 1 else parts[0]  # one alone would be copied


class _Merged:
    """Attention whose parts come one after another.

    Args:
        query: (rows, heads, length, d).
        scale: of the products; None for 1/√d.
    """

    def __init__(self, query: Tensor, scale: float | None) -> None:
        self.query, self.scale = query, scale
        rows, heads, length, size = query.shape
        exact = torch.float64 if query.dtype == torch.float64 else torch.float32
        self.output = query.new_empty(rows, length, heads, size, dtype=exact)
        self.logarithm = query.new_empty(rows, length, heads, 1, dtype=exact)

    def begin(self, first: int, last: int, key: Tensor, value: Tensor) -> None:
        """Let positions attend to themselves and those before them."""
        output, logarithm = attend(self.query[:, :, first:last], key, value, causal=True, scale=self.scale)
        self.output[:, first:last] = output.transpose(1, 2)
        self.logarithm[:, first:last, :, 0] = logarithm.transpose(1, 2)

    def add(self, first: int, last: int, key: Tensor, value: Tensor) -> None:
        """Let positions attend, as one long query, to all of these keys too."""
        output, logarithm = attend(self.query[:, :, first:last], key, value, causal=False, scale=self.scale)
        before = self.logarithm[:, first:last]
        further = logarithm.transpose(1, 2)[..., None]
        share = torch.sigmoid(further - before)
        self.output[:, first:last].lerp_(output.transpose(1, 2).to(share.dtype), share)
        torch.logaddexp(before, further, out=before)


def attend(query: Tensor, key: Tensor, value: Tensor, *, causal: bool, scale: float | None) -> tuple[Tensor, Tensor]:
    """Compute fused attention on a CPU, with the logarithm of the softmax's denominator.

    Args:
        query: (rows, heads, n, d).
        key: (rows, key heads, m, d), where the number of key heads divides that of heads.
        value: like the keys.
        causal: query i sees the keys up to i.
        scale: of the products; None for 1/√d.

    Returns:
        (rows, heads, n, d), and (rows, heads, n) in float32 or better.
    """
    if not _GROUPS_ON_CPU:
        groups = query.shape[1] // key.shape[1]
        key, value = (states.repeat_interleave(groups, dim=1) for states in (key, value))
    output, logarithm = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        query, key, value, 0.0, causal, scale=scale
    )
    return output, logarithm


@contextmanager
def attention_by(model: PreTrainedModel, attention: Callable[..., tuple[Tensor, None]]) -> Iterator[None]:
    """Have the model's layers attend by ``attention`` within the context."""
    config = model.config
    own = config._attn_implementation
    ALL_ATTENTION_FUNCTIONS[_ATTENTION] = attention
    config._attn_implementation = _ATTENTION
    try:
        yield
    finally:
        config._attn_implementation = own
        del ALL_ATTENTION_FUNCTIONS[_ATTENTION]
