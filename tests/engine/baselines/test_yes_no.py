import pytest

from tests.engine.baselines.plain import by_hand, byte
from tests.tiny import tiny_model, tiny_tokenizer
from tokur_cli.engine.baselines.layers import TextPasses
from tokur_cli.engine.baselines.yes_no import TRUE_OR_FALSE, YES_OR_NO, ask, find_verbalizers
from tokur_cli.records.errors import TokurError

PROMPTS = ["Is it true?", "x", "Question: what is 2 + 2?\nProposed Answer: 5"]


@pytest.mark.parametrize("family", ["llama", "gemma2", "gpt2"])
@pytest.mark.parametrize("batch_tokens", [1, 10_000])
def test_ask_gives_the_probability_of_plain_forward_passes(family, batch_tokens):
    model = tiny_model(family).double()
    forms = find_verbalizers(tiny_tokenizer(), TRUE_OR_FALSE)
    answers = ask(TextPasses(model, batch_tokens), forms, [byte(prompt) for prompt in PROMPTS])
    assert answers == pytest.approx([by_hand(model, prompt) for prompt in PROMPTS], abs=1e-6)
    assert len({round(answer, 4) for answer in answers}) == len(PROMPTS)


class Words:
    """A tokenizer with whole words, a parenthesis with its letter in one token or in two; ids as large as real ones."""

    def __call__(self, text, add_special_tokens):
        assert not add_special_tokens
        ids = {"True": [1], "False": [2], " True": [1], " False": [2], "true": [3], "false": [3],
               "(A)": [4, 5, 6], "(B)": [4, 7, 6], " (A)": [8, 6], " (B)": [9, 6]}  # fmt: skip
        return {"input_ids": [1000 * index for index in ids.get(text, [0])]}


def test_find_verbalizers_counts_forms_once_and_from_where_they_part():
    assert find_verbalizers(Words(), TRUE_OR_FALSE) == [
        ((1000,), (2000,)),
        ((4000, 5000), (4000, 7000)),
        ((8000,), (9000,)),
    ]


def test_find_verbalizers_refuses_a_tokenizer_that_tells_no_form_apart():
    with pytest.raises(TokurError, match="does not tell Yes from No"):
        find_verbalizers(Words(), YES_OR_NO)
