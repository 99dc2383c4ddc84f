import pytest

from tokur_cli.answers.verdicts import verdict


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("True", True), ("true.", True), ("**True**: 2 + 2 is 4, not 5.", True), ("False", False), ("FALSE!", False),
        ("The proposed answer is correct.", True), ("It is incorrect, the true answer is 5.", False),
        ("Yes, it is not wrong.", True), ("No. True would be 5.", False), ("That's wrong", False),
        ("The proposed answer is not true.", False), ("It isn't correct.", False), ("It isn’t correct", False),
        ("The proposed answer is not entirely correct. The correct answer is 24.", False), ("Not at all true", False),
        ("It is not wrong.", True), ("The answer is 3", None), ("", None), ("Untrue, nothing, corrected", None),
    ],
)  # fmt: skip
def test_the_first_word_of_judgement_decides(text, expected):
    assert verdict(text) is expected
