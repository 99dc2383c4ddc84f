"""What particles are judged by, worked out by hand."""

import numpy as np
import pytest

from tokur_cli.scores.guides import GuideScore

EU = [3.0, 9.0, 1.0, 4.0, 7.0, 2.0, 5.0]
LOGPROB = [-3.0, -9.0, -1.0, -4.0, -7.0, -2.0, -5.0]


@pytest.mark.parametrize(
    ("over", "expected"), [("mean", 31 / 7), ("sum", 31), ("top5", (9 + 7 + 5 + 4 + 3) / 5), ("step", (7 + 2 + 5) / 3)]
)
def test_a_response_so_far_is_judged_over_all_its_tokens_the_least_sure_or_its_last_step(over, expected):
    uncertainty, confidence = GuideScore("eu", over), GuideScore("ll", over)
    assert (uncertainty.quantity.sign, confidence.quantity.sign) == (-1, 1)
    tokens = {"eu": np.array(EU, dtype=np.float32), "logprob": np.array(LOGPROB, dtype=np.float32)}
    assert uncertainty(tokens, 4) == pytest.approx(expected)
    assert confidence(tokens, 4) == pytest.approx(-expected)
