"""Texts that make a regular expression try again and again take time in proportion to their length."""

import time

from tokur_cli.answers.extract import extract_answer

RUNS = [*' \n\ta01-=([{}\\$^_*#`",!/<%é数。', "b ", "1,", "1.", "1 000 ", "a=", "()", "\\a", "```\n", ". ", "\u0301"]
RUNS += ["\\boxed{", "\\text{", "\\frac{", "<answer>", "</answer>", "<think>", "answer is ", "is ", "and ", "not "]
RUNS += ["Step 1", "## ", "1. ", "twenty-", "x^2+", "2*3=", "If "]
LENGTH = 40_000
ENOUGH_SECONDS = 2.0
"""The square of the length would take minutes."""


def test_answers_of_hostile_texts_are_read_in_time():
    for run in RUNS:
        for start, end in (("", ""), ("The answer is ", "!"), ("\\boxed{", "")):
            text = start + run * (LENGTH // len(run)) + end
            began = time.process_time()
            extract_answer(text)
            assert time.process_time() - began < ENOUGH_SECONDS, (start, run, end)
