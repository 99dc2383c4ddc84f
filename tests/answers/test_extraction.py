import time

import pytest

from tokur_cli.answers.canonical import canonical
from tokur_cli.answers.equivalence import compare_cheaply
from tokur_cli.answers.extract import Extraction, extract_answer, reference_answer, wanted_by, wanted_of


@pytest.mark.parametrize(
    ("response", "answer", "rule"),
    [
        # a box wins over everything that is said before it
        (r"The answer is 4. No: \boxed{\frac{1}{2}}.", r"\frac{1}{2}", "boxed"),
        (r"\boxed{2}, \boxed{3} and \boxed{5}", "2, 3, 5", "boxed"),
        (r"Part (a): \boxed{3}. Part (b): \boxed{5}.", "3, 5", "boxed"),
        (r"\boxed{x = \boxed{7}}", "7", "boxed"),
        (r"First \boxed{2} which means that x is \boxed{3}", "3", "boxed"),
        (r"empty \boxed{} after \boxed{8}; \boxed{}", "8", "boxed"),
        (r"\boxed 9 and \fbox{10}", "10", "boxed"),
        (r"interest is \boxed{200}. The final answer is $10,455$. I hope it is correct.", "$10,455$", "answer_is"),
        ("The answer is 3. <answer> 42 </answer>", "42", "tagged"),
        ("The answer is 4.\n\nQuestion: What is 2 + 3?\nThe answer is 5.", "4", "answer_is"),
        ("60 + 12\n#### 1,072", "1,072", "hash"),
        ("48/2 = <<48/2=24>>24 clips\nA: 72\n", "72", "answer_line"),
        ("#### Step 2: Multiply\n(x + 1)(x + 2)", "(x + 1)(x + 2)", "whole"),
        ("The answer is 42. The answer is 43.", "43", "answer_is"),
        ("Answer: First we add 3 to 4. Then we double it to get 14.", "14", "closing"),
        ("Final Answer: The largest $n$ is 34.", "34", "answer_is"),
        ("## Final Answer\n\n42", "42", "answer_is"),
        ("**Final Answer:**\n\\[ x = 3 \\]", r"\[ x = 3 \]", "answer_is"),
        ("The answer is 18 because 3 * 6 = 18, not 20.", "18", "answer_is"),
        ("The correct answer is Evelyn.", "Evelyn", "answer_is"),
        ("The answer is **43** dollars.", "43 dollars", "answer_is"),
        ("The answer is B because it fits.", "B", "answer_is"),
        ("The answers are A and C because both fit.", "A and C", "answer_is"),
        ("The answer is Marie Curie, who won 2 prizes.", "Marie Curie", "answer_is"),
        (r"The area is $\pi r^2 = \pi \cdot 6^2 = 36\pi$ square inches.", r"36\pi", "closing"),
        ("World War I", "World War I", "whole"),
        ("The capital of France is:\n\n**Paris**", "Paris", "whole"),
        ("That is 1,234.50 dollars in all", "1,234.50 dollars", "closing"),
        (r"Therefore we have $x = \frac{3}{4}$ for all $x$.", r"$x = \frac{3}{4}$", "closing"),
        ("It was $40 + $10 + $7 = $57", "$57", "closing"),
        ("3 * 20 = 60%. Tom has 60% of it.", "60%", "closing"),
        ("We know $x = 5$. It might be 8. So she has 7 apples.", "7", "closing"),
        ("I had 1,303 - 3 = 1,300 dollars", "1,300 dollars", "closing"),
    ],
)
def test_extract_answer_goes_by_the_documented_precedence(response, answer, rule):
    assert extract_answer(response) == Extraction(answer, rule)


@pytest.mark.parametrize(
    ("reference", "responses"),
    [
        ("12", ["一共有12个。", "答案是12。", "共12元", "答えは12です。", "The answer is:\n- 12"]),
        ("-3", ["答案是-3", "The answer is minus 3.", "It is negative 3.", "We subtract:\n-3", r"So \(x = -3\)."]),
        ("42", ["The answer is therefore 42 of the 50 apples.", "The answer is then 42, not 43"]),
        ("42", ["The answer is approximately 42 miles in 3 hours", "The answer is simply 42 (see step 3)"]),
        ("42", [rf"6 {sign} 7 = 42 dollars, as expected" for sign in (r"\times", r"\cdot", "⋅", "×", "X", "x", "*")]),
        ("yes", ["True, as shown.", "It is odd.\n\nSo **yes**.", "7 > 1. The answer is yes, as shown."]),
        ("no", ["**No.** 9 is divisible by 3.", "9 = 3 * 3\n**Answer:** No, it is not."]),
        ("A", ["The answer is A", "**Answer:** A", "The answer is Option A, yes.", "So B?\n\n**A**", "#### Option A"]),
        ("C", ["I pick option C over A, since A is big.", "I think it's C because A and B are wrong.", "Not A but C"]),
        ("C", ["C, but A is wrong", "I pick option C. Is it not A?", "I take option C. This is since option A"]),
        ("C", ["The fit is (C).", "C. Because B is not", "A? We choose C.", "Option C or option D? I take option C"]),
    ],
)
def test_extract_answer_reads_what_people_write(reference, responses):
    for response in responses:
        found = extract_answer(response, wanted=wanted_by(reference))
        same = {"true": "yes"}.get(found.text.lower(), found.text)
        assert compare_cheaply(canonical(reference), canonical(same)), response


UNCLEAR = ["So x > 11.", "So she has at most 12 apples.", "The answer is at least 8.", "Let x = 12.", "If answer: 4."]
UNCLEAR += ["La respuesta es al menos 8.", "Die Antwort ist höchstens 8.", "答案至少是8个以上。", "It might be 8."]
UNCLEAR += ["Sarah doesn't have 12 apples.", "The answer is 5 to 7 days.", "The answer is 12, but this is wrong.", "9?"]
UNCLEAR += ["Here, 3 × 4 = 12. Next, we subtract the", "3 × 4 = 12\n7 + 1 =", "<think>Maybe the answer is 13, but"]
UNCLEAR += [r"Therefore we get \boxed{1", "It costs $5 and she has $7 to spend.", "The answer is not 42.", "", "}{"]
UNCLEAR += ["The answer would be 25.", "They will not have 3 buttons to use.", "Don't add the 4.", "故 α 不是 3。"]
UNCLEAR += ["It takes 3 hours and 30 minutes.", "The answer is 1 h 45 min.", "The claim is false.", "The answer is 4 +"]


@pytest.mark.parametrize("response", UNCLEAR)
def test_extract_answer_reads_nothing_that_is_not_stated(response):
    assert extract_answer(response) is None


def test_extract_answer_reads_no_verdict_or_letter_that_is_open():
    for response in ("Yes, but only if it rains.", "Maybe.", "True or false"):
        assert extract_answer(response, wanted="verdict") is None, response
    for response in ("?", "Either B or C.", "A\nB\nC"):
        assert extract_answer(response, wanted="choice") is None, response
    assert extract_answer("Yes, 11 is prime.", wanted="value") is None


def test_extract_answer_reads_no_name_in_bold_that_is_not_what_is_said():
    said = ["The author of **Hamlet** is William Shakespeare.", "Die Hauptstadt von **Österreich** ist Wien."]
    said += [
        "The capital of Australia is Canberra.\n\n**Note**: Sydney is larger.",
        "It is Canberra.\n\n**Would you like more detail?**",
    ]
    for response in (*said, "The largest planets are these.\n- **Jupiter**\n- **Saturn**"):
        assert extract_answer(response, wanted="words") is None, response


def test_extract_answer_takes_a_closing_letter_before_a_boxed_formula():
    worked = r"We get \boxed{v = \sqrt{2gh}}, which only one option has."
    assert extract_answer(worked + "\n\n**Answer: D**", wanted="choice").text == "D"
    assert extract_answer(worked + " So I choose option (B).", wanted="choice").text == "B"
    assert extract_answer(worked + "\n\nAnswer: as above", wanted="value").text == r"v = \sqrt{2gh}"


def test_extract_answer_reads_a_sentence_in_a_tag_like_any_other():
    response = "<answer>So she has 3 + 4 = 7 apples.</answer>"
    assert extract_answer(response, wanted="value").text == "7"
    assert extract_answer("<answer>Yes, it is prime.</answer>", wanted="verdict").text == "Yes"
    assert extract_answer("<answer>Apollo 11 it was.</answer>", wanted="words").text == "Apollo 11 it was."


def test_wanted_by_tells_from_a_reference_what_a_question_wants():
    references = {"B": "choice", "May 7": "words", "x^2": "value", "St. Louis": "words", "True": "verdict", None: None}
    assert {reference: wanted_by(reference) for reference in references} == references
    assert [*map(wanted_of, (["12", "7"], ["12", "Evelyn"], ["B", "12"]))] == ["value", None, "choice"]


def test_reference_answer_is_the_reference_or_what_its_solution_gives():
    references = {" 1,234 ": "1,234", "He sells 9 * 2 = 18.\n#### 18": "18"}
    references |= {r"We find $x = \boxed{\sqrt{2}}$.": r"\sqrt{2}", "a regular hexagon": "a regular hexagon"}
    assert {reference: reference_answer(reference) for reference in references} == references


TAGS = [
    *(("<think>", "</think>"), ("<seed:think>", "</seed:think>"), ("[THINK]", "[/THINK]"), ("◁think▷", "◁/think▷")),
    *(("<reasoning>", "</reasoning>"), ("<|inner_prefix|>", "<|inner_suffix|>"), ("[unused16]", "[unused17]")),
    ("<|begin_of_thought|>", "<|end_of_thought|>\n<|begin_of_solution|>"),
    ("<|START_THINKING|>", "<|END_THINKING|><|START_RESPONSE|>"),
    ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
    *(("<|channel>thought\n", "<channel|>"), ("analysis", "assistantfinal")),
    ("Here is my thought process:\n", "\nHere's my response:\n"),
]
THOUGHT = "We try both. At first \\boxed{9} seems right, so the answer is 9. But the text says otherwise."


@pytest.mark.parametrize(("opening", "closing"), TAGS)
def test_extract_answer_sets_reasoning_aside(opening, closing):
    assert extract_answer(f"{opening}{THOUGHT}{closing}In the end there are 8 left.").text == "8"
    assert extract_answer(f"{THOUGHT}{closing}In the end there are 8 left.").text == "8"  # the template has opened it
    assert extract_answer(f"{opening}{THOUGHT}") is None
    assert extract_answer(f"{opening}{THOUGHT}{closing}") is None


RUNS = [*' \n\ta01-=([{}\\$^_*#`",!/<%é数。', "b ", "1,", "1.", "1 000 ", "a=", "()", "\\a", "```\n", ". ", "\u0301"]
RUNS += ["\\boxed{", "\\text{", "\\frac{", "<answer>", "</answer>", "<think>", "answer is ", "is ", "and ", "not "]
RUNS += ["Step 1", "## ", "1. ", "twenty-", "so ", "x^2+", "2*3=", "If ", "Question: ", "\nQuestion: "]


def test_extract_answer_takes_time_in_proportion_to_a_hostile_text():
    for run in RUNS:
        for start, end in (("", ""), ("The answer is ", "!"), ("\\boxed{", ""), ("It is **5** ", "")):
            text = start + run * (40_000 // len(run)) + end
            began = time.thread_time()
            extract_answer(text)
            assert time.thread_time() - began < 2, (start, run, end)  # the square of the length would take minutes
