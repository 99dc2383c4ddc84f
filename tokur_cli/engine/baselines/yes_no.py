"""Questions to the model with two possible answers: the probability of the first, from one forward pass each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from tokur_cli.engine.baselines.layers import TextPasses
from tokur_cli.records.errors import TokurError

TRUE_OR_FALSE = (("True", "False"), ("true", "false"), ("TRUE", "FALSE"), ("(A)", "(B)"), ("A", "B"))
YES_OR_NO = (("Yes", "No"), ("yes", "no"), ("YES", "NO"))
"""The forms that two answers may take, with or without a space before them."""


@dataclass(frozen=True)
class Verbalizer:
    """A form of two answers, by the token at which they differ.

    Args:
        shared_ids: the ids that both begin with.
        first: the id with which the first answer goes on.
        second: the id with which the second goes on.
    """

    shared_ids: tuple[int, ...]
    first: int
    second: int


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
                found[Verbalizer(tuple(one[:place]), one[place], other[place])] = None
    if not found:
        raise TokurError(f"the model's tokenizer does not tell {forms[0][0]} from {forms[0][1]}")
    return list(found)


class YesNoQuestion(TextPasses):
    """Asks questions with two possible answers.

        p = Σ_f p(first_f) / Σ_f (p(first_f) + p(second_f))

    over all forms f of the answers, under the mean weights, the softmax in float32.

    Args:
        model: the model, in evaluation mode.
        verbalizers: the forms of the answers.
        batch_tokens: positions in a batch; halved for good when memory does not suffice.
    """

    def __init__(self, model: PreTrainedModel, verbalizers: Sequence[Verbalizer], batch_tokens: int) -> None:
        super().__init__(model, batch_tokens)
        # A sequence that goes on with "(" serves the forms that begin so and those that do not
        shared = {each.shared_ids for each in verbalizers}
        longest = [one for one in shared if not any(one != other and other[: len(one)] == one for other in shared)]
        self._served: dict[tuple[int, ...], list[Verbalizer]] = {ids: [] for ids in sorted(longest)}
        for each in verbalizers:
            serving = next(ids for ids in self._served if ids[: len(each.shared_ids)] == each.shared_ids)
            self._served[serving].append(each)
        self._ids = sorted({index for each in verbalizers for index in (*each.shared_ids, each.first, each.second)})

    def ask(self, prompts: Sequence[Sequence[int]]) -> list[float]:
        """Return p of the first answer after each prompt.

        Args:
            prompts: at least one token id each.

        Raises:
            TokurError: memory does not suffice for a prompt.
        """
        endings = list(self._served)
        sequences = [[*prompt, *ending] for prompt in prompts for ending in endings]

        def compute(batch: Sequence[int]) -> list[Tensor]:
            """Return for each sequence (F, 2) log-probabilities of both answers of the forms that its ending serves."""
            outputs = self.run([sequences[index] for index in batch])
            # Where the next token is predicted: at the prompt's end, and after each token of the ending
            counts = [1 + len(endings[index % len(endings)]) for index in batch]
            ends = [len(sequences[index]) for index in batch]
            hidden = outputs["last_hidden_state"]
            states = torch.cat([hidden[row, ends[row] - count : ends[row]] for row, count in enumerate(counts)])
            log_p = self.of_logits(outputs, states, lambda logits: logits.log_softmax(-1)[:, self._ids])
            return [
                torch.stack([self._of_answers(form, rows) for form in self._served[endings[index % len(endings)]]])
                for index, rows in zip(batch, log_p.cpu().double().split(counts), strict=True)
            ]

        found = self.compute(sequences, compute)
        log_p = [torch.cat(found[first : first + len(endings)]) for first in range(0, len(found), len(endings))]
        return [float(each.logsumexp(0).softmax(0)[0]) for each in log_p]

    def _of_answers(self, form: Verbalizer, log_p: Tensor) -> Tensor:
        """Return (2,) log-probabilities of the shared ids followed by the first and by the second answer's."""
        before = sum(log_p[step, self._ids.index(index)] for step, index in enumerate(form.shared_ids))
        return before + log_p[len(form.shared_ids), [self._ids.index(form.first), self._ids.index(form.second)]]
