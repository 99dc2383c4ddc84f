"""Ways out of bubblewrap, tried by the user that runs the tests."""

import shutil

import pytest

from tests.answers.code.escapes import ESCAPES, escapes


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
@pytest.mark.parametrize("escape", ESCAPES)
def test_passes_lets_no_code_out_of_bubblewrap(escape):
    assert not escapes(escape, isolated=True)


@pytest.mark.slow
@pytest.mark.parametrize("escape", ESCAPES)
def test_passes_lets_code_out_without_bubblewrap(escape):
    assert escapes(escape, isolated=False)
