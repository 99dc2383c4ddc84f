"""What the model is asked about its own responses, and how that is worded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tokur_cli.commands.arguments import InputOptions, ModelOptions
from tokur_cli.commands.peeking import peek, read_input
from tokur_cli.records.errors import RecordError, UsageError
from tokur_cli.records.record import Record
from tokur_cli.scores.catalogue import choose_scores

if TYPE_CHECKING:
    from tokur_cli.engine.tokens import ResponseTokeniser

P_TRUE = """Question: {question}
Proposed Answer: {response}
Is the proposed answer:
 (A) True
 (B) False
The proposed answer is:"""
"""P(True)'s prompt (Kadavath et al. 2022, section 3.1), without examples."""


def print_prompts(source: InputOptions, model: ModelOptions, scores: str | None) -> None:
    """Print what the chosen scores would ask about the first response; of the model only its tokenizer is loaded.

    Raises:
        UsageError: the chosen scores ask nothing.
        TokurError: the first record is bad, or the model cannot be had.
    """
    needs = {need for score in choose_scores(scores) for need in score.needs}
    if "p_true" not in needs:
        raise UsageError("--show-prompts: the chosen scores ask the model nothing; name one that does: --scores p_true")
    from tokur_cli.commands.model import describe
    from tokur_cli.commands.progress import Progress
    from tokur_cli.engine.tokens import ResponseTokeniser

    items, named = peek(read_input(source))
    first = next(items, None)
    if first is None:
        raise UsageError("--show-prompts: the input holds no record")
    if isinstance(first, RecordError):
        raise first
    tokeniser = ResponseTokeniser(describe(model, named, Progress("score")).tokenizer)
    print(f"--- p_true ---\n{as_prompt(p_true_question(first, tokeniser), tokeniser)[0]}")


def p_true_question(record: Record, tokeniser: ResponseTokeniser) -> str:
    """Return the question whether a response is true.

    Raises:
        RecordError: the record has no prompt or no response.
    """
    return P_TRUE.format(question=question_of(record, tokeniser), response=record.response)


def as_prompt(text: str, tokeniser: ResponseTokeniser) -> tuple[str, bool]:
    """Return (prompt, whether the tokenizer's special tokens belong before it) for a question of ours.

    It is a user's turn where the model has a chat template, and the whole prompt where it has none.
    """
    if not tokeniser.tokenizer.chat_template:
        return text, True
    return tokeniser.render_chat([{"role": "user", "content": text}]), False


def asked_ids(text: str, tokeniser: ResponseTokeniser) -> list[int]:
    """Return the token ids of a question of ours.

    Raises:
        TokurError: it is longer than the model's context.
    """
    prompt, special_tokens = as_prompt(text, tokeniser)
    return tokeniser.tokenise_prompt(prompt, special_tokens=special_tokens)


def question_of(record: Record, tokeniser: ResponseTokeniser) -> str:
    """Return what a response answers, as text: the question itself rather than a prompt that was made from it.

    Raises:
        RecordError: the record has no prompt.
    """
    if record.get("question") is not None:
        return record.text("question")
    if record.get("messages") is None and record.get("prompt") is not None:
        return record.text("prompt")
    if record.get("messages") is not None:
        turns, _ = record.split_messages()
        return _conversation(turns)
    prompt = record.prompt
    assert prompt.token_ids is not None  # without any of the above there is nothing else, or an error was raised
    return tokeniser.decode(prompt.token_ids).strip()


def _conversation(turns: Sequence[dict[str, Any]]) -> str:
    """Return a single user's turn as it is, several with who speaks; system turns tell how to answer, not what."""
    spoken = [turn for turn in turns if turn["role"] != "system"]
    if len(spoken) == 1:
        return str(spoken[0]["content"])
    return "\n".join(f"{turn['role'].capitalize()}: {turn['content']}" for turn in spoken)
