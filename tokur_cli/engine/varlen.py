"""Attention within sequences of any lengths, by one kernel on a GPU.

Their keys stand one after another, or in pages, of which sequences may have some in common. For the first there are
ATen's own kernels, flash and memory-efficient attention, which have had this form since PyTorch 2.6 and before; for
pages ``torch.nn.attention.varlen``, which takes them from 2.12 on. All are compared with PyTorch's operations when
they are first needed.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from tokur_cli.engine.memory import is_out_of_memory
from tokur_cli.engine.transfers import sent

PAGE = 256
"""Columns of a page that PyTorch's flash attention takes."""

_LAST_SEES_ALL = 2  # sdp::CustomMaskType::CausalFromBottomRight
_ERROR = 0.02  # that rounding to 16 bits may make of numbers about 1

_Form = tuple[torch.device, torch.dtype, int]
_obstacles: dict[_Form, str | None] = {}
_obstacles_to_pages: dict[_Form, str | None] = {}


class Ends(NamedTuple):
    """Where S sequences end.

    Args:
        places: (S + 1,) int32: 0, and the end of each.
        longest: of their lengths.
    """

    places: Tensor
    longest: int

    @classmethod
    def of(cls, places: npt.NDArray[np.int64], device: torch.device) -> Ends:
        """Return where sequences end, counted from where the first begins."""
        return cls(sent((places - places[0]).astype(np.int32), device), int(np.diff(places).max()))


def takes_heads(size: int) -> bool:
    """Return whether PyTorch's kernels for GPUs take heads of this size."""
    return size % 8 == 0 and size <= 256


def has_flash(device: torch.device, dtype: torch.dtype, size: int) -> bool:
    """Return whether a device has flash attention for heads of this size."""
    if device.type != "cuda" or dtype.itemsize != 2 or not takes_heads(size):
        return False
    return torch.cuda.get_device_capability(device) >= (8, 0)


class Pages(NamedTuple):
    """Which pages hold the keys of S sequences.

    Args:
        table: (S, most) int32, the pages of each, one after another.
        used: (S,) int32, how many of these columns are the sequence's: no fewer than it has queries.
        ends: (S + 1,) int32: 0, and how many they are in all up to each.
    """

    table: Tensor
    used: Tensor
    ends: Tensor

    @classmethod
    def of(cls, table: Tensor, used: Tensor) -> Pages:
        """Return pages of which the sequences use so many columns."""
        return cls(table, used, nn.functional.pad(used.cumsum(0, dtype=torch.int32), (1, 0)))


def has_varlen(device: torch.device, dtype: torch.dtype, size: int) -> bool:
    """Return whether ``attend_within`` is right on a GPU for heads of this size, tried once."""
    return _is_there(attend_within, _obstacles, (device, dtype, size), "attention to sequences of different lengths")


def has_pages(device: torch.device, dtype: torch.dtype, size: int) -> bool:
    """Return whether ``attend_to_pages`` is right there, tried once: it should be with flash attention."""
    form = device, dtype, size
    if not has_flash(*form):
        return False
    if not _varlen_takes_pages():
        _obstacles_to_pages[form] = f"PyTorch {torch.__version__} has no attention to pages"
        return False
    return _is_there(_in_pages, _obstacles_to_pages, form, "attention to pages")


def obstacle() -> str | None:
    """Return why ``attend_within`` is not there where it was asked for."""
    return next(filter(None, _obstacles.values()), None)


def obstacle_to_pages() -> str | None:
    """Return why ``attend_to_pages`` is not there where it was asked for."""
    return next(filter(None, _obstacles_to_pages.values()), None)


def _varlen_takes_pages() -> bool:
    try:
        from torch.nn.attention.varlen import varlen_attn
    except ImportError:
        return False
    return "block_table" in inspect.signature(varlen_attn).parameters


def _is_there(attend: Callable[..., Tensor], obstacles: dict[_Form, str | None], form: _Form, what: str) -> bool:
    """Return whether a kernel is right; what is in its way is noted with the obstacles."""
    if type(torch.empty(0, device=form[0])) is not Tensor:  # stands for one, without numbers
        return True
    if form not in obstacles:
        obstacles[form] = _tried(attend, form, what)
    return obstacles[form] is None


def _tried(attend: Callable[..., Tensor], form: _Form, what: str) -> str | None:
    """Return what is in the way of a kernel; None if it is right."""
    try:
        return None if _is_right(attend, *form) else f"{what} is wrong here"
    except RuntimeError as error:
        if is_out_of_memory(error):
            raise
        return f"{what} fails ({str(error).splitlines()[0]})"


def attend_within(query: Tensor, key: Tensor, value: Tensor, queries: Ends, keys: Ends, scale: float | None) -> Tensor:
    """Let each sequence's last query see all of its keys, the one before it all but the last, and so on.

    Args:
        query: (N, heads, d), all sequences' queries.
        key: (K, key heads, d), all sequences' keys, where the number of key heads divides that of heads.
        value: like the keys.
        queries: where they end; no sequence has more queries than keys.
        keys: where they end.
        scale: of the products; None for 1/√d.

    Returns:
        (N, heads, d).
    """
    dtype, places, longest = query.dtype, (queries.places, keys.places), (queries.longest, keys.longest)
    output: Tensor
    if has_flash(query.device, dtype, query.shape[-1]):
        flash = torch.ops.aten._flash_attention_forward
        output = flash(query, key, value, *places, *longest, 0.0, True, False, scale=scale)[0]
        return output
    if dtype == torch.bfloat16 and torch.cuda.get_device_capability(query.device) < (8, 0):  # there is no kernel for it
        query, key, value = query.float(), key.float(), value.float()
    key, value = (states.repeat_interleave(query.shape[1] // key.shape[1], dim=1) for states in (key, value))
    efficient = torch.ops.aten._efficient_attention_forward
    whole = (states[None] for states in (query, key, value))
    output = efficient(*whole, None, *places, *longest, 0.0, _LAST_SEES_ALL, scale=scale)[0]
    return output[0].to(dtype)


def attend_to_pages(
    query: Tensor, key: Tensor, value: Tensor, queries: Ends, pages: Pages, scale: float | None
) -> Tensor:
    """Do what ``attend_within`` does for keys in pages.

    Args:
        query: (N, heads, d), all sequences' queries.
        key: (pages, ``PAGE``, key heads, d), where the number of key heads divides that of heads.
        value: like the keys.
        queries: where they end.
        pages: which of them hold each sequence's keys.
        scale: of the products; None for 1/√d.

    Returns:
        (N, heads, d).
    """
    from torch.nn.attention.varlen import varlen_attn

    most = pages.table.shape[1] * PAGE
    output = varlen_attn(
        query, key, value, queries.places, pages.ends, queries.longest, most, scale=scale, enable_gqa=True,
        window_size=(-1, -1 if queries.longest == 1 else 0), seqused_k=pages.used, block_table=pages.table,
    )  # fmt: skip
    assert isinstance(output, Tensor)
    return output


def _in_pages(query: Tensor, key: Tensor, value: Tensor, queries: Ends, keys: Ends, scale: float | None) -> Tensor:
    """Attend to keys that stand one after another by pages, the last of which come first."""
    used, device = keys.places.diff(), key.device
    counts = [-(-length // PAGE) for length in used.tolist()]
    free, most = sum(counts), max(counts)
    table = torch.zeros(len(counts), most, dtype=torch.int32)
    stored = [states.new_zeros(free + 1, PAGE, *states.shape[1:]) for states in (key, value)]
    for row, (count, begin, length) in enumerate(zip(counts, keys.places.tolist(), used.tolist(), strict=False)):
        for place in range(count):
            table[row, place] = free
            first, last = begin + place * PAGE, begin + min(length, (place + 1) * PAGE)
            for pages, states in zip(stored, (key, value), strict=True):
                pages[free, : last - first] = states[first:last]
            free -= 1
    return attend_to_pages(query, stored[0], stored[1], queries, Pages.of(table.to(device), used), scale)


def _is_right(attend: Callable[..., Tensor], device: torch.device, dtype: torch.dtype, size: int) -> bool:
    """Try it on a sequence whose queries are its last few, and on one that is all queries."""
    numbers, scale = torch.Generator().manual_seed(0), 2 * size**-0.5
    counts, lengths = [3, 130], [270, 130]
    query = torch.randn(sum(counts), 4, size, generator=numbers).to(dtype)
    key, value = torch.randn(2, sum(lengths), 2, size, generator=numbers).to(dtype)
    queries, keys = (Ends.of(np.cumsum([0, *many]), device) for many in (counts, lengths))
    got = attend(query.to(device), key.to(device), value.to(device), queries, keys, scale)
    exact = []
    for parts in zip(query.split(counts), key.split(lengths), value.split(lengths), strict=True):
        count, length = len(parts[0]), len(parts[1])
        one, its_keys, its_values = (part.float().transpose(0, 1)[None] for part in parts)
        seen = torch.ones(count, length, dtype=torch.bool).tril(length - count)
        exact.append(
            nn.functional.scaled_dot_product_attention(
                one, its_keys, its_values, attn_mask=seen, scale=scale, enable_gqa=True
            )[0].transpose(0, 1)
        )
    return torch.allclose(got.cpu().float(), torch.cat(exact), rtol=0, atol=_ERROR)
