"""Work on many sequences in batches that are halved where memory does not suffice."""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import psutil
import torch
from accelerate.utils import get_max_memory
from accelerate.utils.memory import clear_device_cache
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from tokur_cli.engine.model.errors import first_line
from tokur_cli.records.errors import TokurError

Result = TypeVar("Result")

_LIKE = 0.9
"""Rows of a batch are at least this fraction of the longest, unless their padding costs less than another pass."""
_PASS = 12
_CUDA_PASS = 2048
"""Positions that cost what a pass costs in any case: with CUDA those of all rows, computed while the thousands of
kernels of a pass are started, which takes an H100 70 ms for 30 layers with draws."""
_COLUMNS = 8
"""So many keys and values of a layer take less than what the layer computes of one position."""
_OUT_OF_MEMORY = re.compile(r"out of memory|STATUS_ALLOC_FAILED|can't allocate memory", re.IGNORECASE)


class HalvingBatches:
    """Computes batches of sequences, which are known by numbers.

    Args:
        batch_tokens: positions in a batch; halved for good when memory does not suffice.
        pass_positions: padding that a batch may have in any case.
        make_room: gives up what can be computed again, when memory does not suffice.
        apart_from: rows that are longer than this never stand beside others, see ``rescaled_beyond``.
    """

    def __init__(
        self,
        batch_tokens: int,
        pass_positions: int,
        make_room: Callable[[], object] = lambda: None,
        apart_from: int = sys.maxsize,
    ) -> None:
        self.batch_tokens = max(1, batch_tokens)
        self._pass_positions, self._make_room, self._apart_from = pass_positions, make_room, apart_from

    def padded(self, lengths: Mapping[int, int], before: int = 0) -> Iterator[list[int]]:
        """Cut sequences of these lengths into batches of rows of like length, the longest first.

        Args:
            lengths: by number.
            before: positions whose keys each row is given beside its own.
        """
        order = sorted(lengths, key=lambda index: (-lengths[index], index))
        while order:
            longest = lengths[order[0]]
            size = max(1, self.batch_tokens // (longest + before // _COLUMNS))
            least = self._apart_from - before + 1 if before + longest > self._apart_from else 0
            padding = itertools.accumulate(longest - lengths[index] for index in order)
            batch = [
                index
                for index, padded in zip(order[:size], padding, strict=False)
                if lengths[index] >= max(least, _LIKE * longest if padded > self._pass_positions else 0)
            ]
            yield batch
            order = order[len(batch) :]

    def results(
        self, batch: Sequence[int], lengths: Mapping[int, int], compute: Callable[[Sequence[int]], Sequence[Result]]
    ) -> Iterator[tuple[int, Result | TokurError]]:
        """Yield the results of a batch, or of its halves; an error where memory does not suffice for one alone."""
        for _ in range(2 if len(batch) == 1 else 1):
            try:
                results = compute(batch)
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
            else:
                yield from zip(batch, results, strict=True)
                return
            self._make_room()  # the error, which holds what it met, is gone
            clear_device_cache(garbage_collection=True)
        if len(batch) == 1:
            yield batch[0], TokurError(f"too little memory for {lengths[batch[0]]} tokens")
            return
        self.batch_tokens = max(1, self.batch_tokens // 2)
        middle = len(batch) // 2
        yield from self.results(batch[:middle], lengths, compute)
        yield from self.results(batch[middle:], lengths, compute)


def pass_positions(device: str, num_rows: int) -> int:
    """Return how many positions of a text cost what a pass costs in any case, on a kind of device under some rows."""
    return max(_PASS, _CUDA_PASS // num_rows) if device == "cuda" else _PASS


def pad(sequences: Sequence[Sequence[int] | npt.NDArray[np.int64]], device: torch.device) -> Tensor:
    """Return token ids as (B, L), padded on the right, where causal attention keeps it from all that is read."""
    rows = [torch.from_numpy(np.asarray(sequence, dtype=np.int64)) for sequence in sequences]
    return pad_sequence(rows, batch_first=True).to(device)


def is_out_of_memory(error: Exception) -> bool:
    """Return whether a smaller batch may succeed: CUDA's libraries say in words that memory was short."""
    says_so = isinstance(error, RuntimeError) and bool(_OUT_OF_MEMORY.search(str(error)))
    return says_so or isinstance(error, (MemoryError, torch.OutOfMemoryError))


@contextmanager
def refusing(refusal: Callable[[str], TokurError]) -> Iterator[None]:
    """Refuse, in the words of ``refusal``, what fails within for any other reason than too little memory."""
    try:
        yield
    except Exception as error:
        if isinstance(error, TokurError) or is_out_of_memory(error):
            raise
        raise refusal(f"{type(error).__name__}: {first_line(error)}") from error


def available_bytes(devices: Iterable[torch.device]) -> int:
    """Return the memory that is free now on the fullest of these devices, "meta" not counted; no other is asked."""

    def free(device: torch.device) -> int:
        if device.type == "cuda":
            return torch.cuda.mem_get_info(device)[0]
        if device.type in ("cpu", "mps"):  # a Mac's GPU has the main memory
            return int(psutil.virtual_memory().available)
        return int(get_max_memory()[device.index or 0])

    return min(free(device) for device in set(devices) if device.type != "meta")
