import pytest

from tokur_cli.answers.extract import extract_answer

TAGS = [
    ("<think>", "</think>"),
    ("<Thinking>", "</Thinking>"),
    ("<thought>", "</thought>"),
    ("<reasoning>", "</reasoning>"),
    ("<seed:think>", "</seed:think>"),
    ("<mm:think>", "</mm:think>"),
    ("<longcat_think>", "</longcat_think>"),
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
    ("<|begin_of_thought|>", "<|end_of_thought|>\n<|begin_of_solution|>"),
    ("<|START_THINKING|>", "<|END_THINKING|><|START_RESPONSE|>"),
    ("<|inner_prefix|>", "<|inner_suffix|>"),
    ("<|channel>thought\n", "<channel|>"),
    ("<unused94>thought\n", "<unused95>"),
    ("[unused16]", "[unused17]"),
    ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
    ("analysis", "assistantfinal"),
    ("Here is my thought process:\n", "\nHere's my response:\n"),
]
THOUGHT = "We try both. At first \\boxed{9} seems right, so the answer is 9. But the text says otherwise."


@pytest.mark.parametrize(("opening", "closing"), TAGS)
def test_extract_answer_sets_reasoning_aside(opening, closing):
    assert extract_answer(f"{opening}{THOUGHT}{closing}In the end there are 8 left.").text == "8"
    assert extract_answer(f"{THOUGHT}{closing}In the end there are 8 left.").text == "8"  # the template has opened it
    assert extract_answer(f"{opening}{THOUGHT}") is None
    assert extract_answer(f"{opening}{THOUGHT}{closing}") is None


def test_extract_answer_reads_a_response_that_speaks_of_its_analysis():
    assert extract_answer("analysis of the sums gives 3 + 4 = 7 apples.").text == "7"
