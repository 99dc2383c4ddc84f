"""What the model is asked about its own responses, and how that is worded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tokur_cli.records.errors import TokurError
from tokur_cli.records.prompt import SYSTEM_ROLES
from tokur_cli.records.record import Record

if TYPE_CHECKING:
    from tokur_cli.engine.text.tokens import ResponseTokenizer

P_TRUE = """Question: {question}
Proposed Answer: {response}
Is the proposed answer:
 (A) True
 (B) False
The proposed answer is:"""
"""P(True)'s prompt (Kadavath et al. 2022, section 3.1), without examples."""

VERIFICATION = """Question: {question}
Proposed Answer: {response}
Is the proposed answer correct? Begin with True or False, then say why in one or two sentences."""
"""What a verification attempt is asked; the paper does not give its words."""

JUDGE = """We are evaluating answers to the question "{question}"
Here are two possible answers:
Possible Answer 1: {first}
Possible Answer 2: {second}
Does Possible Answer 1 semantically entail Possible Answer 2? Respond with Yes or No."""
"""After Farquhar et al. 2024, who ask for entailment, contradiction or neutral."""


def question_about(record: Record, form: str, tokenizer: ResponseTokenizer) -> str:
    """Return what is asked about a response, in the form ``P_TRUE`` or ``VERIFICATION``."""
    return form.format(question=question_of(record, tokenizer), response=record.response)


def asked_ids(what: str, text: str, tokenizer: ResponseTokenizer) -> list[int]:
    """Return the token ids of one of our questions: a user's turn, or the whole prompt without a chat template.

    Raises:
        TokurError: it is too long, say; names ``what`` is asked.
    """
    try:
        if not tokenizer.chat.template:
            return tokenizer.tokenize_prompt(text, special_tokens=True)
        return tokenizer.tokenize_prompt(tokenizer.chat.render([{"role": "user", "content": text}]))
    except TokurError as error:
        raise TokurError(f"{what}: {error}") from error


def question_of(record: Record, tokenizer: ResponseTokenizer) -> str:
    """Return what a response answers, as text: the question itself rather than a prompt that was made from it.

    A single user's turn is given as it is, several with who speaks; system turns tell how to answer, not what.
    """
    if not (turns := record.turns):
        prompt = record.prompt
        assert prompt.token_ids is not None  # without turns there is nothing else, or an error was raised
        return tokenizer.decode(prompt.token_ids).strip()
    spoken = [turn for turn in turns if turn["role"] not in SYSTEM_ROLES]
    if len(spoken) == 1:
        return str(spoken[0]["content"])
    return "\n".join(f"{turn['role'].capitalize()}: {turn['content']}" for turn in spoken)
