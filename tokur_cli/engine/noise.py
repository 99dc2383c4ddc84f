"""Standard normal numbers that depend on their key and place alone, on any machine and in any order of use.

numpy promises that Philox's raw bits never change, but not what ``Generator.standard_normal`` makes of them; the
Box-Muller transform below fixes that too, so a seed means the same draws for every version of every library.
"""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

_WORDS_PER_COUNTER = 4  # Philox4x64 yields four 64-bit words a counter step


def standard_normal(key: tuple[object, ...], rows: int, columns: int, first_row: int = 0) -> npt.NDArray[np.float32]:
    """Return rows ``first_row … first_row + rows`` of an endless N(0, 1) table.

    Every row starts at a counter of its own: what a row holds depends on ``key``, the row's index and ``columns``,
    never on which other rows are asked for.

    Args:
        key: what the table belongs to, say (seed, "step", member, matrix name); told apart by ``repr``.
        rows: number of rows.
        columns: numbers in a row.
        first_row: index of the first row wanted.

    Returns:
        float32 array of shape (rows, columns).
    """
    steps_per_row = -(-columns // _WORDS_PER_COUNTER)
    digest = hashlib.sha256(repr(key).encode()).digest()
    bits = np.random.Philox(key=int.from_bytes(digest[:16], "little"), counter=first_row * steps_per_row)
    words = bits.random_raw(rows * steps_per_row * _WORDS_PER_COUNTER).reshape(-1, 2)
    # 53 bits a uniform number; the first lies in (0, 1], so its logarithm is finite
    uniform = (words >> np.uint64(11)).astype(np.float64) * 2.0**-53
    radius = np.sqrt(-2.0 * np.log1p(-uniform[:, 0]))
    angle = 2.0 * np.pi * uniform[:, 1]
    normal = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    return normal.reshape(rows, -1)[:, :columns].astype(np.float32)
