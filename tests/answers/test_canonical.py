from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tokur_cli.answers.canonical import canonical
from tokur_cli.answers.extract import extract_answer, reference_answer


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("18", 18),
        ("18.", 18),
        ("+18.00", 18),
        ("−5", -5),
        ("- 5", -5),
        ("1,234,567.5", Fraction("1234567.5")),
        ("1 000", 1000),
        ("1\u202f000", 1000),
        (r"10,\!080", 10080),
        (r"11,\! 111,\! 100", 11111100),
        ("14{,}916", 14916),
        ("1{,}22", Fraction("1.22")),
        ("seventeen", 17),
        ("nine hundred ninety-nine", 999),
        (".0000672", Fraction("0.0000672")),
        ("3/4", Fraction(3, 4)),
        (r"-\frac{3}{4}", Fraction(-3, 4)),
        (r"\dfrac{-3}{4}", Fraction(-3, 4)),
        (r"\frac34", Fraction(3, 4)),
        (r"\tfrac{270}7", Fraction(270, 7)),
        ("1 1/2", Fraction(3, 2)),
        (r"1\frac{1}{2}", Fraction(3, 2)),
        ("1½", Fraction(3, 2)),
        ("1.5e3", 1500),
        (r"3.2 \times 10^{5}", 320000),
        ("10^{-3}", Fraction(1, 1000)),
        (r"0.\overline{3}", Fraction(1, 3)),
        (r"0.1\overline{6}", Fraction(1, 6)),
        (r"0.01\overline{6}", Fraction(1, 60)),
        (r"0.3\overline{18}", Fraction(7, 22)),
        (r"2.\overline{142857}", Fraction(15, 7)),
        (r"-.\overline{09}", Fraction(-1, 11)),
        ("$18", 18),
        (r"\$32,\!348", 32348),
        ("-$5", -5),
        ("$-5", -5),
        ("$18$", 18),
        (r"\(18\)", 18),
        (r"\boxed{18}", 18),
        ("**18**", 18),
        ("(18)", 18),
        ("x = 18", 18),
        ("18 apples", 18),
        ("18 men", 18),
        ("18 dollars per day", 18),
        (r"18\text{ degrees}", 18),
        (r"90^\circ", 90),
        ("25°C", 25),
        (r"15\mbox{ cm}^2", 15),
        ("52_8", 52),
        ("762 M&M's", 762),
        ("minus 5", -5),
        ("negative five", -5),
        ("negative 5 degrees", -5),
        ("1 200 €", 1200),
        ("1.234,50 €", Fraction("1234.5")),
        ("1.234.567", 1234567),
        ("12,34,567", 1234567),
        ("1'234'567", 1234567),
        ("0,5 kg", Fraction(1, 2)),
        ("2,50 €", Fraction(5, 2)),
        ("**1.000 €**", 1000),
        ("-12.500\u202f€", -12500),
        (r"1.000\,\text{€}", 1000),
        ("1.234 ₽", 1234),
        ("1.000,- €", 1000),
        ("€ 1.000,–", 1000),
        ("99,– €", 99),
        ("Rs. 1,000/-", 1000),
        ("€1.459", Fraction("1.459")),
        ("1.45 €", Fraction("1.45")),
        ("0.999 €", Fraction("0.999")),
        ("“42”", 42),
        ("<b>42</b>", 42),
        ("٤٢", 42),
        ("४२", 42),
        ("４２", 42),
        ("四十二", 42),
        ("三百五十个", 350),
        ("3万5千", 35000),
        ("one half", Fraction(1, 2)),
        ("two and a half", Fraction(5, 2)),
        ("10⁻³", Fraction(1, 1000)),
        ("42nd", 42),
        ("3 hours and 30 minutes", Fraction(7, 2)),
        ("5 ft 3 in", Fraction(21, 4)),
        ("127/3 ≈ 42.33", Fraction(127, 3)),
        # what is worked out ends with the last right side
        ("3 + 4 = 7", 7),
        ("1,000 + 500 = 1,500", 1500),
        (r"$12 \times 4 = 48$", 48),
        (r"\frac{12}{4} = 3\text{ apples}", 3),
        ("x = 3 + 4 = 7", 7),
        ("4 x 2 = 8", 8),
        ("2^{10} = 1024", 1024),
    ],
)
def test_a_number_is_read_exactly(text, value):
    assert canonical(text).number.value == value


@pytest.mark.parametrize(
    "text",
    [
        "5x",
        "6abc",
        "5!",
        "5 x",
        "5 ab",
        "5 is",
        "2 pi",
        r"3\sqrt{2}",
        "2^{10}",
        "9**9",
        "1/0",
        "5 or 7",
        "1, 2",
        "32, 349",
        "(1,234)",
        "1,22",
        "12:00",
        "--5",
        "-$-5",
        "1.2.3",
        "",
        "x",
        "1e9999",
        r"\pm 5",
        "0,111",
        "nan",
        "inf",
        "5 = x",
        "x = y = 3",
        "3x + 2 = 11",
        "2x = 4 + 2 = 6y",
        "a = 1, b = 2",
        "x <= 5",
    ],
)
def test_what_is_more_than_a_number_is_not_read_as_one(text):
    assert canonical(text).number is None


@pytest.mark.parametrize(
    ("text", "kind", "normal"),
    [
        ("(c)", "choice", "C"),
        ("C.", "choice", "C"),
        (r"\text{(C)}", "choice", "C"),
        ("(C) 12 dollars", "choice", "C"),
        ("B: the second", "choice", "B"),
        (r"\text{Evelyn}", "words", "evelyn"),
        ("North  East", "words", "north east"),
        ("Yes!", "words", "yes"),
        ("c", "expression", "c"),
        (r"\pi", "expression", r"\pi"),
        (r"\left( 3, \dfrac{\pi}{2} \right)", "expression", r"(3, \frac{\pi}{2})"),
        (r"12\text{ and }13", "expression", "12 and 13"),
        ("3,5 , 7", "expression", "3, 5, 7"),
        ("2024-03-05", "words", "2024-03-05"),
        ("March 5, 2024", "words", "2024-03-05"),
        ("10:30", "words", "10:30"),
        ("10:30 pm", "words", "10:30pm"),
        ("いいえ", "words", "no"),
    ],
)
def test_other_answers_have_a_kind_and_a_normal_text(text, kind, normal):
    form = canonical(text)
    assert (form.kind, form.text) == (kind, normal)


@pytest.mark.parametrize(
    ("text", "scale", "dimension", "factor"),
    [
        (r"50\%", Fraction(1, 100), None, 1),
        ("50 percent", Fraction(1, 100), None, 1),
        ("$5 million", 10**6, "dollar", 1),
        ("$2.5M", 10**6, "dollar", 1),
        ("2 dozen", 12, None, 1),
        ("1.5万元", 10**4, "yuan", 1),
        ("60 minutes", 1, "time", 60),
        ("3 square feet", 1, "length^2", Fraction("0.3048") ** 2),
        (r"3 \text{ cm}^3", 1, "length^3", Fraction(1, 10**6)),
        ("5 miles per hour", 1, None, 1),
        ("5 widgets", 1, None, 1),
        (r"5\text{ }", 1, None, 1),
    ],
)
def test_scale_and_unit_are_kept_apart_from_the_value(text, scale, dimension, factor):
    number = canonical(text).number
    assert number.scale == scale
    assert (number.unit.dimension if number.unit else None) == dimension
    assert (number.unit.factor if number.unit else 1) == factor


@settings(deadline=None)  # expressions are compiled on their first use
@given(
    st.fractions(max_denominator=10**6), st.sampled_from(["{}", "${}$", r"\boxed{{{}}}", "**{}**", " {}.", "x = {}"])
)
def test_every_fraction_is_read_back_from_every_dress(value, dress):
    assert canonical(dress.format(value)).number.value == value


@settings(deadline=None)
@given(st.integers(-(10**15), 10**15), st.integers(0, 6))
def test_every_decimal_is_read_back_with_thousands_separated(digits, places):
    text = f"{digits:,}" + (f".{abs(digits) % 10**places:0{places}d}" if places else "")
    assert canonical(text).number.value == Fraction(text.replace(",", ""))


PIECES = [
    *(r"\text{", r"\text{}", r"\mathrm{", r"\boxed{", r"\frac", r"\sqrt", r"\overline{", r"\left", r"\right", r"\\"),
    *(r"\begin{pmatrix}", r"\,", r"\!", r"\%", r"\(", r"\)", "$", "$$", "&", "{", "}", "{1}", "{0}", "{-3}", r"\circ"),
    *("10^", "5", "12", "1,000", ".5", "e5", "٣", "５", "½", "²", "^2", "π", "°", "%", "€", "x", "+", "-", "/"),
    *("=", "_", " ", "\n", ".", ",", ":", "(", ")", "**", "cm", "hour", "million", "two", "and", "or", "A", "B.", "A:"),
    *("#### ", "the answer is ", "Final answer: "),
]


@settings(max_examples=1000, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=6).map("".join) | st.text(max_size=60))
def test_any_text_has_a_canonical_form_and_an_answer_or_none(text):
    assert canonical(text).kind in ("number", "choice", "words", "expression")
    for found in (extract_answer(text), extract_answer(text, wanted="choice")):
        assert found is None or found.text
    assert reference_answer(text) is None or text.strip()
