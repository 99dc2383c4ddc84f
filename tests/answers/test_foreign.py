"""Numbers and hours in words, against the library that writes them and against dictionaries' examples."""

import random

import pytest
from num2words import num2words

from tokur_cli.answers.reading.canonical import canonical
from tokur_cli.answers.reading.foreign import read_foreign
from tokur_cli.answers.reading.moments import first_moment


@pytest.mark.parametrize("language", "cs de es fr id it nl pl pt ro ru sv uk vi".split())  # noqa: SIM905
def test_a_number_in_words_is_read_whole(language):
    numbers = random.Random(0)
    for number in [*range(2, 120, 7), *(numbers.randrange(120, 10 ** numbers.randrange(3, 7)) for _ in range(80))]:
        words = num2words(number, lang="pt_BR" if language == "pt" else language)
        assert read_foreign(words, language) == (number, len(words)), words


@pytest.mark.parametrize(
    ("text", "language"),
    [("uno dos", "es"), ("zwei drei", "de"), ("un perro", "es"), ("eine Frage", "de"), ("네", "ko"), ("khác", "vi")],
)
def test_words_that_make_no_one_number_are_none(text, language):
    assert read_foreign(text, language) is None


@pytest.mark.parametrize(
    ("text", "language", "time"),
    [
        ("um halb elf", "de", "10:30"),
        ("um halb 1", "de", "12:30"),
        ("um Viertel vor neun", "de", "8:45"),
        ("om kwart over tien", "nl", "10:15"),
        ("o wpół do jedenastej", "pl", "10:30"),
        ("в половине двенадцатого", "ru", "11:30"),
        ("a las nueve menos cuarto", "es", "8:45"),
        ("alle dieci e mezza", "it", "10:30"),
        ("à dix heures moins le quart", "fr", "9:45"),
        ("klockan halv sju", "sv", "6:30"),
        ("um 10.30 Uhr", "de", "10:30"),
        ("saat 9.45'te", "tr", "9:45"),
        ("下午两点半", "zh", "2:30 pm"),
        ("오후 2시 30분", "ko", "2:30 pm"),
        ("lúc 10 giờ 30", "vi", "10:30"),
    ],
)
def test_an_hour_is_read_as_its_language_says_it(text, language, time):
    found = first_moment(text, 0, language)
    assert found is not None
    assert canonical(found.text).text == canonical(time).text


@pytest.mark.parametrize(
    ("text", "language"), [("10,30 Uhr", "de"), ("1시간 걸립니다", "ko"), ("2時間30分", "ja"), ("dix heures", "fr")]
)
def test_what_is_no_hour_is_none(text, language):
    assert first_moment(text, 0, language) is None
