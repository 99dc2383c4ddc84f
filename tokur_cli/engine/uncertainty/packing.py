"""A batch without padding: one row of positions per draw, in which common prefixes stand once.

    positions   0 1 2 3 4 5 6 7 8 9        0–2 a prefix that both responses share
    stretch     a a a b b b b c c c        3–6 the rest of the first, 7–9 that of the second

Attention is computed by stretches with the fused kernels that return the logarithm of their softmax's denominator:
each stretch attends to itself (causally), and to each stretch before it all that comes after that one attends as one
long query. With o_i the output of a part and l_i its logarithm, the whole is Σ_i exp(l_i − l) o_i with
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
from tokur_cli.engine.uncertainty.prefixes import Stretch

KeysAndValues = dict[nn.Module, tuple[Tensor, Tensor]]

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
_ONE_BY_ONE = ("cpu",)  # devices on which many small operations cost no more than few large ones
_GROUPS_ON_CPU = torch.__version__ >= "2.9"  # (compared as versions) the CPU kernel took fewer key heads from then on
_LEAST_FILLED = 0.8  # of a block of stretches that are padded to the same length, on a GPU


def longest_packed(model: PreTrainedModel, device: str | None = None) -> int | None:
    """Return how long a response may be to be packed, prompt included: None for any length, 0 for none.

    Not packed are families outside ``FAMILIES`` (those with attention biases, capped attention logits, recurrence or
    attention code of their own), responses longer than a sliding window, and those for which the rotary embedding
    would be rescaled.

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
    if device == "cuda" and (head % 8 or head > 256):
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

    def where(self, sequence: int) -> npt.NDArray[np.int64]:
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
        self._blocks: dict[torch.device, list[tuple[Tensor, Tensor, Tensor]]] = {}

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
        dtype = query.dtype
        if query.device.type == "cpu" and dtype.itemsize < 4:
            # The CPU kernel is faster in float32: it has no use of bfloat16 products, only of their conversion
            query, key, value = query.float(), key.float(), value.float()
        merged = _Merged(query, scaling)
        if query.device.type in _ONE_BY_ONE:
            for span in self.layout.spans:
                merged.begin(span.begin, span.end, key[:, :, span.begin : span.end], value[:, :, span.begin : span.end])
        else:
            for rows, filled, places in self._padded_blocks(query.device):
                merged.begin_block(rows, filled, places, key, value)
        for first, last, earlier in self.ahead:
            parts = zip(*(states[module] for states in earlier), strict=True)
            merged.add(first, last, *(torch.cat(states, dim=2).to(query.dtype) for states in parts))
        for span in self.layout.spans:
            if span.after > span.end:
                merged.add(span.end, span.after, key[:, :, span.begin : span.end], value[:, :, span.begin : span.end])
        return merged.output.to(dtype), None

    def _padded_blocks(self, device: torch.device) -> list[tuple[Tensor, Tensor, Tensor]]:
        """Return stretches of like length together, so that a GPU is given few and large operations.

        Returns:
            For each block of S stretches of at most T positions, (S, T) places in the row, with any place at all in
            the padding; the indices of the filled entries among the S·T; the filled entries' places.
        """
        if device not in self._blocks:
            blocks: list[list[_Span]] = []
            for span in sorted(self.layout.spans, key=lambda span: span.begin - span.end):
                longest = blocks[-1][0].end - blocks[-1][0].begin if blocks else 0
                if blocks and span.end - span.begin >= _LEAST_FILLED * longest:
                    blocks[-1].append(span)
                else:
                    blocks.append([span])
            self._blocks[device] = [_padded(block, device) for block in blocks]
        return self._blocks[device]


def _padded(block: list[_Span], device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    begins, ends = (np.array(numbers)[:, None] for numbers in zip(*((s.begin, s.end) for s in block), strict=True))
    places = begins + np.arange((ends - begins).max())
    filled = np.flatnonzero(places < ends)
    places = np.minimum(places, ends - 1)
    placed, indices, filled_places = (
        torch.from_numpy(numbers).to(device) for numbers in (places, filled, places.flatten()[filled])
    )
    return placed, indices, filled_places


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

    def begin_block(self, places: Tensor, filled: Tensor, filled_places: Tensor, key: Tensor, value: Tensor) -> None:
        """Do what ``begin`` does for S stretches at once, padded on the right to T: ``places`` is (S, T)."""
        count, width = places.shape
        rows = len(self.query)

        def gathered(states: Tensor) -> Tensor:
            picked = states.transpose(1, 2)[:, places.flatten()]  # (rows, S·T, heads, d)
            return picked.reshape(rows * count, width, *picked.shape[2:]).transpose(1, 2)

        output, logarithm = attend(gathered(self.query), gathered(key), gathered(value), causal=True, scale=self.scale)
        heads, size = output.shape[1], output.shape[3]
        output = output.transpose(1, 2).reshape(rows, count * width, heads, size)
        self.output[:, filled_places] = output[:, filled].to(self.output.dtype)
        logarithm = logarithm.transpose(1, 2).reshape(rows, count * width, heads, 1)
        self.logarithm[:, filled_places] = logarithm[:, filled]

    def add(self, first: int, last: int, key: Tensor, value: Tensor) -> None:
        """Let positions attend, as one long query, to all of these keys too."""
        output, logarithm = attend(self.query[:, :, first:last], key, value, causal=False, scale=self.scale)
        before = self.logarithm[:, first:last]
        further = logarithm.transpose(1, 2)[..., None]
        share = torch.sigmoid(further - before)
        self.output[:, first:last].lerp_(output.transpose(1, 2).to(share.dtype), share)
        torch.logaddexp(before, further, out=before)


def attend(query: Tensor, key: Tensor, value: Tensor, *, causal: bool, scale: float | None) -> tuple[Tensor, Tensor]:
    """Compute fused attention with the logarithm of the softmax's denominator.

    Args:
        query: (rows, heads, n, d).
        key: (rows, key heads, m, d), where the number of key heads divides that of heads.
        value: like the keys.
        causal: query i sees the keys up to i.
        scale: of the products; None for 1/√d.

    Returns:
        (rows, heads, n, d), and (rows, heads, n) in float32 or better.
    """
    kernels = torch.ops.aten
    halves = query.dtype in (torch.float16, torch.bfloat16)
    on_cpu = query.device.type == "cpu"
    is_new = on_cpu or torch.cuda.get_device_capability(query.device) >= (8, 0)
    flash = on_cpu or (halves and is_new)
    dtype = query.dtype
    if dtype == torch.bfloat16 and not is_new:  # older GPUs have no kernel for it
        query, key, value = query.float(), key.float(), value.float()
    if not (_GROUPS_ON_CPU if on_cpu else flash):
        groups = query.shape[1] // key.shape[1]
        key, value = (states.repeat_interleave(groups, dim=1) for states in (key, value))
    if on_cpu:
        output, logarithm = kernels._scaled_dot_product_flash_attention_for_cpu(
            query, key, value, 0.0, causal, scale=scale
        )
    elif flash:
        output, logarithm = kernels._scaled_dot_product_flash_attention(query, key, value, 0.0, causal, scale=scale)[:2]
    else:
        output, logarithm = kernels._scaled_dot_product_efficient_attention(
            query, key, value, None, True, 0.0, causal, scale=scale
        )[:2]
    return output.to(dtype), logarithm[..., : query.shape[2]]  # some kernels pad it


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
