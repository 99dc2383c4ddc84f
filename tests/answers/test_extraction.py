import pytest

from tokur_cli.answers.canonical import canonical
from tokur_cli.answers.equivalence import compare_cheaply
from tokur_cli.answers.extract import extract_answer, reference_answer, wanted_by


@pytest.mark.parametrize(
    ("response", "answer", "rule"),
    [
        # a box wins over everything that is said before it
        (r"The answer is 4. No: \boxed{\frac{1}{2}}.", r"\frac{1}{2}", "boxed"),
        (r"\boxed{1} at first, then \boxed{\text{a set } \{1\}}", r"\text{a set } \{1\}", "boxed"),
        (r"\boxed{2}, \boxed{3} and \boxed{5}", "2, 3, 5", "boxed"),
        (r"\boxed{5} and \boxed{5}", "5", "boxed"),
        (r"\boxed{1} papers and \boxed{2} bins", "1, 2", "boxed"),
        (r"\(\boxed{6}\) or \(\boxed{-2}\)", "6, -2", "boxed"),
        (r"So \boxed{5}. Check.\n\n**Answer**\n\boxed{5}", "5", "boxed"),
        (r"\boxed{1} is not it. Instead \boxed{2}", "2", "boxed"),
        (r"\boxed{1}" + " " * 200 + r"\boxed{2}", "2", "boxed"),
        (r"\boxed{1}" + " " * 100 + r"\boxed{2}", "1, 2", "boxed"),
        (r"\boxed{x = \boxed{7}}", "7", "boxed"),
        (r"first \boxed{3}, then \boxed{", "3", "boxed"),
        (r"empty \boxed{} after \boxed{8}; \boxed{}", "8", "boxed"),
        (r"\boxed 9", "9", "boxed"),
        (r"\fbox{10}", "10", "boxed"),
        (r"interest is \boxed{200}. The final answer is $10,455$. I hope it is correct.", "$10,455$", "final_answer"),
        (r"\boxed{11}. I hope the final answer is right.", "11", "boxed"),
        ("60 + 12\n#### 1,072", "1,072", "hash"),
        ("#### 5\nNo, that counts Tom twice.\n#### 7", "7", "hash"),
        ("48/2 = <<48/2=24>>24 clips\nA: 72\n", "72", "answer_line"),
        ("A: 5", "5", "answer_line"),
        ("#### Step 2: Multiply\n6 * 3 = 18", "18", "whole"),
        ("A: Tom has 3 bags of 4, so 12 in all, and the answer is 12.", "12", "answer_is"),
        ("Answer: First we add 3 to 4. Then we double it to get 14.", "14", "closing"),
        ("The answer is 72!", "72", "answer_is"),
        (r"\boxed{5!}", "5!", "boxed"),
        ("The final answer is: $7$. I hope it is correct.", "$7$", "final_answer"),
        ("Final Answer: The largest $n$ is 34.", "34", "final_answer"),
        ("## Final Answer\n\n42", "42", "final_answer"),
        ("The final answer is 7. For cats alone, the answer is 5.", "7", "final_answer"),
        ("**Final Answer:**\n\\[ x = 3 \\]", r"\[ x = 3 \]", "final_answer"),
        ('Final answer is "$12 $ and $13 $".', "$12 $ and $13 $", "final_answer"),
        ("The answer is 18 because 3 * 6 = 18, not 20.", "18", "answer_is"),
        ("So the answer is that Tom has 12 apples.", "12", "answer_is"),
        ("the answer is 3.5", "3.5", "answer_is"),
        ("ANSWER: $18 per day", "$18 per day", "answer_is"),
        ("The correct answer is Evelyn.", "Evelyn", "answer_is"),
        ("**Answer:** Evelyn", "Evelyn", "answer_is"),
        ("Answer: B, because it fits.", "B", "answer_is"),
        ("**Answer:** (C) 12", "C", "answer_is"),
        ("The answer is B because it fits.", "B", "answer_is"),
        ("The answer is a dog", "a dog", "answer_is"),
        ("It follows that \\boxed{12\nas we see.", "12", "open_box"),
        ("-5", "-5", "whole"),
        ("1 000", "1 000", "whole"),
        (r"\frac{3}{4}", r"\frac{3}{4}", "whole"),
        ("B", "B", "whole"),
        ("Evelyn", "Evelyn", "whole"),
        ("That is 1,234.50 dollars in all", "1,234.50 dollars", "closing"),
        ("A loss of -$200", "-$200", "closing"),
        ("Soucis : 2,74 $ a..", "2,74 $", "closing"),
        ("one of 1,000.99€", "1,000.99€", "closing"),
        ("about 1,000.99m²", "1,000.99m^2", "closing"),
        ("They meet at 7:30 pm", "7:30 pm", "closing"),
        (r"Therefore we have $x = \frac{3}{4}$ for all $x$.", r"$x = \frac{3}{4}$", "closing"),
        (r"Roots are $1$, $2$ and $3$.", "$1$, $2$ and $3$", "closing"),
        ("That makes $28$ percent of them", "$28$ percent", "closing"),
    ],
)
def test_the_documented_precedence_finds_the_answer(response, answer, rule):
    found = extract_answer(response.replace(r"\n", "\n"))
    assert (found.text, found.rule) == (answer, rule)


@pytest.mark.parametrize(
    ("response", "reference"),
    [
        ("小明先有 5 个。\n所以一共有12个。", "12"),
        *((text, "12") for text in ("一共有12个。", "答案是12。", "所以答案是12。", "共12元", "答えは12です。")),
        *((text, "-3") for text in ("答案是-3", "The answer is minus 3.", "It is negative 3.")),
        ("The answer is therefore 42 of the 50 apples.", "42"),
        ("The answer is approximately 42 miles in 3 hours", "42"),
        ("The answer is then 42, not 43", "42"),
        ("The answer is simply 42 (see step 3)", "42"),
        ("The answer is about 42 (rounded up from 41.7)", "42"),
        ("10 books, because 8 + 2 = 10. Checked in 2 ways.", "10"),
        (r"6 \times 7 = 42 dollars, as expected.", "42"),
        (r"50 \div 5 + 32 = 42 dollars, as expected", "42"),
        *((f"6 {sign} 7 = 42 dollars", "42") for sign in (r"\cdot", "⋅", "×", "X", "x")),
        ("3! = 6", "6"),
        ("The answer is:\n- 42", "42"),
        ("Yes, 7 is prime.", "yes"),
        ("No, 7 is not prime.", "no"),
        ("**No.** 9 is divisible by 3.", "no"),
        ("I think it's C because A and B are wrong.", "C"),
    ],
)
def test_what_outsiders_found_misread_is_read(response, reference):
    found = extract_answer(response, wanted=wanted_by(reference))
    assert compare_cheaply(canonical(reference), canonical(found.text))


@pytest.mark.parametrize(
    "response",
    [
        "So x > 11.",
        "So 2x = 11.",
        "Therefore, 3y = 12.",
        "So she has at most 12 apples.",
        "The answer is at least 8.",
        "La réponse est au moins 8.",
        "La respuesta es al menos 8.",
        "Die Antwort ist höchstens 8.",
        "答案至少是8个以上。",
        "Let x = 12.",
        "Sarah doesn't have 12 apples.",
        "It might be 8.",
        "The answer is 5 to 7 days.",
        "The answer is 12, but this is wrong.",
        "Here, 3 × 4 = 12. Next, we subtract the",
        "3 × 4 = 12\n7 + 1 =",
        "<think>Maybe the answer is 13, but",
        r"Therefore we get \boxed{1",
        "It costs $5 and she has $7 to spend.",
    ],
)
def test_what_is_not_stated_for_sure_is_no_answer(response):
    assert extract_answer(response) is None


def test_what_is_denied_is_not_stated():
    assert extract_answer("The answer is not 42.") is None


def test_money_is_no_formula():
    assert extract_answer("It was $40 + $10 + $7 = $57").text == "$57"


@pytest.mark.parametrize("response", ["", "   \n", "I am not sure what is asked here.", "see AZYUK2A over there", "}{"])
def test_a_response_without_an_answer_has_none(response):
    assert extract_answer(response) is None


@pytest.mark.parametrize(
    ("response", "letter"),
    [
        ("I would pick option C, since A is too big.", "C"),
        ("A. Because B is not valid", "A"),
        ("The best fit is (D).", "D"),
        ("It can only be B", "B"),
        ("Not A but B", "B"),
        ("Option C or option D? I take option D", "D"),
    ],
)
def test_a_multiple_choice_is_answered_by_a_letter(response, letter):
    assert extract_answer(response, wanted="choice").text == letter


@pytest.mark.parametrize(
    ("reference", "wants"),
    [
        *(("(B)", "choice"), ("C", "choice"), ("12", "value"), ("x^2", "value"), ("a", "value"), ("3 hours", "value")),
        *(("Evelyn", "words"), ("no", "verdict"), ("True", "verdict"), (None, None)),
    ],
)
def test_a_reference_tells_what_a_question_wants(reference, wants):
    assert wanted_by(reference) == wants


@pytest.mark.parametrize(
    ("reference", "answer"),
    [
        (18, "18"),
        (4.5, "4.5"),
        (" 1,234 ", "1,234"),
        ("He sells 9 * 2 = 18.\n#### 18", "18"),
        (r"We find $x = \boxed{\sqrt{2}}$.", r"\sqrt{2}"),
        (r"\left( 3, \frac{\pi}{2} \right)", r"\left( 3, \frac{\pi}{2} \right)"),
        ("the midpoints form a regular hexagon", "the midpoints form a regular hexagon"),
    ],
)
def test_a_reference_is_the_answer_or_a_solution_that_gives_it(reference, answer):
    assert reference_answer(reference) == answer


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        ("Yes, but only if it rains.", None),
        ("Maybe.", None),
        ("It depends.", None),
        ("True or false", None),
        ("The first statement is true, and the second one is false.", None),
        ("Therefore, the statement is **False**.", "False"),
    ],
)
def test_a_verdict_is_read_where_the_response_decides_and_nowhere_else(response, answer):
    found = extract_answer(response, wanted="verdict")
    assert (found and found.text) == answer


def test_extract_answer_takes_a_closing_letter_before_a_boxed_formula():
    worked = r"We get \boxed{v = \sqrt{2gh}}, which only one option has."
    assert extract_answer(worked + "\n\n**Answer: D**", wanted="choice").text == "D"
    assert extract_answer(worked + " So I choose option (B).", wanted="choice").text == "B"
    assert extract_answer(worked + "\n\nAnswer: as above", wanted="value").text == r"v = \sqrt{2gh}"


@pytest.mark.parametrize(
    "response",
    [
        "Yes, 11 is prime.",
        "No, 15 is not prime.",
        "So 12 is divisible by 4.",
        "We check 2 and 3. Yes, 7 is odd.",
        "Indeed, 8 is even.",
    ],
)
def test_extract_answer_takes_no_value_from_a_verdict(response):
    assert extract_answer(response, wanted="value") is None


def test_extract_answer_finds_no_letter_in_a_mere_question_mark():
    assert extract_answer("?", wanted="choice") is None
