"""Random numbers that depend on their key and place alone, on any machine and in any order of use.

numpy promises that Philox's raw bits never change, but not what ``Generator.standard_normal`` makes of them; the
Box-Muller transform below fixes that too, so a seed means the same draws for every version of every library.
"""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

WORDS_PER_COUNTER = 4  # Philox4x64 yields four 64-bit words a counter step


def words(key: tuple[object, ...], first: int, count: int) -> npt.NDArray[np.uint64]:
    """Return words ``first … first + count`` of an endless sequence of 64 random bits each, (count,).

    Args:
        key: what the sequence belongs to, say (seed, "step", draw, matrix name); told apart by ``repr``.
        first: index of the first word wanted, a multiple of 4.
        count: how many.
    """
    digest = hashlib.sha256(repr(key).encode()).digest()
    philox = np.random.Philox(key=int.from_bytes(digest[:16], "little"), counter=first // WORDS_PER_COUNTER)
    return philox.random_raw(count)


def uniform(key: tuple[object, ...], count: int) -> npt.NDArray[np.float64]:
    """Return the first numbers of an endless sequence, uniform in [0, 1) with 53 bits each, (count,)."""
    return (words(key, 0, count) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def standard_normal(key: tuple[object, ...], rows: int, columns: int) -> npt.NDArray[np.float32]:
    """Return the first rows of an endless N(0, 1) table, (rows, columns).

    Every row starts at a place of its own: what a row holds depends on ``key``, the row's index and ``columns``,
    never on how many rows are asked for.
    """
    width = -(-columns // WORDS_PER_COUNTER) * WORDS_PER_COUNTER
    pairs = uniform(key, rows * width).reshape(-1, 2)
    radius = np.sqrt(-2.0 * np.log1p(-pairs[:, 0]))  # 1 − u lies in (0, 1], so its logarithm is finite
    angle = 2.0 * np.pi * pairs[:, 1]
    normal = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    return normal.reshape(rows, width)[:, :columns].astype(np.float32)
