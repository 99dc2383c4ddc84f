from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tokur_cli.answers.canonical import canonical
from tokur_cli.answers.extract import extract_answer, reference_answer

NUMBERS = {
    18: ("18", "18.", "+18.00", "$18", "$18$", r"\(18\)", r"\boxed{18}", "**18**", "(18)", "x = 18", "18 apples"),
    -5: ("−5", "- 5", "-$5", "≈ -5", "&minus;5", "minus 5", "negative five", "negative 5 degrees"),
    1234567: ("1,234,567", "1 234 567", "1\u202f234\u202f567", "1.234.567", "12,34,567", "1'234'567", r"1,\!234,\!567"),
    14916: ("14{,}916", "fourteen thousand nine hundred and sixteen"),
    2_003_000_000_000: ("two trillion three billion", "two million million three thousand million"),
    Fraction("1.22"): ("1{,}22", "1.22"),
    999: ("nine hundred ninety-nine", "999 dollars per day", r"999\text{ degrees}", r"999^\circ"),
    Fraction(3, 4): ("3/4", r"\frac{3}{4}", r"\dfrac34", "¾", ".75"),
    Fraction(3, 2): ("1 1/2", r"1\frac{1}{2}", "1½", "1,5 kg", "1,50 €"),
    Fraction(270, 7): (r"\tfrac{270}7",),
    320000: (r"3.2 \times 10^{5}", "3.2e5", "320.000 €"),
    Fraction(1, 1000): ("10^{-3}", "10⁻³"),
    Fraction(1, 60): (r"0.01\overline{6}",),
    Fraction(121, 909): (r"0.\overline{1331}",),
    Fraction("1234.5"): ("1.234,50 €", "1,234.5"),
    42: ("٤٢", "४२", "４２", "“42”", "<b>42</b>", "42nd", "25 + 17 = 42", "x = 40 + 2 = 42", r"$6 \times 7 = 42$"),
    52: ("52_8",),
    3: (r"\frac{12}{4} = 3\text{ apples}",),
}


@pytest.mark.parametrize("value", NUMBERS)
def test_canonical_reads_a_number_exactly(value):
    assert {text: canonical(text).number.value for text in NUMBERS[value]} == dict.fromkeys(NUMBERS[value], value)


def test_canonical_reads_no_number_in_what_is_more_than_one():
    texts = ["5x", "6abc", "5!", "5 is", "2 pi", r"3\sqrt{2}", "2^{10}", "1/0", "5 or 7", "1, 2", "32, 349", "1,22"]
    texts += ["12:00", "--5", "1.2.3", "", "x", "1e9999", r"\pm 5", "nan", "5 = x", "x = y = 3", "3x + 2 = 11"]
    texts += ["x <= 5", "25π", "x ≤ 5"]
    assert [text for text in texts if canonical(text).number is not None] == []


@pytest.mark.parametrize(
    ("text", "kind", "normal"),
    [
        (r"\text{(C)}", "choice", "C"),
        ("(C) 12 dollars", "choice", "C"),
        (r"\text{Evelyn}", "words", "evelyn"),
        ("いいえ", "words", "no"),
        ("c", "expression", "c"),
        (r"\left( 3, \dfrac{\pi}{2} \right)", "expression", r"(3,\frac{\pi}{2})"),
        (r"12\text{ and }13", "expression", "12 and 13"),
        ("2024-03-05", "words", "2024-03-05"),
        ("10:30 pm", "words", "10:30pm"),
    ],
)
def test_canonical_gives_other_answers_a_kind_and_a_text(text, kind, normal):
    form = canonical(text)
    assert (form.kind, form.text) == (kind, normal)


@given(
    st.fractions(max_denominator=10**6), st.sampled_from(["{}", "${}$", r"\boxed{{{}}}", "**{}**", " {}.", "x = {}"])
)
def test_canonical_reads_every_fraction_back_from_every_dress(value, dress):
    assert canonical(dress.format(value)).number.value == value


PIECES = [
    *(r"\text{", r"\text{}", r"\mathrm{", r"\boxed{", r"\frac", r"\sqrt", r"\overline{", r"\left", r"\right", r"\\"),
    *(r"\begin{pmatrix}", r"\,", r"\!", r"\%", r"\(", r"\)", "$", "$$", "&", "{", "}", "{1}", "{0}", "{-3}", r"\circ"),
    *("10^", "5", "12", "1,000", ".5", "e5", "٣", "５", "½", "²", "^2", "π", "°", "%", "€", "x", "+", "-", "/"),
    *("=", "_", " ", "\n", ".", ",", ":", "(", ")", "**", "cm", "hour", "million", "two", "and", "or", "A", "B.", "A:"),
    *("#### ", "the answer is ", "Final answer: "),
]


@settings(max_examples=500)
@given(st.lists(st.sampled_from(PIECES), max_size=6).map("".join) | st.text(max_size=60))
def test_canonical_and_extract_answer_take_any_text(text):
    assert canonical(text).kind in ("number", "choice", "words", "expression")
    for found in (extract_answer(text), extract_answer(text, wanted="choice")):
        assert found is None or found.text
    assert reference_answer(text) is None or text.strip()
