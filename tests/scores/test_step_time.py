"""Texts of white space alone, or ending in it, are cut into steps in time."""

import time

import pytest

from tokur_cli.answers.code.execution import candidate_programs
from tokur_cli.scores.steps import describe_steps, step_spans

LENGTH = 100_000
SECONDS = 1.0
"""What took the square of the length took 18 s and more; in proportion to it, some hundredths."""
TEXTS = ["\n", " ", "a.", ". ", "!\n", ".)", "。", "1. ", "(1) ", "## ", "Step 1", "\n a", "`", "```\n", "e.g. "]


def text(run):
    return ("a." + run * LENGTH)[:LENGTH]


@pytest.mark.parametrize("run", TEXTS)
def test_long_runs_take_time_in_proportion(run):
    began = time.process_time()
    for by in ("auto", "lines", "sentences"):
        spans = step_spans(text(run), by)
        assert spans[0][0] == 0
        assert spans[-1][1] == LENGTH
    candidate_programs(text(run), "def f():\n", "f")
    assert time.process_time() - began < SECONDS


def test_steps_of_many_tokens_are_described_in_time():
    offsets = [(place, place + 1) for place in range(LENGTH)]
    began = time.process_time()
    (step,) = describe_steps("\n" * LENGTH, offsets, {"eu": [0.5] * LENGTH}, "auto")
    assert step["eu"]["sum"] == LENGTH / 2
    assert time.process_time() - began < SECONDS
