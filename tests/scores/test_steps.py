"""Reasoning steps: where they begin, which tokens are theirs, and what is said of each."""

import math
import time
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokur_cli.answers.code.execution import candidate_programs
from tokur_cli.scores.steps import GuideScore, aggregates, describe_steps, step_spans, token_places, tokens_of_steps


def pieces(text, by="auto"):
    return [text[start:end] for start, end in step_spans(text, by)]


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("## Step 1: a\nb\n\n## Step 2: c", ["## Step 1: a\nb\n\n", "## Step 2: c"]),
        ("We go.\n## Step 1\nx. y.\n## Step 2\nz", ["We go.\n", "## Step 1\nx. y.\n", "## Step 2\nz"]),
        ("**Step 1:** a\n**Step 2:** b", ["**Step 1:** a\n", "**Step 2:** b"]),
        ("Step 1: a\nstep 2: b", ["Step 1: a\n", "step 2: b"]),
        ("First:\n1. a. b\n2. c", ["First:\n", "1. a. b\n", "2. c"]),
        ("(1) a\n(2) b", ["(1) a\n", "(2) b"]),
        ("It is 3.14 tons. So 2 * 3.14 = 6.28. Done!", ["It is 3.14 tons. ", "So 2 * 3.14 = 6.28. ", "Done!"]),
        ("a line\nanother line", ["a line\n", "another line"]),
        ('He said "yes." Then, e.g. this. It\'s 5!', ['He said "yes." ', "Then, e.g. this. ", "It's 5!"]),
        ("二倍。だから六。", ["二倍。", "だから六。"]),
        ("## Only one heading. Two sentences.", ["## Only one heading. ", "Two sentences."]),
        ("# comment\nx = 1\n# more\ny = 2", ["# comment\n", "x = 1\n", "# more\n", "y = 2"]),
        ("one", ["one"]),
        ("", [""]),
        ("\n\n## Step 1\na\n## Step 2\nb", ["\n\n## Step 1\na\n", "## Step 2\nb"]),
    ],
)
def test_where_steps_begin(text, steps):
    assert pieces(text) == steps


@pytest.mark.parametrize(
    ("by", "steps"),
    [
        ("lines", ["# A. B.\n\n", "1. c. d\n", "2. e"]),
        ("sentences", ["# A. ", "B.\n\n", "1. c. ", "d\n", "2. e"]),
        (r"\n\n", ["# A. B.\n\n", "1. c. d\n2. e"]),
        (r"(?=\d\.)", ["# A. B.\n\n", "1. c. d\n", "2. e"]),
        ("zzz", ["# A. B.\n\n1. c. d\n2. e"]),
        ("e$", ["# A. B.\n\n1. c. d\n2. e"]),
    ],
)
def test_steps_by_lines_sentences_or_what_separates_them(by, steps):
    assert pieces("# A. B.\n\n1. c. d\n2. e", by) == steps


@given(st.text(alphabet="ab1.)#\n *Step 。!") | st.text(), st.sampled_from(["auto", "lines", "sentences", "a", "b*"]))
def test_steps_join_to_the_response(text, by):
    assert "".join(pieces(text, by)) == text


@given(st.text(alphabet="ab1.# \n", max_size=60), st.data())
def test_every_token_counts_once_where_its_first_visible_character_stands(text, data):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=10)))
    offsets = list(pairwise(cuts))
    spans = step_spans(text)
    steps = tokens_of_steps(text, offsets, spans)
    assert [token for tokens in steps for token in tokens] == list(range(len(offsets)))
    for (start, end), tokens in zip(spans, steps, strict=True):
        for token in tokens:
            piece = text[slice(*offsets[token])]
            if piece.strip() and end < len(text):
                assert start <= offsets[token][0] + len(piece) - len(piece.lstrip()) < end


def test_a_token_without_text_counts_where_the_text_before_it_ends():
    assert token_places("a  b", [(0, 1), (1, 2), (2, 4), (4, 4)]) == [0, 1, 3, 3]
    assert token_places("abcd", [(0, 4), (4, 4)]) == [0, 3]
    assert token_places("abc", [(0, 1), (2, 3), (1, 2)]) == [0, 2, 2]


@given(st.lists(st.floats(-50, 50), min_size=1, max_size=12), st.sampled_from(["uncertainty", "confidence"]))
def test_aggregates_are_those_of_the_least_sure_tokens(values, orientation):
    least_sure = sorted(values, reverse=orientation == "uncertainty")[:5]
    found = aggregates(values, orientation)
    expected = {
        "sum": sum(values),
        "mean": sum(values) / len(values),
        "max": least_sure[0],
        "top5": sum(least_sure) / len(least_sure),
    }
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("values", [[], [1.0, math.nan]])
def test_aggregates_of_no_tokens_or_of_one_without_a_value_are_not_numbers(values):
    assert all(math.isnan(value) for value in aggregates(values, "uncertainty").values())


def test_steps_described_by_hand():
    values = {"eu": [1.0, 2.0, 4.0], "logprob": [-1.0, -2.0, -0.5]}
    first, second = describe_steps("a b\nc", [(0, 1), (1, 3), (3, 5)], values, "lines")
    assert (first["start"], first["end"], second["start"], second["end"]) == (0, 4, 4, 5)
    assert first["eu"] == {"sum": 3.0, "mean": 1.5, "max": 2.0, "top5": 1.5}
    assert first["logprob"] == {"sum": -3.0, "mean": -1.5, "max": -2.0, "top5": -1.5}
    assert second["eu"] == dict.fromkeys(("sum", "mean", "max", "top5"), 4.0)


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


LENGTH = 100_000
SECONDS = 3.0
"""What took the square of the length took 18 s and more; in proportion to it, tenths, and 1.2 on a busy machine."""
TEXTS = ["\n", " ", "a.", ". ", "!\n", ".)", "。", "1. ", "(1) ", "## ", "Step 1", "\n a", "`", "```\n", "e.g. "]


def text(run):
    return ("a." + run * LENGTH)[:LENGTH]


@pytest.mark.parametrize("run", TEXTS)
def test_long_runs_take_time_in_proportion(run):
    began = time.thread_time()
    for by in ("auto", "lines", "sentences"):
        spans = step_spans(text(run), by)
        assert spans[0][0] == 0
        assert spans[-1][1] == LENGTH
    candidate_programs(text(run), "def f():\n", "f")
    assert time.thread_time() - began < SECONDS


def test_steps_of_many_tokens_are_described_in_time():
    offsets = [(place, place + 1) for place in range(LENGTH)]
    began = time.thread_time()
    (step,) = describe_steps("\n" * LENGTH, offsets, {"eu": [0.5] * LENGTH}, "auto")
    assert step["eu"]["sum"] == LENGTH / 2
    assert time.thread_time() - began < SECONDS
