import hashlib
import math

import numpy as np
import pytest

from tokur_cli.engine.noise import standard_normal

PINNED = [0.030168740078806877, -0.08410394936800003, 0.4041544497013092, 0.7446770071983337]


def test_numbers_are_standard_normal():
    sample = standard_normal(("moments",), 50_000, 8).astype(np.float64).ravel()
    n = sample.size
    assert abs(sample.mean()) < 4 / math.sqrt(n)
    assert abs(sample.var() - 1) < 4 * math.sqrt(2 / n)
    assert abs((sample**4).mean() - 3) < 4 * math.sqrt(96 / n)
    inside = np.mean(np.abs(sample) < 1.959964)
    assert inside == pytest.approx(0.95, abs=4 * math.sqrt(0.95 * 0.05 / n))
    columns = standard_normal(("moments",), 50_000, 8).T
    assert np.abs(np.corrcoef(columns) - np.eye(8)).max() < 0.03


def test_numbers_are_box_muller_of_philox_and_will_stay_so():
    key = int.from_bytes(hashlib.sha256(repr(("pinned", 3)).encode()).digest()[:16], "little")
    words = np.random.Philox(key=key, counter=2).random_raw(4)  # row 2 of a table with four columns
    u, v = (int(words[0]) >> 11) / 2**53, (int(words[1]) >> 11) / 2**53
    radius = math.sqrt(-2 * math.log(1 - u))
    first, second = radius * math.cos(2 * math.pi * v), radius * math.sin(2 * math.pi * v)
    row = standard_normal(("pinned", 3), 3, 4)[2]
    assert row[:2] == pytest.approx([first, second], rel=1e-6)
    assert standard_normal(("pinned", 3), 1, 4)[0] == pytest.approx(PINNED, rel=1e-6)
