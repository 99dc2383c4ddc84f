"""Questions to the model with two possible answers: the probability of the first, from one forward pass each."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from tokur_cli.engine.baselines.layers import TextPasses
from tokur_cli.records.errors import TokurError

TRUE_OR_FALSE = (("True", "False"), ("true", "false"), ("TRUE", "FALSE"), ("(A)", "(B)"), ("A", "B"))
YES_OR_NO = (("Yes", "No"), ("yes", "no"), ("YES", "NO"))
"""The forms that two answers may take, with or without a space before them."""
Verbalizer = tuple[tuple[int, ...], tuple[int, ...]]
"""A form of two answers: the ids of each up to the token at which they differ, the last of both."""


def find_verbalizers(tokenizer: PreTrainedTokenizerBase, forms: Sequence[tuple[str, str]]) -> list[Verbalizer]:
    """Return how two answers begin in a tokenizer's ids, each way once.

    A form counts from the token at which it differs from its counterpart: ``True`` and ``False`` by their first
    tokens, ``(A)`` and ``(B)`` by the letter after what may be a token for the parenthesis. Forms that a tokenizer
    does not tell apart do not count.

    Args:
        tokenizer: the model's.
        forms: (first answer, second answer); looked up with and without a space before them.

    Raises:
        TokurError: the tokenizer can tell none of them apart.
    """
    found: dict[Verbalizer, None] = {}
    for space in ("", " "):
        for texts in forms:
            one, other = (tokenizer(space + text, add_special_tokens=False)["input_ids"] for text in texts)
            differing = (place for place, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1])
            if (place := next(differing, None)) is not None:
                found[tuple(one[: place + 1]), tuple(other[: place + 1])] = None
    if not found:
        raise TokurError(f"the model's tokenizer does not tell {forms[0][0]} from {forms[0][1]}")
    return list(found)


def ask(passes: TextPasses, verbalizers: Sequence[Verbalizer], prompts: Sequence[Sequence[int]]) -> list[float]:
    """Return the probability of the first of two answers after each prompt, under the mean weights.

        p = Σ_f p(first_f) / Σ_f (p(first_f) + p(second_f))

    over all forms f of the answers, the softmax in float32.

    Args:
        passes: of the model.
        verbalizers: the forms of the answers.
        prompts: at least one token id each.

    Raises:
        TokurError: memory does not suffice for a prompt.
    """
    # A sequence that goes on with "(" serves the forms that begin so and those that do not
    shared = {first[:-1] for first, _ in verbalizers}
    endings = sorted(one for one in shared if not any(one != other and other[: len(one)] == one for other in shared))
    sequences = [[*prompt, *ending] for prompt in prompts for ending in endings]
    served_by = {
        form: next(place for place, ending in enumerate(endings) if ending[: len(form[0]) - 1] == form[0][:-1])
        for form in verbalizers
    }
    ids = sorted({index for form in verbalizers for answer in form for index in answer})

    def compute(batch: Sequence[int]) -> Sequence[Tensor]:
        """Return log p of ``ids`` at each sequence's prompt's end and after each token of its ending, (n, ids)."""
        outputs = passes.run([sequences[index] for index in batch])
        counts = [1 + len(endings[index % len(endings)]) for index in batch]
        ends = [len(sequences[index]) for index in batch]
        hidden = outputs["last_hidden_state"]
        states = torch.cat([hidden[row, ends[row] - count : ends[row]] for row, count in enumerate(counts)])
        log_p = passes.of_logits(outputs, states, lambda logits: logits.log_softmax(-1)[:, ids])
        of_each: Sequence[Tensor] = log_p.cpu().double().split(counts)
        return of_each

    def log_p_of(answer: tuple[int, ...], log_p: Tensor) -> float:
        return sum(float(log_p[step, ids.index(index)]) for step, index in enumerate(answer))

    found = passes.compute(sequences, compute)
    answers = []
    for first in range(0, len(found), len(endings)):
        rows = [(form, found[first + place]) for form, place in sorted(served_by.items(), key=lambda item: item[1])]
        log_p = torch.tensor([[log_p_of(answer, row) for answer in form] for form, row in rows], dtype=torch.float64)
        answers.append(float(log_p.logsumexp(0).softmax(0)[0]))
    return answers
