import hashlib
import math

import numpy as np
import pytest

from tokur_cli.engine import noise

PINNED = [0.030168740078806877, -0.08410394936800003, 0.4041544497013092, 0.7446770071983337]


def test_numbers_are_box_muller_of_philox_and_will_stay_so():
    key = int.from_bytes(hashlib.sha256(repr(("pinned", 3)).encode()).digest()[:16], "little")
    words = np.random.Philox(key=key, counter=2).random_raw(4)  # row 2 of a table with four columns
    u, v = (int(words[0]) >> 11) / 2**53, (int(words[1]) >> 11) / 2**53
    radius = math.sqrt(-2 * math.log(1 - u))
    first, second = radius * math.cos(2 * math.pi * v), radius * math.sin(2 * math.pi * v)
    row = noise.standard_normal(("pinned", 3), 3, 4)[2]
    assert row[:2] == pytest.approx([first, second], rel=1e-6)
    assert noise.standard_normal(("pinned", 3), 1, 4)[0] == pytest.approx(PINNED, rel=1e-6)
    assert noise.words(("pinned", 3), 8, 4).tolist() == words.tolist()
