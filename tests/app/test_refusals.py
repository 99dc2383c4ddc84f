"""A mistake in a command line is one line on standard error, as any other error, with what may have been meant."""

import pytest


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("nothing", "tokur: no such command 'nothing'"),
        ("--bogus", "tokur: no such option: --bogus"),
        ("score --draws", "tokur score: option '--draws' requires an argument"),
        ("score --draws 0", "tokur score: --draws: Input should be greater than or equal to 1"),
        ("score --estimator best", "tokur score: --estimator: 'best' is not one of 'paper', 'kl', 'fisher'"),
        ("score --sigma x", 'tokur score: --sigma has "x"; it must be a number from 0, or auto'),
    ],
)
def test_usage_mistake_is_one_line(run_tokur, line, said):
    assert run_tokur(*line.split()) == (2, "", f"{said}\n")


@pytest.mark.parametrize("arguments", [["\x1b[2J"], ["score", "--\x1b[2J"], ["select", "--method", "\x1b[2J"]])
def test_usage_mistake_does_nothing_to_the_terminal(run_tokur, arguments):
    code, _, err = run_tokur(*arguments)
    assert code == 2
    assert "\x1b" not in err
    assert "[2J" in err
