"""What is imported later must work as if it had been imported at once."""

import subprocess
import sys

import pytest

LATER = """
import sys
from tokur_cli.engine.model.imports import import_transformers
import_transformers()
import transformers.modeling_utils
assert "scipy.optimize" not in sys.modules, "imported with the models"
from transformers.loss import loss_for_object_detection as detection
rows, columns = detection.linear_sum_assignment([[4, 1, 3], [2, 0, 5], [3, 2, 2]], maximize=False)
assert (rows.tolist(), columns.tolist()) == ([0, 1, 2], [1, 0, 2])
import scipy.optimize
from scipy.optimize import linear_sum_assignment, minimize
assert sys.modules["scipy.optimize"] is scipy.optimize
"""
BEFORE = """
import scipy.optimize
from tokur_cli.engine.model.imports import import_transformers
import_transformers()
from transformers.loss import loss_for_object_detection as detection
assert detection.linear_sum_assignment is scipy.optimize.linear_sum_assignment
"""
ELSEWHERE = """
import sys
from tokur_cli.engine.model.imports import import_transformers
sys.modules["transformers.loss.loss_utils"] = None  # as where it does not exist
import_transformers()
assert "scipy.optimize" not in sys.modules
"""


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(LATER, id="later", marks=pytest.mark.slow),
        pytest.param(BEFORE, id="imported before", marks=pytest.mark.slow),
        pytest.param(ELSEWHERE, id="no such module"),
    ],
)
def test_transformers_comes_without_scipys_optimisation_which_still_works(program):
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr
