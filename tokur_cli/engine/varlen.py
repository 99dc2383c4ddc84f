"""Attention within sequences of any lengths, which stand one after another, by one kernel on a GPU.

These are ATen's own kernels, flash and memory-efficient attention, which have had this form since PyTorch 2.6 and
before; ``torch.nn.attention.varlen`` came later, and takes neither a scale nor grouped heads in its first versions.
They are compared with PyTorch's operations when they are first needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from tokur_cli.engine.memory import is_out_of_memory

_LAST_SEES_ALL = 2  # sdp::CustomMaskType::CausalFromBottomRight
_ERROR = 0.02  # that rounding to 16 bits may make of numbers about 1

_obstacles: dict[tuple[torch.device, torch.dtype, int], str | None] = {}


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
        counted = torch.from_numpy((places - places[0]).astype(np.int32))
        return cls(counted.to(device), int(np.diff(places).max()))


def takes_heads(size: int) -> bool:
    """Return whether PyTorch's kernels for GPUs take heads of this size."""
    return size % 8 == 0 and size <= 256


def has_flash(device: torch.device, dtype: torch.dtype, size: int) -> bool:
    """Return whether a device has flash attention for heads of this size."""
    if device.type != "cuda" or dtype.itemsize != 2 or not takes_heads(size):
        return False
    return torch.cuda.get_device_capability(device) >= (8, 0)


def has_varlen(device: torch.device, dtype: torch.dtype, size: int) -> bool:
    """Return whether ``attend_within`` is right on a GPU for heads of this size, tried once."""
    form = device, dtype, size
    if type(torch.empty(0, device=device)) is not Tensor:  # stands for one, without numbers
        return True
    if form not in _obstacles:
        _obstacles[form] = tried(lambda: _is_right(*form), "attention to sequences of different lengths")
    return _obstacles[form] is None


def obstacle() -> str | None:
    """Return why a kernel that was asked for is not there."""
    return next(filter(None, _obstacles.values()), None)


def tried(is_right: Callable[[], bool], what: str) -> str | None:
    """Return what is in the way of a kernel; None if it is right."""
    try:
        return None if is_right() else f"{what} is wrong here"
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


def _is_right(device: torch.device, dtype: torch.dtype, size: int) -> bool:
    """Try it on a sequence whose queries are its last few, and on one that is all queries."""
    numbers, scale = torch.Generator().manual_seed(0), 2 * size**-0.5
    counts, lengths = [3, 130], [270, 130]
    query = torch.randn(sum(counts), 4, size, generator=numbers).to(dtype)
    key, value = torch.randn(2, sum(lengths), 2, size, generator=numbers).to(dtype)
    queries, keys = (Ends.of(np.cumsum([0, *many]), device) for many in (counts, lengths))
    got = attend_within(query.to(device), key.to(device), value.to(device), queries, keys, scale)
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
