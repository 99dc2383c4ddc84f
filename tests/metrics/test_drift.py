import numpy as np
import pytest
from scipy.stats import ks_2samp, kstwobign

from tokur_cli.metrics.drift import kolmogorov_smirnov


@pytest.mark.parametrize("shift", [0.0, 0.1, 0.3, 2.0])
@pytest.mark.parametrize(("first", "second"), [(40, 60), (500, 500), (1, 30)])
def test_it_is_scipys(shift, first, second):
    generator = np.random.default_rng(first)
    one, other = generator.normal(size=first).round(1), generator.normal(shift, 1, second).round(1)
    difference, p = kolmogorov_smirnov(one, other)
    assert difference == pytest.approx(ks_2samp(one, other).statistic)
    assert p == pytest.approx(kstwobign.sf(difference * np.sqrt(first * second / (first + second))))


def test_the_same_numbers_do_not_differ():
    assert kolmogorov_smirnov([1, 2, 2, 3], [3, 2, 1, 2]) == (0, 1)


def test_few_samples_of_one_distribution_are_told_apart():
    generator = np.random.default_rng(0)
    found = [kolmogorov_smirnov(generator.random(80), generator.random(120))[1] < 0.05 for _ in range(1000)]
    assert np.mean(found) < 0.07
