"""A mistake in a command line is one line on standard error, as any other error, with what may have been meant."""

import pytest

from tests.commands.score.test_score import write_lines


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("sorce x", "tokur: there is no command sorce; did you mean score?"),
        (
            "nothing",
            "tokur: there is no command nothing; there are: perturb, generate, score, select, evaluate, heatmap",
        ),
        ("--", "tokur: missing command"),
        ("--bogus", "tokur: there is no option --bogus; tokur --help lists all"),
        ("--draws 3 score", "tokur: there is no option --draws; it is an option of tokur perturb, generate, score"),
        ("score --score eu", "tokur score: there is no option --score; did you mean --scores?"),
        ("heatmap --pallette red", "tokur heatmap: there is no option --pallette; did you mean --palette?"),
        (
            "generate --max 3",
            "tokur generate: there is no option --max; did you mean --max-line or --max-memory or --max-new-tokens?",
        ),
        (
            "score --temperature 1",
            "tokur score: there is no option --temperature; it is an option of tokur generate",
        ),
        ("score -z", "tokur score: there is no option -z; tokur score --help lists all"),
        ("score --draws", "tokur score: --draws requires an argument"),
        ("score --steps=3", "tokur score: --steps does not take a value"),
        ("score a b", "tokur score: there is one input: leave out b"),
        ("score --estimator best", "tokur score: --estimator: 'best' is not one of 'paper', 'kl', 'fisher'"),
        ("select --abstain 80", "tokur select: --abstain: 80 is not a part from 0 to 1, such as 0.8"),
    ],
)
def test_a_mistake_is_one_line_that_says_what_to_do(run_tokur, line, said):
    assert run_tokur(*line.split()) == (2, "", f"{said}\n")


@pytest.mark.parametrize("value", ["x", "0", "1.5", ""])
def test_a_value_that_is_no_such_number_is_said_to_be_the_options(run_tokur, value):
    """In the words of the library that reads it, which change with its versions."""
    code, out, err = run_tokur("score", "--draws", value)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("tokur score: --draws")
    assert f'"{value}"' in err or f"'{value}'" in err
    assert "nput should" not in err


def test_a_mistake_looks_as_one_that_tokur_finds_itself(run_tokur, tmp_path):
    path = write_lines(tmp_path / "in.jsonl", [])
    for arguments in (["--sigma", "x"], ["--draws", "x"], ["--nothing"], ["--estimator", "x"]):
        code, out, err = run_tokur("score", path, *arguments)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert err.startswith("tokur score: ")


@pytest.mark.parametrize("arguments", [["\x1b[2J"], ["score", "--\x1b[2J"], ["select", "--method", "\x1b[2J"]])
def test_what_was_typed_does_nothing_to_the_terminal(run_tokur, arguments):
    code, _, err = run_tokur(*arguments)
    assert code == 2
    assert "\x1b" not in err
    assert "[2J" in err
